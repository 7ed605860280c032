//! Tests the deletion of a cloud under each deletion policy. When the user creates the cloud again, the operator
//! installs it with the data that the deletion has retained.

mod foreign_finalizer;

use std::collections::BTreeMap;

use cluster::Rule;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Secret};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, ResourceExt};
use osdpl_core::api::{OpenStackDeployment, SKIP_HOOKS};
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services};
use crate::helm::Run;
use crate::world::{World, run_test, with_timeout};

/// The services of a cloud with Glance. Glance's `PersistentVolumeClaim`s have no labels. Only helm's annotations name
/// the release to which a claim belongs.
const GLANCE: [&str; 5] = ["glance", "keystone", "mariadb", "memcached", "rabbitmq"];

/// The release that the test makes unmanaged. This release has a `PersistentVolumeClaim`, credentials and a Job.
const UNMANAGED: &str = "rabbitmq";

/// Whether the object with this name belongs to the unmanaged release.
fn is_unmanaged(name: &str) -> bool {
    name.contains(UNMANAGED)
}

/// Returns the name and uid of each object that a deletion retains: `PersistentVolumeClaim`s, and Secrets with
/// credentials or keys.
///
/// Leaves out each claim that helm deletes with its release. Such a claim comes from a chart's template, such as the
/// claim for Tempest's reports, and has no annotation `helm.sh/resource-policy`.
pub async fn retained_objects(world: &World) -> BTreeMap<String, Option<String>> {
    let claims = world.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap();
    let secrets = world.api::<Secret>().list(&ListParams::default()).await.unwrap();
    let secrets = secrets.items.into_iter().filter(|secret| {
        let name = secret.name_any();
        name.contains("-credentials-") || name.ends_with("-keys")
    });
    let is_kept = |claim: &PersistentVolumeClaim| {
        let annotations = claim.annotations();
        !annotations.contains_key("meta.helm.sh/release-name") || annotations.contains_key("helm.sh/resource-policy")
    };
    let claims = claims.items.into_iter().filter(is_kept).map(|claim| (claim.name_any(), claim.uid()));
    claims.chain(secrets.map(|secret| (secret.name_any(), secret.uid()))).collect()
}

/// Returns the releases that the operator has uninstalled, in the order of the helm runs.
fn uninstalled(world: &World) -> Vec<String> {
    let runs = world.helm_runs();
    runs.iter().filter(|run| run.verb() == "uninstall").map(|run| run.release().to_owned()).collect()
}

async fn jobs(world: &World) -> Vec<String> {
    world.api::<Job>().list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect()
}

/// Returns the values of the newest revision of every release in `GLANCE`.
fn values(world: &World) -> Vec<Value> {
    GLANCE.iter().map(|release| world.helm_values(release)).collect()
}

/// The `ConfigMap` in which mariadb's server stores the state of its Galera cluster.
const DATABASE_STATE: &str = "mariadb-mariadb-state";

/// Creates the `ConfigMap` with the state of the database, as the real server's start script does.
async fn create_database_state(world: &World) {
    let map = json!({"metadata": {"name": DATABASE_STATE}});
    let map: ConfigMap = serde_json::from_value(map).unwrap();
    world.api().create(&PostParams::default(), &map).await.unwrap();
}

async fn has_database_state(world: &World) -> bool {
    world.api::<ConfigMap>().get_opt(DATABASE_STATE).await.unwrap().is_some()
}

#[test]
fn deletion_runs_in_reverse_order_and_respects_retain_and_detach() {
    run_test("deletion", async |world| {
        let mut spec = services(&GLANCE);
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        create_database_state(world).await;
        let (retained_before, values_before) = (retained_objects(world).await, values(world));
        for needed in
            ["glance-images", "keystone-fernet-keys", "mysql-data-mariadb-server-0", "nimbus-credentials-keystone"]
        {
            assert!(retained_before.contains_key(needed), "{retained_before:?}");
        }

        world.delete().await;
        world.until_gone().await;
        let uninstalled = uninstalled(world);
        let position = |release: &str| uninstalled.iter().position(|name| name == release).unwrap();
        for needed in ["mariadb", "memcached"] {
            assert!(
                position("keystone") < position(needed),
                "keystone must be uninstalled before {needed}, which it needs: {uninstalled:?}"
            );
        }
        assert_eq!(jobs(world).await, [""; 0], "the operator must delete the Jobs of hooks, because helm keeps them");
        assert_eq!(retained_objects(world).await, retained_before);
        assert!(has_database_state(world).await, "Retain must keep the database's state together with its volumes");

        world.apply(&spec).await;
        world.until_ready().await;
        assert_eq!(values(world), values_before);
        assert_eq!(retained_objects(world).await, retained_before);

        create_foreign_claims(world).await;
        spec["deletionPolicy"] = json!("Purge");
        spec["services"][UNMANAGED]["releases"] = json!({UNMANAGED: {"managed": false}});
        world.apply(&spec).await;
        let unmanaged =
            |cloud: &OpenStackDeployment| cloud.child(UNMANAGED).message.starts_with("unmanaged:").then_some(());
        world.until("rabbitmq is unmanaged", unmanaged).await;
        world.delete().await;
        world.until_gone().await;
        let deleted_claims = async {
            let claims: Api<PersistentVolumeClaim> = world.api();
            let all = claims.list(&ListParams::default()).await.unwrap().into_iter();
            for claim in all.filter(|claim| is_purged(&claim.name_any())) {
                let uid = claim.uid().unwrap();
                await_condition(claims.clone(), &claim.name_any(), conditions::is_deleted(&uid)).await.unwrap();
            }
        };
        with_timeout("the claims of managed releases are deleted", Box::pin(deleted_claims)).await;
        delete_foreign_claims(world).await;
        let unmanaged_objects: BTreeMap<_, _> =
            retained_before.into_iter().filter(|(name, _)| is_unmanaged(name)).collect();
        assert!(
            unmanaged_objects.len() > 1,
            "the deletion must keep the claim and the credentials of rabbitmq: {unmanaged_objects:?}"
        );
        assert_eq!(retained_objects(world).await, unmanaged_objects);
        assert!(
            !has_database_state(world).await,
            "Purge must delete the database's state, because a new database could not start with this state"
        );
        assert_eq!(jobs(world).await, ["rabbitmq-cluster-wait"]);
    });
}

/// The `PersistentVolumeClaim`s of releases that someone has installed without osdpl.
///
/// The label of the first claim names the release horizon, which is in the catalogue, but was never part of this cloud.
/// The label of the second claim names the cloud's release mariadb, but helm's annotations name another release.
const FOREIGN_CLAIMS: [&str; 2] = ["data-horizon-0", "mariadb-dumps"];

/// Whether the policy `Purge` deletes the claim with this name.
fn is_purged(name: &str) -> bool {
    !is_unmanaged(name) && !FOREIGN_CLAIMS.contains(&name)
}

async fn create_foreign_claims(world: &World) {
    let owner = json!({"meta.helm.sh/release-name": "dumps", "meta.helm.sh/release-namespace": world.namespace});
    for (name, group, annotations) in [(FOREIGN_CLAIMS[0], "horizon", json!({})), (FOREIGN_CLAIMS[1], "mariadb", owner)]
    {
        let claim = json!({
            "metadata": {"name": name, "labels": {"release_group": group}, "annotations": annotations},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        let claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
        world.api().create(&PostParams::default(), &claim).await.unwrap();
    }
}

/// Checks that nothing has deleted the claims [`FOREIGN_CLAIMS`], and deletes them.
async fn delete_foreign_claims(world: &World) {
    let claims = world.api::<PersistentVolumeClaim>();
    for name in FOREIGN_CLAIMS {
        let claim = claims.get_opt(name).await.unwrap();
        let claim = claim.unwrap_or_else(|| panic!("Purge must keep the claim {name} of another release"));
        assert_eq!(claim.metadata.deletion_timestamp, None, "Purge must keep the claim {name} of another release");
        claims.delete(name, &DeleteParams::default()).await.unwrap();
        world.until_object::<PersistentVolumeClaim>("the test's claim is gone", name, |it| it.is_none()).await;
    }
}

/// Waits until the status says that the deletion of the cloud waits for this hook. Returns the `OpenStackDeployment`.
async fn until_waiting(world: &World, hook: &str) -> OpenStackDeployment {
    let waits = |cloud: &OpenStackDeployment| cloud.status().message.contains(hook).then(|| cloud.clone());
    world.until("the deletion waits for the hook", waits).await
}

#[test]
fn deletion_waits_for_a_hook_and_can_skip_it() {
    run_test("skip-hooks", async |world| {
        let cleanup = "keystone-credential-cleanup";
        world.cluster().behaviour(cleanup, &Rule::new(&world.namespace, cleanup, "hang")).await.unwrap();
        let operator = world.operator().start().await;
        let spec = world.with_external(services(&["keystone", "mariadb"]), &["memcached", "rabbitmq"]).await;
        world.apply(&spec).await;
        world.until_ready().await;
        world.delete().await;
        let waiting = until_waiting(world, cleanup).await;
        assert_eq!(waiting.reason(), "Deleting");
        assert_eq!(waiting.child("mariadb").message, "waits until keystone is uninstalled");

        operator.kill();
        let _operator = world.operator().start().await;
        world.annotate(SKIP_HOOKS, json!("keystone")).await;
        world.until_gone().await;
        let keystone = |run: &Run| run.verb() == "uninstall" && run.release() == "keystone";
        let last = world.helm_runs().into_iter().rfind(keystone).unwrap();
        assert!(last.arguments.contains(&"--no-hooks".to_owned()), "{last:?}");
        assert_eq!(jobs(world).await, [""; 0]);
    });
}

/// A user deletes the namespace that contains a cloud. The operator must skip Keystone's pre-delete hook, because the
/// hook's Job cannot start in a terminating namespace.
#[test]
fn deletes_a_terminating_namespace_with_its_cloud() {
    run_test("terminating", async |world| {
        let _operator = world.operator().start().await;
        let spec = world.with_external(services(&["keystone", "mariadb"]), &["memcached", "rabbitmq"]).await;
        world.apply(&spec).await;
        world.until_ready().await;
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        let namespace = namespaces.get(&world.namespace).await.unwrap();
        namespaces.delete(&world.namespace, &DeleteParams::default()).await.unwrap();
        // Kubernetes may delete the operator's Role before the OpenStackDeployment. Then the writes of the operator's
        // last pass fail, and the operator logs errors.
        world.allow_errors();
        let uid = namespace.uid().unwrap();
        let gone = await_condition(namespaces, &world.namespace, conditions::is_deleted(&uid));
        with_timeout("the namespace is deleted", gone).await.unwrap();
    });
}
