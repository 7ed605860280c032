use std::io::Write;

use base64::Engine;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use serde_json::json;

use super::super::{DeletePolicy, Event, LastRun, Phase};
use super::*;

/// Release records that helm 3.22 and helm 4.3 wrote while `helm uninstall` waited for a pre-delete hook. Before the
/// uninstall, two upgrades of the release had failed.
const BY_HELM_3: &str = include_str!("by-helm-3.22.b64");
const BY_HELM_4: &str = include_str!("by-helm-4.3.b64");

fn packed(json: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(json).unwrap();
    STANDARD.encode(packer.finish().unwrap()).into_bytes()
}

fn payload(value: &Value) -> Vec<u8> {
    packed(value.to_string().as_bytes())
}

#[test]
fn reads_records_of_both_helm_versions() {
    for (text, server_side) in [(BY_HELM_3, false), (BY_HELM_4, true)] {
        let record = decode(text.trim().as_bytes()).unwrap();
        assert_eq!((record.name.as_str(), record.version, record.status), ("rel2", 3, Status::Uninstalling));
        assert_eq!(record.server_side, server_side);
        assert_eq!(Value::Object(decode_values(text.trim().as_bytes()).unwrap()), json!({"cm": false, "hook": true}));
        assert_eq!((record.chart.name.as_str(), record.chart.version.as_str()), ("lab", "1.0.0"));
        assert!(record.first_deployed < record.last_deployed);
        let [hook] = &record.hooks[..] else { panic!("{:?}", record.hooks) };
        assert_eq!((hook.kind.as_str(), hook.name.as_str()), ("Job", "lab-db-sync"));
        assert_eq!(hook.events, [Event::PostInstall, Event::PostUpgrade, Event::PreDelete]);
        assert_eq!(hook.delete_policies, [DeletePolicy::BeforeHookCreation]);
        assert_eq!(hook.phase(), Phase::Running);
        assert!(matches!(&hook.last_run, Some(LastRun { started_at: Some(_), completed_at: None, .. })));
        assert_eq!(decode_hooks(text.trim().as_bytes()).unwrap(), (record.status, record.hooks.clone()));
        let objects = decode_objects(text.trim().as_bytes()).unwrap();
        assert_eq!((objects.manifest.len(), objects.hooks[0].name.as_str()), (0, "lab-db-sync"));
    }
}

#[test]
fn reads_uncompressed_records() {
    let record = json!({"name": "a", "namespace": "b", "version": 1, "info": {"status": "deployed"}});
    let encoded = STANDARD.encode(record.to_string());
    assert_eq!(decode(encoded.as_bytes()).unwrap().name, "a");
}

#[test]
fn accepts_empty_times_null_lists_and_hooks_without_runs() {
    let record = decode(&payload(&json!({
        "name": "a", "namespace": "b", "version": 1, "config": null, "chart": null,
        "info": {"status": "failed", "first_deployed": "", "last_deployed": "0001-01-01T00:00:00Z", "deleted": 7},
        "hooks": [
            {"name": "x", "kind": "Job", "events": null, "delete_policies": null,
             "last_run": {"started_at": "", "completed_at": "", "phase": ""}},
            {"name": "y", "kind": "Job", "events": ["crd-install"], "last_run": null, "weight": -5},
        ],
    })))
    .unwrap();
    assert_eq!((record.first_deployed, record.last_deployed), (None, None));
    assert_eq!((&record.hooks[0].last_run, &record.hooks[1].last_run), (&None, &None));
    assert_eq!((record.hooks[1].weight, &record.hooks[1].events[..]), (-5, &[Event::Other][..]));
}

#[test]
fn debug_output_hides_values() {
    let record = decode(&payload(&json!({
        "name": "a", "namespace": "b", "version": 1, "config": {"password": "hunter22"},
        "info": {"status": "failed", "description": "refused hunter22"},
    })))
    .unwrap();
    assert!(!format!("{record:?}").contains("hunter22"));
}

#[test]
fn errors_of_damaged_records_have_a_remedy() {
    let good = payload(&json!({"name": "a", "namespace": "b", "version": 1, "info": {"status": "deployed"}}));
    let cases: [(&str, Vec<u8>, &str); 12] = [
        ("empty", Vec::new(), "damaged"),
        ("no base64", b"!!!!".to_vec(), "damaged"),
        ("cut off", good[..good.len() / 2].to_vec(), "damaged"),
        ("only gzip's first bytes", STANDARD.encode([0x1f, 0x8b, 0x08, 0xff, 0xff]).into_bytes(), "damaged"),
        ("no JSON", packed(b"hello"), "not JSON at line 1"),
        ("cut JSON", packed(b"{\"name\": "), "damaged"),
        ("not an object", packed(b"[]"), "wrong type"),
        (
            "no name",
            payload(&json!({"namespace": "b", "version": 1, "info": {"status": "deployed"}})),
            "wrong type or is missing",
        ),
        ("no info", payload(&json!({"name": "a", "namespace": "b", "version": 1})), "wrong type or is missing"),
        (
            "negative",
            payload(&json!({"name": "a", "namespace": "b", "version": -1, "info": {"status": "deployed"}})),
            "wrong type",
        ),
        (
            "hooks",
            payload(&json!({"name": "a", "namespace": "b", "version": 1, "info": {"status": "deployed"}, "hooks": 7})),
            "wrong type",
        ),
        (
            "status",
            payload(&json!({"name": "a", "namespace": "b", "version": 1, "info": {"status": "odd"}})),
            "\"odd\" is not a release status",
        ),
    ];
    for (case, bytes, expected) in cases {
        let error = decode(&bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{case}: {error}");
        assert!(error.contains("restore the Secret from a backup"), "{case}: {error}");
    }
}

#[test]
fn errors_never_quote_the_record() {
    let odd = payload(&json!({"name": "a", "namespace": "b", "version": "hunter22", "info": {"status": "deployed"}}));
    assert!(!decode(&odd).unwrap_err().to_string().contains("hunter22"));
}

#[test]
fn limits_the_unpacked_size() {
    let blank = vec![b' '; usize::try_from(UNPACKED_MAX).unwrap() + 1];
    let bomb = packed(&blank);
    assert!(
        bomb.len() < 1024 * 1024,
        "the packed payload is small enough for a Secret, so that only the limit on unpacked bytes can refuse it"
    );
    let error = decode(&bomb).unwrap_err();
    assert!(matches!(error, DecodeError::TooLarge));
    assert!(error.to_string().contains("unpacks to more than 16 MiB or 250000 items"), "{error}");
}

#[test]
fn limits_the_number_of_items() {
    let start = r#"{"name":"a","namespace":"b","version":1,"info":{"status":"deployed"},"manifest":"[[[,,,","#;
    let bomb = |field: &str, item: &str, count| {
        let items = vec![item; count].join(",");
        packed(format!("{start}\"{field}\":{{\"a\":[{items}]}}}}").as_bytes())
    };
    let is_too_large = |error: Option<DecodeError>| matches!(error, Some(DecodeError::TooLarge));
    for item in ["0", "{}", "[]"] {
        let bomb = bomb("config", item, ITEMS_MAX);
        assert!(is_too_large(decode(&bomb).err()) && is_too_large(decode_values(&bomb).err()), "{item}");
        assert!(is_too_large(decode_hooks(&bomb).err()), "{item}");
    }
    assert_eq!(decode_values(&bomb("config", "0", 10_000)).unwrap()["a"].as_array().unwrap().len(), 10_000);
    let manifest = "kind: A\nmetadata: {name: a}\n---\n".repeat(10_001);
    let error = decode_objects(&payload(&json!({"manifest": manifest}))).unwrap_err().to_string();
    assert!(error.contains("its manifest has more than 10000 objects"), "{error}");
}

#[test]
fn limits_the_paths_of_fields() {
    let manifest = |length: usize, fields: usize| {
        let items: Vec<String> = (0..fields).map(|index| format!("f{index}: 1")).collect();
        format!("kind: A\nmetadata: {{name: a}}\n? {}\n: {{{}}}\n", "k".repeat(length), items.join(", "))
    };
    let decode = |manifest: &str| {
        let hook = json!({"manifest": manifest});
        [json!({"manifest": manifest}), json!({"hooks": [hook]})].map(|record| decode_objects(&payload(&record)))
    };
    // The paths of the fields would need 20 GB in memory: each of the 100,000 paths has 200,000 characters.
    for result in decode(&manifest(200_000, 100_000)) {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("the names of their fields need more than 16 MiB"), "{error}");
    }
    for result in decode(&manifest(100, 10_000)) {
        let objects = result.unwrap();
        assert_eq!([objects.manifest, objects.hooks].concat()[0].fields.len(), 10_000);
    }
}

#[test]
fn rejects_deep_nesting() {
    let deep = [&b"{\"config\":"[..], &b"[".repeat(100_000)].concat();
    assert!(decode(&packed(&deep)).is_err());
}

#[test]
fn separates_objects_of_manifest_and_hooks() {
    let objects = decode_objects(&payload(&json!({
        "manifest": "---\nkind: Deployment\nmetadata: {name: api}\n",
        "hooks": [{"manifest": "kind: Secret\nmetadata: {name: keys, annotations: {helm.sh/resource-policy: keep}}"}],
    })))
    .unwrap();
    assert_eq!((objects.manifest[0].name.as_str(), objects.manifest[0].keep), ("api", false));
    assert_eq!((objects.hooks[0].name.as_str(), objects.hooks[0].keep), ("keys", true));
    let broken = payload(&json!({"manifest": "kind: [", "hooks": null}));
    assert!(matches!(decode_objects(&broken), Err(DecodeError::NoRelease(_))));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = (decode(&bytes), decode_hooks(&bytes), decode_objects(&bytes));
        let wrapped = STANDARD.encode(&bytes);
        let _ = decode(wrapped.as_bytes());
        let _ = decode(&packed(&bytes));
    }

    #[test]
    fn corrupt_records_never_panic(index in 0..2336_usize, byte: u8) {
        let mut payload = BY_HELM_4.trim().as_bytes().to_vec();
        let index = index % payload.len();
        payload[index] = byte;
        let _ = decode(&payload);
        let _ = decode(&payload[..index]);
    }
}
