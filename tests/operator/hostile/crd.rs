//! While the operator runs, somebody removes the CRD of `OpenStackDeployment`, or replaces it with the CRD of
//! another version of osdpl. The code calls this CRD the definition.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, CustomResourceExt, ResourceExt};
use osdpl_core::api::OpenStackDeployment;
use serde_json::{Value, json};

use crate::cloud::{NAME, StatusAccess, services, with_values};
use crate::operator::Operator;
use crate::world::{World, now, run_test, with_timeout};

const SMALL: [&str; 2] = ["mariadb", "memcached"];

/// The CRD of `OpenStackDeployment` on the test's control plane.
struct Definition {
    api: Api<CustomResourceDefinition>,
    shipped: Value,
}

impl Definition {
    async fn of(world: &World) -> Self {
        let api: Api<CustomResourceDefinition> = Api::all(world.client.clone());
        let found = serde_json::to_value(api.get(OpenStackDeployment::crd_name()).await.unwrap()).unwrap();
        let metadata = &found["metadata"];
        let metadata = json!({
            "name": metadata["name"], "labels": metadata["labels"], "annotations": metadata["annotations"],
        });
        let shipped = json!({"metadata": metadata, "spec": found["spec"]});
        Self { api, shipped }
    }

    /// Waits until the API server has removed the CRD.
    async fn until_removed(&self) {
        let gone = await_condition(
            self.api.clone(),
            OpenStackDeployment::crd_name(),
            |found: Option<&CustomResourceDefinition>| found.is_none(),
        );
        drop(with_timeout("the CRD is removed", gone).await.unwrap());
    }

    async fn delete(&self) {
        drop(self.api.delete(OpenStackDeployment::crd_name(), &DeleteParams::default()).await.unwrap());
    }

    async fn create(&self) {
        let object = serde_json::from_value(self.shipped.clone()).unwrap();
        self.api.create(&PostParams::default(), &object).await.unwrap();
        let established =
            await_condition(self.api.clone(), OpenStackDeployment::crd_name(), conditions::is_crd_established());
        drop(with_timeout("the CRD is established", established).await.unwrap());
    }

    /// Replaces the CRD with a copy of the shipped CRD whose spec `change` has edited.
    async fn replace(&self, change: impl FnOnce(&mut Value)) {
        let mut object = self.shipped.clone();
        change(&mut object["spec"]);
        object["metadata"]["resourceVersion"] =
            json!(self.api.get(OpenStackDeployment::crd_name()).await.unwrap().metadata.resource_version);
        let object = serde_json::from_value(object).unwrap();
        self.api.replace(OpenStackDeployment::crd_name(), &PostParams::default(), &object).await.unwrap();
    }

    /// Replaces the CRD with a CRD that lacks the newest fields, and waits until the API server uses the older schema.
    /// The wait is necessary because the API server acknowledges the replacement before it uses the new schema.
    async fn replace_by_older(&self, world: &World) {
        self.replace(older).await;
        let used = async {
            while world.deployments().get(NAME).await.unwrap().status().owned_releases.is_some() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        with_timeout("the API server uses the older CRD", used).await;
    }
}

/// Waits until the operator's log contains this text.
async fn until_logged(world: &World, text: &str) {
    let logged = async {
        while !world.operator_log().contains(text) {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    with_timeout(&format!("the operator logs {text:?}"), logged).await;
}

/// Starts an operator, and waits until a small cloud is Ready. Returns the operator and the spec of the cloud.
async fn start(world: &World) -> (Operator, Value) {
    let operator = world.operator().start().await;
    let spec = services(&SMALL);
    world.apply(&spec).await;
    world.until_ready().await;
    (operator, spec)
}

#[test]
fn cloud_survives_the_loss_of_definition_and_resource() {
    run_test("crd-lost", async |world| {
        let definition = Definition::of(world).await;
        let (operator, spec) = start(world).await;
        let credentials = world.all_credentials().await;
        // Somebody removes the finalizer and the CRD while the operator is frozen.
        operator.freeze();
        let loose = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        world.deployments().patch(NAME, &PatchParams::default(), &loose).await.unwrap();
        definition.delete().await;
        definition.until_removed().await;
        operator.signal(rustix::process::Signal::CONT);
        until_logged(world, "apply their CRD (osdpl crd)").await;
        assert!(operator.is_live(), "the operator must wait for the CRD, and must not end");
        assert_eq!(world.helm_runs().len(), SMALL.len(), "the loss of the CRD must not uninstall releases");

        definition.create().await;
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        let owned = SMALL.map(|release| format!("{}/{release}", world.namespace));
        assert_eq!(cloud.status().owned_releases.unwrap(), owned);
        assert_eq!(
            world.helm_runs().len(),
            SMALL.len(),
            "the new resource must take over the releases without an upgrade"
        );
        assert_eq!(world.all_credentials().await, credentials);
    });
}

#[test]
fn removing_the_definition_deletes_the_cloud_in_order() {
    run_test("crd-removed", async |world| {
        let definition = Definition::of(world).await;
        let (operator, spec) = start(world).await;
        let credentials = world.all_credentials().await;
        // Before Kubernetes deletes a CRD, it deletes all resources of the CRD's kind. The finalizer of the
        // OpenStackDeployment makes Kubernetes wait until the operator has uninstalled the cloud.
        definition.delete().await;
        definition.until_removed().await;
        let verbs: Vec<_> = world.helm_runs().iter().map(|run| run.verb().to_owned()).collect();
        assert_eq!(verbs, ["upgrade", "upgrade", "uninstall", "uninstall"]);
        until_logged(world, "apply their CRD (osdpl crd)").await;
        assert!(operator.is_live());

        definition.create().await;
        world.apply(&spec).await;
        world.until_ready().await;
        assert_eq!(world.all_credentials().await, credentials, "the default deletion policy must keep the credentials");
    });
}

/// Removes from the CRD's schema the fields that an older version of osdpl did not have.
fn older(spec: &mut Value) {
    let schema = spec.pointer_mut("/versions/0/schema/openAPIV3Schema/properties").unwrap();
    for (part, field) in [("status", "ownedReleases"), ("status", "charts"), ("status", "catalog"), ("spec", "catalog")]
    {
        schema[part]["properties"].as_object_mut().unwrap().remove(field).unwrap();
    }
}

/// The maximum number of writes of the operator while the CRD is older: the first number, and in addition the second
/// number for each renewal of the Lease. The operator renews the Lease every two seconds, so the number of renewals
/// measures the time. A pass tries one write and fails, and the next pass follows after three seconds.
const WRITES: (usize, usize) = (8, 2);

/// Checks that the operator does not repeat writes in a loop: waits until it has renewed the Lease three times, and
/// compares its writes after `since` with [`WRITES`].
async fn check_no_loop(world: &World, since: Timestamp) {
    for _ in 0..3 {
        world.until_renewal().await;
    }
    let (writes, renewals) = (world.writes_since(since).len(), world.renewals_since(since));
    println!("{writes} writes and {renewals} renewals of the Lease with the older CRD");
    assert!(writes <= WRITES.0 + WRITES.1 * renewals, "too many writes: {writes} in {renewals} renewals of the Lease");
}

#[test]
fn operator_names_an_older_definition() {
    run_test("crd-older", async |world| {
        let definition = Definition::of(world).await;
        let (operator, spec) = start(world).await;
        definition.replace_by_older(world).await;
        let since = now();
        let memory = json!({"conf": {"memcached": {"memory": 300}}});
        let changed = with_values(spec, "memcached", memory);
        world.apply(&changed).await;
        until_logged(world, "osdpl crd").await;
        assert!(operator.is_live());
        check_no_loop(world, since).await;

        definition.replace(|_| {}).await;
        let is_upgraded = |cloud: &OpenStackDeployment| {
            (cloud.is_ready() && cloud.child("memcached").revision == Some(2)).then(|| cloud.status())
        };
        let status = world.until("memcached is upgraded with the current CRD", is_upgraded).await;
        assert_eq!(status.owned_releases.unwrap().len(), SMALL.len());
        assert_eq!(world.helm_runs().len(), SMALL.len() + 1);
    });
}

/// Returns the names of the deployed releases, from helm's records.
async fn installed(world: &World) -> Vec<String> {
    let records =
        world.api::<Secret>().list(&ListParams::default().labels("owner=helm,status=deployed")).await.unwrap();
    records.items.iter().map(|record| record.labels()["name"].clone()).collect()
}

/// Waits until the cloud is being deleted, and the message of its Ready condition contains `text`: the reason why the
/// operator does not complete the deletion.
async fn until_deletion_waits(world: &World, text: &str) {
    let waits = |cloud: &OpenStackDeployment| {
        let message = cloud.condition("Ready")?.message;
        (cloud.metadata.deletion_timestamp.is_some() && message.contains(text)).then_some(message)
    };
    println!("{}", world.until(&format!("the deletion waits: {text}"), waits).await);
}

#[test]
fn deletion_with_an_older_definition_forgets_no_release() {
    run_test("crd-older-deleted", async |world| {
        let definition = Definition::of(world).await;
        let (operator, _) = start(world).await;
        definition.replace_by_older(world).await;
        let since = now();
        // When somebody requests the deletion, the API server writes the resource. In this write, it removes from the
        // status the fields that the older CRD does not have. Then the status does not name the releases, so the
        // operator must not uninstall them without approval.
        world.delete().await;
        until_deletion_waits(world, "does not list it").await;
        check_no_loop(world, since).await;
        // After the approval, the operator must first write to the status that the releases belong to the cloud. It
        // needs the CRD of this version, because the older CRD does not have this field of the status.
        world.osdpl(&["approve"]);
        until_deletion_waits(world, "osdpl crd").await;

        assert!(operator.stop().await.success());
        let restarted = now();
        let operator = world.operator().start().await;
        check_no_loop(world, restarted).await;
        assert!(operator.is_live());
        assert_eq!(installed(world).await, SMALL, "a deletion that waits for a newer CRD must not uninstall releases");
        assert_eq!(world.helm_runs().len(), SMALL.len());
        until_deletion_waits(world, "osdpl crd").await;

        definition.replace(|_| {}).await;
        world.until_gone().await;
        let verbs: Vec<_> = world.helm_runs().iter().map(|run| run.verb().to_owned()).collect();
        assert_eq!(verbs, ["upgrade", "upgrade", "uninstall", "uninstall"]);
        assert_eq!(installed(world).await, [""; 0]);
    });
}

/// Adds to the CRD a field, an enum value and an API version that the operator does not know.
fn newer(spec: &mut Value) {
    let mut version = spec["versions"][0].clone();
    (version["name"], version["storage"]) = (json!("v1beta1"), json!(false));
    let schema = spec.pointer_mut("/versions/0/schema/openAPIV3Schema/properties/spec/properties").unwrap();
    schema["future"] = json!({"type": "object", "properties": {"field": {"type": "string"}}});
    schema["approval"]["enum"].as_array_mut().unwrap().push(json!("Someday"));
    spec["versions"].as_array_mut().unwrap().push(version);
}

#[test]
fn operator_works_with_a_newer_definition() {
    run_test("crd-newer", async |world| {
        let definition = Definition::of(world).await;
        let (operator, _) = start(world).await;
        definition.replace(newer).await;
        // The spec has a value that the operator does not know. The operator must change nothing, and name the remedy.
        let since = now();
        let patch = Patch::Merge(json!({"spec": {"approval": "Someday"}}));
        // Repeat the write: the API server uses a changed schema only after a delay, and sends no event.
        let accepted = async {
            while world.deployments().patch_metadata(NAME, &PatchParams::default(), &patch).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        with_timeout("the API server accepts the new value", accepted).await;
        until_logged(world, "unknown variant `Someday`").await;
        assert!(world.operator_log().contains("return to the previous version of osdpl"), "{}", world.operator_log());
        assert!(operator.is_live());
        assert_eq!(world.writes_since(since), []);

        // The spec has a field that the operator does not know. The operator must ignore it.
        let memory = json!({"conf": {"memcached": {"memory": 300}}});
        let patch = json!({"spec": {
            "approval": null, "future": {"field": "value"},
            "services": {"memcached": {"releases": {"memcached": {"values": memory}}}},
        }});
        world.deployments().patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        let is_upgraded = |cloud: &OpenStackDeployment| {
            (cloud.is_ready() && cloud.child("memcached").revision == Some(2)).then_some(())
        };
        world.until("the operator upgrades memcached", is_upgraded).await;

        let clean = Patch::Merge(json!({"spec": {"future": null}}));
        world.deployments().patch(NAME, &PatchParams::default(), &clean).await.unwrap();
        definition.replace(|_| {}).await;
        world.until_ready().await;
        assert_eq!(world.helm_runs().len(), SMALL.len() + 1);
    });
}
