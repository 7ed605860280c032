//! Unlocks a release whose newest record is still pending, because the helm process that wrote the record died.
//!
//! helm refuses to upgrade a release while its newest record is pending. helm reads the status from the payload of the
//! record's Secret and not from the Secret's label, so osdpl rewrites the payload. osdpl changes only the status and
//! the description in the payload. All other values stay the same byte by byte, including unknown fields, the notation
//! of numbers and the chart.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::value::{RawValue, to_raw_value};

use super::decode::{UNPACKED_MAX, unpack};
use super::{DecodeError, SECRET_KEY, Status};

/// A JSON object whose values are not parsed, so that each value keeps its notation.
type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// Returns the payload of a record with the status changed to `failed`, and the description changed to `description`.
/// All other fields are unchanged.
///
/// The caller must store the payload with PUT and with the `resourceVersion` of the Secret that contained `payload`. If
/// the helm process that wrote the record is alive after all and has changed the Secret in the meantime, the API server
/// refuses the PUT.
///
/// # Errors
/// Returns an error if the payload is not a release record.
fn mark_payload_failed(payload: &[u8], description: &str) -> Result<Vec<u8>, DecodeError> {
    let text = unpacked(payload)?;
    let mut record = fields(&text, "the record")?;
    let info = record.get("info").ok_or_else(|| DecodeError::NoRelease("it has no field \"info\"".to_owned()))?;
    let mut info = fields(info.get(), "its field \"info\"")?;
    let (status, description) = (raw(Status::Failed.as_str())?, raw(description)?);
    info.insert("status".to_owned(), &status);
    info.insert("description".to_owned(), &description);
    let info = raw(&info)?;
    record.insert("info".to_owned(), &info);
    pack(&record)
}

/// Marks the record in a Secret as failed: changes the status in the payload ([`mark_payload_failed`]) and in the
/// Secret's label `status`.
///
/// The Secret's name and `resourceVersion` are unchanged.
///
/// # Errors
/// Returns an error if the Secret does not contain a record.
pub fn mark_secret_failed(mut secret: Secret, description: &str) -> Result<Secret, DecodeError> {
    let data = secret.data.get_or_insert_default();
    let payload = data
        .get(SECRET_KEY)
        .ok_or_else(|| DecodeError::NoRelease(format!("the secret has no data under the key {SECRET_KEY:?}")))?;
    let rewritten = mark_payload_failed(&payload.0, description)?;
    data.insert(SECRET_KEY.to_owned(), ByteString(rewritten));
    let labels = secret.metadata.labels.get_or_insert_default();
    labels.insert("status".to_owned(), Status::Failed.to_string());
    Ok(secret)
}

fn unpacked(payload: &[u8]) -> Result<String, DecodeError> {
    let mut reader = unpack(payload)?;
    let mut text = String::new();
    reader.read_to_string(&mut text).map_err(DecodeError::Damaged)?;
    if text.len() as u64 >= UNPACKED_MAX { Err(DecodeError::TooLarge) } else { Ok(text) }
}

fn fields<'a>(text: &'a str, what: &str) -> Result<Fields<'a>, DecodeError> {
    serde_json::from_str(text).map_err(|_| DecodeError::NoRelease(format!("{what} is not a JSON object")))
}

fn raw(value: &(impl serde::Serialize + ?Sized)) -> Result<Box<RawValue>, DecodeError> {
    to_raw_value(value)
        .map_err(|error| DecodeError::NoRelease(format!("its fields cannot be written as JSON again: {error}")))
}

/// Encodes a record as helm does: as JSON, then with gzip, then with base64. Compresses as much as possible, so that
/// the record's Secret stays below the maximum size of a Secret.
fn pack(record: &Fields<'_>) -> Result<Vec<u8>, DecodeError> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let text = raw(record)?;
    encoder.write_all(text.get().as_bytes()).map_err(DecodeError::Damaged)?;
    let packed = encoder.finish().map_err(DecodeError::Damaged)?;
    Ok(STANDARD.encode(packed).into_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::{decode, decode_hooks};
    use super::*;

    const BY_HELM_3: &str = include_str!("decode/by-helm-3.22.b64");
    const BY_HELM_4: &str = include_str!("decode/by-helm-4.3.b64");

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
}
