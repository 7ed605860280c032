//! Objects that the operator cannot use: a release record that is or becomes too large, a damaged record, and a damaged
//! Secret with credentials. The status names the object and the remedy. When the object is usable again, the operator
//! continues.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use osdpl_core::api::{OpenStackDeployment, reason};
use osdpl_core::release::ATTEMPT_LABEL;
use serde_json::{Value, json};

use crate::cloud::{NAME, StatusAccess, services, with_values};
use crate::world::{World, run_test};

/// Waits until the message of a release in the status contains this text, and returns the message.
async fn until_message(world: &World, release: &str, text: &str) -> String {
    let find = |cloud: &OpenStackDeployment| {
        let message = cloud.child(release).message;
        message.contains(text).then_some(message)
    };
    world.until(&format!("the message of {release} contains {text:?}"), find).await
}

/// Returns a string that gzip cannot compress well.
fn incompressible(length: usize) -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(letters[usize::try_from(state % 64).unwrap()])
    };
    (0..length).map(letter).collect()
}

/// Returns a spec in which the values of memcached do not fit into a release record. Creates the ConfigMaps with these
/// values.
async fn with_large_values(world: &World, mut spec: Value) -> Value {
    let names = ["one", "two"];
    for name in names {
        let values = json!({name: incompressible(900_000)}).to_string();
        let map = json!({"metadata": {"name": name}, "data": {"values.yaml": values}});
        let map = serde_json::from_value(map).unwrap();
        world.api::<ConfigMap>().create(&PostParams::default(), &map).await.unwrap();
    }
    spec["services"]["memcached"]["releases"]["memcached"]["valuesFrom"] =
        names.map(|name| json!({"kind": "ConfigMap", "name": name})).into();
    spec
}

/// Waits until the status says that the record of memcached is too large, and what to do.
async fn until_too_large(world: &World) {
    let message = until_message(world, "memcached", "in one Secret, which may not be larger than 1 MiB").await;
    let release = format!("all objects of {}/memcached", world.namespace);
    assert!(message.contains(&release) && message.contains("make the values smaller"), "{message}");
    assert_eq!(world.until_reason(reason::FAILED).await.condition("Stalled").unwrap().status, "True");
}

#[test]
fn names_a_release_whose_record_is_too_large() {
    run_test("large-record", async |world| {
        let small = services(&["memcached"]);
        let large = with_large_values(world, small.clone()).await;
        let _operator = world.operator().start().await;
        world.apply(&large).await;
        until_too_large(world).await;
        world.apply(&small).await;
        world.until_ready().await;
        assert_eq!(world.helm_runs().len(), 2, "the operator must not retry with the same values");
    });
}

#[test]
fn keeps_the_old_revision_if_the_next_record_is_too_large() {
    run_test("large-upgrade", async |world| {
        let small = services(&["memcached"]);
        let large = with_large_values(world, small.clone()).await;
        let _operator = world.operator().start().await;
        world.apply(&small).await;
        world.until_ready().await;
        let before = world.pods().await;
        world.apply(&large).await;
        until_too_large(world).await;
        let newest = "sh.helm.release.v1.memcached.v2";
        assert!(
            world.api::<Secret>().get_opt(newest).await.unwrap().is_none(),
            "helm must not be able to store the record"
        );
        assert_eq!(world.helm_runs().len(), 2, "the operator must not retry with the same values");
        world.apply(&small).await;
        let child = world.until_ready().await.child("memcached");
        assert_eq!((child.revision, child.status.as_str()), (Some(1), "deployed"), "{child:?}");
        assert_eq!(world.pods().await, before, "no pod of the old revision must be replaced");
        assert_eq!(world.helm_runs().len(), 2, "helm must not run if the old revision has the values of the spec");
        let values = json!({"conf": {"memcached": {"memory": 300}}});
        world.apply(&with_values(small, "memcached", values)).await;
        let is_upgraded = |cloud: &OpenStackDeployment| {
            (cloud.is_ready() && cloud.child("memcached").revision == Some(2)).then_some(())
        };
        world.until("memcached is upgraded", is_upgraded).await;
    });
}

/// The maximum size of a Secret's data in bytes.
const SECRET_MAX: usize = 1 << 20;

/// Creates a release record of an interrupted upgrade of memcached, as if a helm process of the killed operator had
/// left it. The record's Secret already has the maximum size, so the operator can't write a longer record into it.
/// Returns the name of the Secret.
async fn create_abandoned_record(world: &World) -> String {
    let secrets: Api<Secret> = world.api();
    let mut record = secrets.get("sh.helm.release.v1.memcached.v1").await.unwrap();
    let attempt = record.labels()[ATTEMPT_LABEL].strip_suffix("-v1").unwrap().to_owned();
    let (version, status) = ("2", "pending-upgrade");
    let name = format!("sh.helm.release.v1.memcached.v{version}");
    record.metadata.name = Some(name.clone());
    (record.metadata.uid, record.metadata.resource_version, record.metadata.managed_fields) = (None, None, None);
    let labels = [("status", status), ("version", version), (ATTEMPT_LABEL, &format!("{attempt}-v{version}"))];
    record.labels_mut().extend(labels.map(|(label, value)| (label.to_owned(), value.to_owned())));
    let release = json!({
        "name": "memcached", "namespace": world.namespace, "version": 2, "info": {"status": status},
    });
    let release = ByteString(STANDARD.encode(release.to_string()).into_bytes());
    let padding = ByteString(vec![b'x'; SECRET_MAX - release.0.len()]);
    record.data = Some([("release".to_owned(), release), ("padding".to_owned(), padding)].into());
    secrets.create(&PostParams::default(), &record).await.unwrap();
    name
}

#[test]
fn names_a_record_that_is_too_large_to_unlock() {
    run_test("large-unlock", async |world| {
        let operator = world.operator().start().await;
        world.apply(&services(&["memcached"])).await;
        world.until_ready().await;
        operator.kill();
        let record = create_abandoned_record(world).await;
        let _operator = world.operator().start().await;
        let unlocked = format!("release record {record} can't be unlocked");
        let message = until_message(world, "memcached", &unlocked).await;
        assert!(message.contains("larger than 1 MiB") && message.contains("delete the Secret"), "{message}");
        world.api::<Secret>().delete(&record, &DeleteParams::default()).await.unwrap();
        let child = world.until_ready().await.child("memcached");
        assert_eq!((child.revision, child.status.as_str()), (Some(1), "deployed"), "{child:?}");
        assert_eq!(world.helm_runs().len(), 1, "the previous revision has the values of the spec");
    });
}

#[test]
fn names_a_damaged_record_and_continues_without_it() {
    run_test("damaged-record", async |world| {
        let _operator = world.operator().start().await;
        let spec = services(&["memcached"]);
        world.apply(&spec).await;
        world.until_ready().await;
        let changed = with_values(spec, "memcached", json!({"conf": {"memcached": {"memory": 300}}}));
        world.apply(&changed).await;
        let is_upgraded = |cloud: &OpenStackDeployment| {
            (cloud.is_ready() && cloud.child("memcached").revision == Some(2)).then_some(())
        };
        world.until("memcached is upgraded", is_upgraded).await;
        let record = "sh.helm.release.v1.memcached.v2";
        let secrets: Api<Secret> = world.api();
        let damage = Patch::Merge(json!({"data": {"release": "ZGFtYWdlZA=="}}));
        secrets.patch(record, &PatchParams::default(), &damage).await.unwrap();
        let named = format!("Secret {}/{record}: the content is not a helm release", world.namespace);
        let message = until_message(world, "memcached", &named).await;
        assert!(message.contains("or delete the Secret if the previous revision is intact"), "{message}");
        assert_eq!(world.helm_runs().len(), 2);
        secrets.delete(record, &DeleteParams::default()).await.unwrap();
        world.until("memcached is upgraded again", is_upgraded).await;
        assert_eq!(world.helm_values("memcached")["conf"]["memcached"]["memory"], 300);
    });
}

#[test]
fn replaces_no_damaged_credentials() {
    run_test("damaged-credentials", async |world| {
        let _operator = world.operator().start().await;
        let spec = services(&["mariadb"]);
        world.apply(&spec).await;
        world.until_ready().await;
        world.delete().await;
        world.until_gone().await;
        let name = format!("{NAME}-credentials-mariadb");
        let secrets: Api<Secret> = world.api();
        let good = secrets.get(&name).await.unwrap().data.unwrap();
        let patch = async |value| {
            let patch = Patch::Merge(json!({"data": {"root": value}}));
            secrets.patch(&name, &PatchParams::default(), &patch).await.unwrap()
        };
        let damaged = patch(json!("//4=")).await;
        world.apply(&spec).await;
        let named = format!("Secret {}/{name} has a value that is not UTF-8 text", world.namespace);
        let message = until_message(world, "mariadb", &named).await;
        assert!(message.contains("restore the Secret from a backup"), "{message}");
        let kept = secrets.get(&name).await.unwrap();
        assert_eq!(
            kept.resource_version(),
            damaged.resource_version(),
            "the operator must not write the damaged Secret"
        );
        patch(serde_json::to_value(&good["root"]).unwrap()).await;
        world.until_ready().await;
        assert_eq!(secrets.get(&name).await.unwrap().data.unwrap(), good);
    });
}
