use proptest::prelude::*;
use serde_json::Value;

use super::super::{decode, decode_hooks};
use super::*;

const BY_HELM_3: &str = include_str!("../decode/by-helm-3.22.b64");
const BY_HELM_4: &str = include_str!("../decode/by-helm-4.3.b64");

fn payload(text: &str) -> Vec<u8> {
    STANDARD.encode(text).into_bytes()
}

fn tree(payload: &[u8]) -> Value {
    serde_json::from_str(&unpacked(payload).unwrap()).unwrap()
}

#[test]
fn changes_only_status_and_description() {
    for text in [BY_HELM_3, BY_HELM_4] {
        let before = text.trim().as_bytes();
        let after = mark_payload_failed(before, "its maker died").unwrap();
        let mut expected = tree(before);
        expected["info"]["status"] = "failed".into();
        expected["info"]["description"] = "its maker died".into();
        assert_eq!(tree(&after), expected);
        let record = decode(&after).unwrap();
        assert_eq!((record.status, record.description.as_str()), (Status::Failed, "its maker died"));
        assert_eq!(decode_hooks(before).unwrap().1, record.hooks);
    }
}

#[test]
fn preserves_unknown_fields_and_the_notation_of_numbers() {
    let before = r#"{"new":{"deep":[1e400,0.10,12345678901234567890123]},"info":{"later":"é","status":"pending-upgrade"},"version":7}"#;
    let after = unpacked(&mark_payload_failed(&payload(before), "x").unwrap()).unwrap();
    for kept in [r#""new":{"deep":[1e400,0.10,12345678901234567890123]}"#, r#""later":"é""#, r#""version":7"#] {
        assert!(after.contains(kept), "{after}\nlacks {kept}");
    }
    assert!(after.contains(r#""status":"failed""#) && !after.contains("pending"));
}

#[test]
fn rewrites_the_label_and_keeps_the_resource_version() {
    let mut secret = Secret::default();
    secret.metadata.resource_version = Some("42".into());
    secret.metadata.labels =
        Some([("status", "pending-install"), ("name", "a")].map(|(key, value)| (key.into(), value.into())).into());
    secret.data = Some([(SECRET_KEY.to_owned(), ByteString(BY_HELM_4.trim().into()))].into());
    let rewritten = mark_secret_failed(secret, "its maker died").unwrap();
    assert_eq!(rewritten.metadata.resource_version.as_deref(), Some("42"));
    let labels = rewritten.metadata.labels.unwrap();
    assert_eq!((labels["status"].as_str(), labels["name"].as_str()), ("failed", "a"));
    assert_eq!(decode(&rewritten.data.unwrap()[SECRET_KEY].0).unwrap().status, Status::Failed);
}

#[test]
fn rejects_payloads_that_are_not_releases() {
    for (text, why) in [
        ("[]", "the record is not a JSON object"),
        ("{}", "it has no field \"info\""),
        (r#"{"info": 1}"#, "its field \"info\" is not a JSON object"),
    ] {
        let error = mark_payload_failed(&payload(text), "x").unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(
        mark_secret_failed(Secret::default(), "x")
            .unwrap_err()
            .to_string()
            .contains("no data under the key \"release\"")
    );
    assert!(matches!(mark_payload_failed(b"?", "x"), Err(DecodeError::Damaged(_))));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in ".{0,40}") {
        let _ = mark_payload_failed(&bytes, &text);
        let _ = mark_payload_failed(&payload(&text), &text);
    }
}
