//! Tests that the operator's memory stays small when a tenant creates hundreds of large objects with osdpl's label, or
//! release records that unpack to more than 128 MiB. The test creates them first in the tenant's namespace, and then in
//! the namespace of the cloud.

use std::io::Write as _;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Resource};
use osdpl_core::api::{DEPLOYMENT_LABEL, OpenStackDeployment};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::memory::{Baseline, peak};
use crate::cloud::{NAME, StatusAccess, services, with_values};
use crate::world::{World, run_test};

/// The test creates this number of large Secrets and this number of large ConfigMaps in each namespace. Together, their
/// data has 125 MiB.
const OBJECTS: usize = 250;
/// The size of each object in bytes.
const SIZE: usize = 256 << 10;

/// The label of all objects that the test creates, by which [`drain`] finds and deletes them.
const FLOOD: &str = "test-flood";

/// The maximum number of large objects that the test creates at the same time.
const CONCURRENT: usize = 16;

/// Creates [`OBJECTS`] large objects with osdpl's label. The API server lists objects by name: half of the large
/// objects come before the objects that osdpl created, and half after them.
async fn flood<K>(world: &World, namespace: &str, data: &Value)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Serialize
        + 'static,
{
    let api: Api<K> = Api::namespaced(world.client.clone(), namespace);
    let labels = json!({DEPLOYMENT_LABEL: format!("{}.{NAME}", world.namespace), FLOOD: "true"});
    let create = |index: usize| {
        let name = format!("{}-flood-{index}", if index.is_multiple_of(2) { "a" } else { "z" });
        let object = json!({"metadata": {"name": name, "labels": labels}, "data": data});
        let (api, object) = (api.clone(), serde_json::from_value(object).unwrap());
        async move { drop(api.create(&PostParams::default(), &object).await.unwrap()) }
    };
    futures::stream::iter(0..OBJECTS).map(create).buffer_unordered(CONCURRENT).collect::<Vec<()>>().await;
}

/// Deletes the objects with the label [`FLOOD`], so that the check at the end of the test need not search these large
/// objects for leaked secrets.
async fn drain(world: &World, namespace: &str) {
    let flood = ListParams::default().labels(FLOOD);
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), namespace);
    drop(secrets.delete_collection(&DeleteParams::default(), &flood).await.unwrap());
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), namespace);
    drop(maps.delete_collection(&DeleteParams::default(), &flood).await.unwrap());
}

/// Compresses a text with gzip: `begin`, then `blanks` filler letters, then `end`. Writes the letters in pieces, so
/// that the test never holds all of them in memory.
fn gzip(begin: &str, blanks: usize, end: &str) -> Vec<u8> {
    let mut gzip = Command::new("gzip").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = gzip.stdin.take().unwrap();
    let (begin, end) = (begin.to_owned(), end.to_owned());
    let writer = std::thread::spawn(move || {
        input.write_all(begin.as_bytes()).unwrap();
        for _ in 0..blanks >> 20 {
            input.write_all(&vec![b'x'; 1 << 20]).unwrap();
        }
        input.write_all(end.as_bytes()).unwrap();
    });
    let output = gzip.wait_with_output().unwrap();
    writer.join().unwrap();
    output.stdout
}

/// Creates a small release record of horizon that unpacks to 128 MiB. `field` says which part of the record is so
/// large: the values (`config`), the `manifest` or the `hooks`. `attempt` is the value of the record's label
/// `osdpl.dev/attempt`; see [`attempt`].
async fn create_bomb(world: &World, namespace: &str, field: &str, attempt: &str) {
    let info = json!({"first_deployed": "2026-01-01T00:00:00Z", "last_deployed": "2026-01-01T00:00:00Z", "status": "deployed"});
    let head = json!({"name": "horizon", "namespace": namespace, "version": 1, "info": info}).to_string();
    let (open, close) = match field {
        "config" => ("{\"a\": \"", "\"}"),
        "hooks" => ("[{\"name\": \"h\", \"kind\": \"Job\", \"manifest\": \"", "\"}]"),
        _ => ("\"", "\""),
    };
    let begin = format!("{}, \"{field}\": {open}", head.strip_suffix('}').unwrap());
    let payload = gzip(&begin, 128 << 20, &format!("{close}}}"));
    assert!(payload.len() < 1 << 18, "the Secret of the record must be small, but has {} bytes", payload.len());
    let labels = json!({
        "owner": "helm", "name": "horizon", "status": "deployed", "version": "1",
        "osdpl.dev/release": "horizon", "osdpl.dev/attempt": attempt, FLOOD: "true",
    });
    let record = json!({
        "metadata": {"name": "sh.helm.release.v1.horizon.v1", "labels": labels}, "type": "helm.sh/release.v1",
        "stringData": {"release": STANDARD.encode(payload)},
    });
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), namespace);
    drop(secrets.create(&PostParams::default(), &serde_json::from_value(record).unwrap()).await.unwrap());
}

/// Returns a valid value of the label `osdpl.dev/attempt` for a forged record: the value that memcached's first release
/// record has.
///
/// Call this function before the test upgrades memcached: helm keeps only the newest records, and deletes the first
/// one.
async fn attempt(world: &World) -> String {
    let genuine = world.api::<Secret>().get("sh.helm.release.v1.memcached.v1").await.unwrap();
    genuine.metadata.labels.unwrap()["osdpl.dev/attempt"].clone()
}

/// Changes memcached's memory in the spec, and waits until the operator has upgraded memcached. `memory` must be 300
/// plus the revision that the upgrade creates.
async fn check_still_works(world: &World, memory: u32) {
    let values = json!({"conf": {"memcached": {"memory": memory}}});
    world.apply(&with_values(services(&["mariadb", "memcached"]), "memcached", values)).await;
    let is_done = |cloud: &OpenStackDeployment| {
        let child = cloud.child("memcached");
        (child.ready && child.revision == Some(i64::from(memory - 300))).then_some(())
    };
    world.until("memcached is upgraded", is_done).await;
}

#[test]
#[ignore = "takes a minute: creates 256 MiB of objects: make faults"]
fn floods_and_record_bombs_use_bounded_memory() {
    run_test("floods", async |world| {
        let other = format!("{}-tenant", world.namespace);
        world.permit(&other).await;
        let operator = world.operator().start().await;
        world.apply(&services(&["mariadb", "memcached"])).await;
        world.until_ready().await;
        let (credentials, baseline) = (world.credentials("mariadb").await, Baseline::of(&operator));
        let attempt = attempt(world).await;
        let text = json!({"key": "x".repeat(SIZE)});
        let bytes = json!({"key": STANDARD.encode("x".repeat(SIZE))});

        flood::<ConfigMap>(world, &other, &text).await;
        flood::<Secret>(world, &other, &bytes).await;
        create_bomb(world, &other, "config", &attempt).await;
        check_still_works(world, 302).await;
        baseline.check("a flood and a record in another namespace");

        flood::<ConfigMap>(world, &world.namespace, &text).await;
        flood::<Secret>(world, &world.namespace, &bytes).await;
        check_still_works(world, 303).await;
        let full = format!(
            "the Secrets with the label {DEPLOYMENT_LABEL} in namespace {} have more than 4 MiB",
            world.namespace
        );
        let reports = |cloud: &OpenStackDeployment| cloud.status().message.contains(&full).then_some(());
        world.until("the status says that the cache of Secrets is full", reports).await;
        baseline.check("a flood in the namespace of the cloud");

        for (field, memory) in [("config", 304), ("manifest", 305), ("hooks", 306)] {
            create_bomb(world, &world.namespace, field, &attempt).await;
            let find = |cloud: &OpenStackDeployment| {
                let message = cloud.child("horizon").message;
                message.contains("the content unpacks to more than").then_some(message)
            };
            let message = world.until("the status names the record", find).await;
            assert!(message.contains("sh.helm.release.v1.horizon.v1"), "{message}");
            check_still_works(world, memory).await;
            baseline.check(&format!("a record with large {field}"));
            let secrets = world.api::<Secret>();
            drop(secrets.delete("sh.helm.release.v1.horizon.v1", &DeleteParams::default()).await.unwrap());
        }

        // A second operator lists all large objects when it starts. Even so, its peak memory must not be much higher
        // than that of the first operator.
        let first = peak(&operator);
        operator.kill();
        let logged = world.operator_log().len();
        let operator = world.operator().start().await;
        check_still_works(world, 307).await;
        let full = format!("the Secrets with the label {DEPLOYMENT_LABEL} have more than 4 MiB: before the first pass");
        assert!(world.operator_log()[logged..].contains(&full), "the operator must log that it skipped Secrets");
        let second = peak(&operator);
        println!("peak memory: {first} KiB of the first operator, {second} KiB of the second operator");
        assert!(
            second < first + (32 << 10),
            "the second operator must not need much more memory than the first: {second} KiB instead of {first} KiB"
        );
        assert_eq!(world.credentials("mariadb").await, credentials);
        drain(world, &world.namespace).await;
        drain(world, &other).await;
    });
}
