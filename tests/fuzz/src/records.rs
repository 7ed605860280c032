//! Fuzz target for release records. Everybody who can create Secrets in a namespace of the cloud can write such
//! records.
//!
//! An input that is base64 is the payload of a record. The target packs other inputs into a payload, so that libFuzzer
//! can change their text: it encodes gzip data as base64, and compresses and encodes JSON.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::iter;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use osdpl_core::drift::list_watched_objects;
use osdpl_core::release::{self, RecordMeta, ReleaseKey, SECRET_KEY};
use osdpl_core::scrub::Scrubber;
use serde_json::{Value, json};

/// The first bytes of gzip data.
const GZIP: [u8; 2] = [0x1f, 0x8b];

pub fn run(input: &[u8]) {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=\n".contains(byte);
    let payload = match input {
        _ if input.starts_with(&GZIP) => STANDARD.encode(input).into_bytes(),
        _ if input.iter().all(is_base64) => input.to_vec(),
        _ => STANDARD.encode(gzip(input)).into_bytes(),
    };
    if let Ok(record) = release::decode(&payload) {
        drop(Scrubber::new(["hunter22", "s3cret"]).scrub(&record.description));
    }
    if let Ok(objects) = release::decode_objects(&payload) {
        drop(list_watched_objects(&objects.manifest, &ReleaseKey::new("openstack", "nova"), objects.server_side));
    }
    let _ = (release::decode_hooks(&payload).is_ok(), release::decode_values(&payload).is_ok());
    let _ = (release::decode_contents(&payload).is_ok(), release::decode_source(&payload).is_ok());
    let secret = secret(input, payload);
    let _ = RecordMeta::read(&secret.metadata);
    let _ = release::mark_secret_failed(secret, "its maker died");
}

pub fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(plain).and_then(|()| gzip.finish()).expect("memory accepts all writes")
}

/// Compresses a text after replacing its `@` with many copies of `part`. Never keeps the whole text in memory: the same
/// process creates the seeds and runs libFuzzer, which limits the process's peak memory.
fn gzip_repeated(text: &str, part: &str, copies: usize) -> Vec<u8> {
    let (before, after) = text.split_once('@').expect("the text has a place for the copies");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    let mut parts = iter::once(before).chain(iter::repeat_n(part, copies)).chain([after]).map(str::as_bytes);
    parts.try_for_each(|part| gzip.write_all(part)).expect("memory accepts all writes");
    gzip.finish().expect("memory accepts all writes")
}

/// Returns the Secret in which helm stores a release record. If the input is JSON, its fields `labels` and `secret` set
/// the labels and the name of the Secret.
fn secret(input: &[u8], payload: Vec<u8>) -> Secret {
    let mut secret = Secret::default();
    let tree: Value = serde_json::from_slice(input).unwrap_or_default();
    secret.metadata.labels = serde_json::from_value(tree["labels"].clone()).ok();
    secret.metadata.name = tree["secret"].as_str().map(str::to_owned);
    secret.data = Some(BTreeMap::from([(SECRET_KEY.to_owned(), ByteString(payload))]));
    secret
}

pub fn seeds() -> Vec<Vec<u8>> {
    let helm = ["3.22", "4.3"].map(|version| crate::read(&format!("src/core/release/decode/by-helm-{version}.b64")));
    let mut seeds: Vec<Vec<u8>> = helm.iter().map(|payload| payload.trim().as_bytes().to_vec()).collect();
    for payload in &helm {
        let gzip = STANDARD.decode(payload.trim()).expect("helm writes base64");
        let mut json = Vec::new();
        let mut plain = flate2::read::GzDecoder::new(&gzip[..]);
        std::io::Read::read_to_end(&mut plain, &mut json).expect("helm writes gzip");
        seeds.extend([gzip, json]);
    }
    let labels = json!({
        "owner": "helm", "name": "nova", "version": "2", "status": "deployed", "osdpl.dev/attempt": "pod_1.2",
        "osdpl.dev/inputs": "0123456789abcdef", "osdpl.dev/release": "nova", "osdpl.dev/cleaned-up": "2",
        "osdpl.dev/chart": "1.0.0_0123456789abcdef",
    });
    let record = |description: &str, manifest: &str| {
        // Use a large manifest only once, because two copies would exceed the limit of the payload.
        let in_hook = if manifest.len() < 1 << 20 { manifest } else { "" };
        let hook = json!({
            "name": "init", "kind": "Job", "path": "a.yaml", "manifest": in_hook, "events": ["post-install"], "weight": -5,
            "delete_policies": ["before-hook-creation"], "last_run": {"started_at": "2026-11-21T00:00:00Z", "phase": "Running"},
        });
        json!({
            "name": "nova", "namespace": "openstack", "version": 2, "manifest": manifest, "hooks": [hook], "apply_method": "ssa",
            "info": {"status": "pending-upgrade", "description": description, "first_deployed": "2026-11-21T00:00:00Z"},
            "chart": {"metadata": {"name": "nova", "version": "1.0.0", "dependencies": [{"name": "helm-toolkit", "alias": "x"}]},
                      "templates": [{"name": "templates/a.yaml", "data": "a2luZDogQQ=="}], "values": {"a": {"b": 1.0, "c": null}}},
            "config": {"a": {"b": null}}, "labels": labels, "secret": "sh.helm.release.v1.nova.v2",
        })
    };
    let manifest = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, annotations: {helm.sh/resource-policy: keep}}\nspec: {replicas: 0, template: {spec: {containers: [{name: a, env: [{name: A, value: b}]}]}}}\n---\napiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Service, metadata: {name: a}}]\n";
    seeds.push(record("Upgrade complete", manifest).to_string().into_bytes());
    // Add small payloads that unpack to megabytes. Some stay just below the decoder's limits. Each other payload is far
    // above one limit of the decoder. Without this limit, the payload would make the target exceed its memory limit.
    for (description, manifest) in [
        ("password=".repeat(170_000), String::new()),
        (String::new(), "a: &a [1]\nb: [*a, *a]\n".repeat(50_000)),
        (String::new(), "---\nkind: A\nmetadata: {name: a}\n".repeat(9_999)),
        (String::new(), "---\nkind: A\nmetadata: {name: a}\n".repeat(300_000)),
        (String::new(), "---\n".repeat(3_000_000)),
        (String::new(), format!("a: {}", "[".repeat(1_000_000))),
        (String::new(), format!("---\nkind: A\na: [&a {}{}]\n", "x".repeat(300_000), ", *a".repeat(99)).repeat(4)),
    ] {
        seeds.push(gzip(record(&description, &manifest).to_string().as_bytes()));
    }
    seeds.push(gzip_repeated(&record("@", "").to_string(), &"password=".repeat(1000), 15_000));
    for items in [240_000, 4_000_000] {
        let json = [b"{\"config\":{\"a\":[".to_vec(), b"{},".repeat(items), b"0]}}".to_vec()].concat();
        seeds.push(gzip(&json));
    }
    seeds
}
