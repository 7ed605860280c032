//! Tests release records that have osdpl's labels, but that the operator did not write. A tenant may forge such
//! records, or a backup tool may clone a namespace. The operator runs helm for such a record only after a person's
//! approval.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use osdpl_core::api::{APPROVE, OpenStackDeployment, reason};
use osdpl_core::release::{SECRET_KEY, SECRET_TYPE};
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services, with_values};
use crate::proxy::{Answer, Proxy, REFUSALS};
use crate::world::{World, run_test, with_timeout};

const SMALL: [&str; 2] = ["mariadb", "memcached"];

/// The name of the forged record. The record says that the release horizon is installed.
const FORGED: &str = "sh.helm.release.v1.horizon.v1";

/// A ConfigMap that helm would delete if it uninstalled the forged release.
const PRECIOUS: &str = "precious";

/// Returns the spec of a cloud whose changes need no approval. If the operator planned an uninstall, it would start the
/// uninstall at once.
fn cloud() -> Value {
    let mut spec = services(&SMALL);
    spec["approval"] = json!("Automatic");
    spec
}

/// Returns the releases that the operator has uninstalled.
fn uninstalled(world: &World) -> Vec<String> {
    let runs = world.helm_runs();
    runs.iter().filter(|run| run.verb() == "uninstall").map(|run| run.release().to_owned()).collect()
}

/// Returns a copy of a Secret as a new object in `namespace`.
fn copy(secret: &Secret, namespace: &str) -> Secret {
    let mut copy = secret.clone();
    copy.metadata.namespace = Some(namespace.to_owned());
    (copy.metadata.uid, copy.metadata.resource_version, copy.metadata.managed_fields) = (None, None, None);
    copy
}

/// Copies all release records of the cloud to another namespace, as a backup tool does when it clones a namespace.
async fn clone_namespace(world: &World) -> Api<Secret> {
    let name = format!("{}-clone", world.namespace);
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let secrets = Api::namespaced(world.client.clone(), &name);
    for record in world.api::<Secret>().list(&ListParams::default().labels("owner=helm")).await.unwrap() {
        secrets.create(&PostParams::default(), &copy(&record, &name)).await.unwrap();
    }
    secrets
}

/// Forges a record in the cloud's namespace, as if osdpl had installed horizon.
async fn forge_release(world: &World) {
    let secrets = world.api::<Secret>();
    let mut record = copy(&secrets.get("sh.helm.release.v1.memcached.v1").await.unwrap(), &world.namespace);
    record.metadata.name = Some(FORGED.to_owned());
    for key in ["name", "osdpl.dev/release"] {
        record.labels_mut().insert(key.to_owned(), "horizon".to_owned());
    }
    secrets.create(&PostParams::default(), &record).await.unwrap();
}

#[test]
fn ignores_records_in_other_namespaces() {
    run_test("clone", async |world| {
        // Grant rights in all namespaces, because otherwise the operator could not read the cloned records.
        world.permit_all();
        let operator = world.operator().start().await;
        world.apply(&cloud()).await;
        let cloud = world.until_ready().await;
        let owned = SMALL.map(|release| format!("{}/{release}", world.namespace));
        assert_eq!(cloud.status().owned_releases.unwrap(), owned);
        let clone = clone_namespace(world).await;
        // Restart the operator. The new operator reads all records before its first pass. So the first status that it
        // writes would already show an effect of the cloned records.
        operator.kill();
        let _operator = world.operator().start().await;
        let mut spec = cloud_with_debug();
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        assert_eq!(cloud.status().children.keys().collect::<Vec<_>>(), SMALL, "the status must list no cloned release");
        spec["deletionPolicy"] = json!("Purge");
        world.apply(&spec).await;
        world.delete().await;
        world.until_gone().await;
        assert_eq!(uninstalled(world).len(), SMALL.len(), "the operator must uninstall only the releases of the cloud");
        let left = clone.list(&ListParams::default().labels("owner=helm")).await.unwrap().items.len();
        assert_eq!(left, SMALL.len(), "the deletion of the cloud must not delete the cloned records");
    });
}

/// Returns the spec of [`cloud`] with a changed value, which causes a helm run.
fn cloud_with_debug() -> Value {
    with_values(cloud(), "memcached", json!({"conf": {"memcached": {"max_connections": 2048}}}))
}

#[test]
fn forged_release_is_not_uninstalled_without_approval() {
    run_test("forged", async |world| {
        let _operator = world.operator().start().await;
        world.apply(&cloud()).await;
        world.until_ready().await;

        // The uninstall of the forged release must wait, although the spec has `approval: Automatic`.
        forge_release(world).await;
        let waiting = world.until_reason(reason::APPROVAL).await;
        let message = &waiting.status().message;
        assert!(message.starts_with("horizon would be uninstalled"), "{message}");
        assert!(waiting.condition("Ready").unwrap().message.contains("does not list it"), "{message}");

        // The uninstall of the forged release must wait, although a person has approved another target hash.
        let secrets = world.api::<Secret>();
        secrets.delete(FORGED, &DeleteParams::default()).await.unwrap();
        world.until_ready().await;
        world.annotate(APPROVE, json!("0123456789abcdef0123456789abcdef")).await;
        forge_release(world).await;
        world.until_reason(reason::APPROVAL).await;

        // The uninstall of the forged release must wait, although the OpenStackDeployment is being deleted.
        world.delete().await;
        let waits = |cloud: &OpenStackDeployment| {
            let child = cloud.child("horizon");
            (cloud.status().children.len() == 1 && child.message.contains("waits for approval")).then_some(())
        };
        world.until("only the forged release is left", waits).await;
        let removed = uninstalled(world);
        assert!(removed.len() == SMALL.len() && !removed.contains(&"horizon".to_owned()), "{removed:?}");

        // Remove osdpl's labels from the record. Then the release does not belong to the cloud, and the deletion ends.
        let labels = json!({"osdpl.dev/attempt": null, "osdpl.dev/inputs": null, "osdpl.dev/release": null});
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        secrets.patch(FORGED, &PatchParams::default(), &patch).await.unwrap();
        world.until_gone().await;
        assert!(secrets.get_opt(FORGED).await.unwrap().is_some(), "the operator must keep the forged release");
    });
}

/// Returns the name of the first record of a release.
fn record_name(helm_name: &str) -> String {
    format!("sh.helm.release.v1.{helm_name}.v1")
}

/// Forges a record in `namespace`, as if osdpl had installed the release `release` of the catalogue under the name
/// `helm_name`. The record's manifest contains the ConfigMap [`PRECIOUS`].
async fn forge(world: &World, namespace: &str, helm_name: &str, release: &str, status: &str) {
    let at = "2026-01-01T00:00:00Z";
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": PRECIOUS}});
    let content = json!({
        "name": helm_name, "namespace": namespace, "version": 1, "manifest": manifest.to_string(),
        "info": {"first_deployed": at, "last_deployed": at, "status": status},
        "chart": {"metadata": {"apiVersion": "v2", "name": release, "version": "2026.1.0"}},
    });
    let labels = json!({
        "owner": "helm", "name": helm_name, "status": status, "version": "1",
        "osdpl.dev/attempt": "somebody-1-v1", "osdpl.dev/release": release,
    });
    let record = json!({
        "metadata": {"name": record_name(helm_name), "labels": labels}, "type": SECRET_TYPE,
        "stringData": {SECRET_KEY: STANDARD.encode(content.to_string())},
    });
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), namespace);
    secrets.create(&PostParams::default(), &serde_json::from_value(record).unwrap()).await.unwrap();
}

/// Creates the ConfigMap [`PRECIOUS`].
async fn create_precious(world: &World) -> Api<ConfigMap> {
    let maps: Api<ConfigMap> = world.api();
    let precious = serde_json::from_value(json!({"metadata": {"name": PRECIOUS}})).unwrap();
    maps.create(&PostParams::default(), &precious).await.unwrap();
    maps
}

/// Waits until the status says that osdpl did not install this release. Returns the releases that the operator owns,
/// according to the status.
async fn until_foreign(world: &World, release: &str) -> Vec<String> {
    let is_foreign = |cloud: &OpenStackDeployment| {
        let status = cloud.status();
        cloud.child(release).message.contains("exists that osdpl did not install").then_some(status.owned_releases)
    };
    world.until(&format!("the status says that osdpl did not install {release}"), is_foreign).await.unwrap()
}

#[test]
fn forged_uninstall_of_a_selected_release_is_not_continued() {
    run_test("forged-uninstall", async |world| {
        let _operator = world.operator().start().await;
        world.apply(&cloud()).await;
        world.until_ready().await;
        let maps = create_precious(world).await;
        forge(world, &world.namespace, "rabbitmq", "rabbitmq", "uninstalling").await;
        world.until_reason(reason::APPROVAL).await;

        // Select rabbitmq in the spec. Only the forged record of rabbitmq exists: osdpl has not installed rabbitmq.
        let mut spec = services(&["mariadb", "memcached", "rabbitmq"]);
        spec["approval"] = json!("Automatic");
        world.apply(&spec).await;
        assert_eq!(
            until_foreign(world, "rabbitmq").await,
            SMALL.map(|release| format!("{}/{release}", world.namespace))
        );

        // The deletion of the cloud must wait until a person decides about the forged record.
        world.delete().await;
        let waits = |cloud: &OpenStackDeployment| {
            let is_last = cloud.status().children.keys().eq(["rabbitmq"]);
            (is_last && cloud.child("rabbitmq").message.contains("waits for approval")).then_some(())
        };
        world.until("only the forged release is left", waits).await;
        let mut removed = uninstalled(world);
        removed.sort();
        assert_eq!(removed, SMALL);
        world.api::<Secret>().delete(&record_name("rabbitmq"), &DeleteParams::default()).await.unwrap();
        world.until_gone().await;
        maps.get(PRECIOUS).await.unwrap();
    });
}

#[test]
fn forged_records_of_a_new_cloud_start_no_helm() {
    run_test("forged-new", async |world| {
        let _operator = world.operator().start().await;
        let mut spec = services(&["mariadb", "memcached", "rabbitmq"]);
        spec["approval"] = json!("Always");
        world.apply(&spec).await;
        let status = world.until_reason(reason::APPROVAL).await.status();
        assert_eq!(status.owned_releases, Some(Vec::new()), "a new cloud has no releases");

        // The cloud waits for its first approval. Somebody forges an unfinished uninstall, an installed release, and a
        // release under another name.
        let maps = create_precious(world).await;
        forge(world, &world.namespace, "rabbitmq", "rabbitmq", "uninstalling").await;
        forge(world, &world.namespace, "mariadb", "mariadb", "deployed").await;
        forge(world, &world.namespace, "tokens", "memcached", "deployed").await;
        for release in ["rabbitmq", "mariadb"] {
            assert_eq!(until_foreign(world, release).await, [""; 0]);
        }
        let tokens = format!("{}/tokens", world.namespace);
        let waits =
            |cloud: &OpenStackDeployment| cloud.status().children.get(&tokens).map(|_| cloud.child("memcached"));
        let memcached = world.until("the status lists the release tokens", waits).await;
        assert!(memcached.message.starts_with("it is not installed: waits for approval"), "{memcached:?}");

        world.delete().await;
        let all_wait = |cloud: &OpenStackDeployment| {
            let children = cloud.status().children;
            let wait = children.values().all(|child| child.message.contains("waits for approval"));
            (wait && children.keys().eq(["mariadb", "memcached", "rabbitmq"])).then_some(())
        };
        world.until("the deletion waits for approval", all_wait).await;
        for helm_name in ["rabbitmq", "mariadb", "tokens"] {
            world.api::<Secret>().delete(&record_name(helm_name), &DeleteParams::default()).await.unwrap();
        }
        world.until_gone().await;
        assert_eq!(world.helm_runs().len(), 0);
        maps.get(PRECIOUS).await.unwrap();
    });
}

#[test]
fn forged_record_does_not_redirect_endpoints() {
    run_test("forged-endpoints", async |world| {
        // Give mariadb another namespace, because the operator ignores records in namespaces that the spec and the
        // status do not name.
        let elsewhere = format!("{}-data", world.namespace);
        world.permit(&elsewhere).await;
        let with = |names: &[&str]| {
            let mut spec = services(names);
            spec["services"]["mariadb"]["releases"]["mariadb"] = json!({"namespace": elsewhere});
            spec
        };
        let _operator = world.operator().start().await;
        world.apply(&with(&SMALL)).await;
        world.until_ready().await;
        forge(world, &elsewhere, "tokens", "keystone", "deployed").await;
        world.until_reason(reason::APPROVAL).await;

        let spec = with(&["keystone", "mariadb", "memcached", "placement"]);
        world.apply(&world.with_external(spec, &["rabbitmq"]).await).await;
        let is_installed = |cloud: &OpenStackDeployment| cloud.child("placement").ready.then(|| cloud.status());
        let status = world.until("placement is installed", is_installed).await;
        let identity = &world.helm_values("placement")["endpoints"]["identity"];
        assert_eq!(identity["namespace"], world.namespace, "placement must use the keystone of the cloud");
        let tokens = format!("{elsewhere}/tokens");
        assert!(!status.owned_releases.unwrap().contains(&tokens));
        assert!(status.children.contains_key(&tokens), "a person decides about the record: {:?}", status.children);
        assert!(world.helm_runs().iter().all(|run| run.verb() == "upgrade" && run.release() != "tokens"));
    });
}

#[test]
fn helm_starts_only_after_the_status_names_the_release() {
    run_test("unrecorded", async |world| {
        world.allow_errors();
        let proxy = Proxy::start(world).await;
        let _operator = world.operator().through(&proxy).start().await;
        let mut spec = cloud();
        spec["paused"] = json!(true);
        world.apply(&spec).await;
        world.until_reason(reason::PAUSED).await;

        let mut count = proxy.refuse_status_writes();
        spec["paused"] = json!(false);
        world.apply(&spec).await;
        let enough = count.wait_for(|count| *count >= REFUSALS);
        drop(with_timeout("the API server refuses writes of the status", enough).await.unwrap());
        assert_eq!(world.helm_runs().len(), 0, "helm must not start before the status names the release");

        proxy.set_rule(|_| Answer::Forward);
        let status = world.until_ready().await.status();
        assert_eq!(status.owned_releases.unwrap(), SMALL.map(|release| format!("{}/{release}", world.namespace)));
        assert_eq!(world.helm_runs().len(), SMALL.len());
    });
}
