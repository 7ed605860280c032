//! The operator deletes objects that failed revisions left behind. The operator also reports failures that a retry does
//! not fix.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret};
use k8s_openapi::api::rbac::v1::Role;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use osdpl_core::api::reason;
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services, with_values};
use crate::world::{World, now, run_test};

const RELEASE: &str = "memcached";

/// Returns a Service that the API server refuses. Helm first creates the ConfigMaps, claims and Roles of the release,
/// and then fails at this Service.
pub fn refused() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "refused"}, "spec": {"ports": [{"port": 0}]}})
}

pub fn config(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"for": name}})
}

/// Returns a spec in which memcached's release has these additional objects.
fn with_objects(objects: &[Value]) -> Value {
    with_values(services(&[RELEASE]), RELEASE, json!({"extraObjects": objects}))
}

async fn until_failed(world: &World, revision: i64) {
    let what = format!("revision {revision} has failed");
    world
        .until(&what, |cloud| {
            let child = cloud.child(RELEASE);
            (child.status == "failed" && child.revision == Some(revision) && cloud.reason() == reason::FAILED)
                .then_some(())
        })
        .await;
}

async fn label(world: &World, revision: i64) -> Option<String> {
    let name = format!("sh.helm.release.v1.{RELEASE}.v{revision}");
    let record = world.api::<Secret>().get_opt(&name).await.unwrap()?;
    record.labels().get("osdpl.dev/cleaned-up").cloned()
}

async fn until_gone(world: &World, name: &str) {
    world
        .until_object::<ConfigMap>("the operator deletes the leftover of the failed revision", name, |found| {
            found.is_none()
        })
        .await;
}

/// Waits until the operator has marked the record of a failed revision as cleaned up.
async fn until_cleaned_up(world: &World, revision: i64) {
    let name = format!("sh.helm.release.v1.{RELEASE}.v{revision}");
    let is_cleaned_up =
        |found: Option<&Secret>| found.is_some_and(|record| record.labels().contains_key("osdpl.dev/cleaned-up"));
    world.until_object::<Secret>("the record is marked as cleaned up", &name, is_cleaned_up).await;
}

#[test]
fn cleans_up_only_leftovers_after_a_success() {
    run_test("leftovers", async |world| {
        let operator = world.operator().start().await;
        world.apply(&with_objects(&[config("stays")])).await;
        world.until_ready().await;

        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "left-role"}, "rules": []});
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "left-claim"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        let mut retained = config("left-kept");
        retained["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
        let objects =
            [config("stays"), config("left"), config("foreign"), config("wanted"), retained, role, claim, refused()];
        world.apply(&with_objects(&objects)).await;
        until_failed(world, 2).await;
        let api = world.api::<ConfigMap>();
        for name in ["left", "foreign", "wanted", "left-kept"] {
            assert!(api.get_opt(name).await.unwrap().is_some(), "helm must have created {name} before it failed");
        }
        // Make another helm release the owner of the ConfigMap `foreign`, so that the cleanup must not delete this
        // ConfigMap.
        let other_owner = json!({"metadata": {"annotations": {"meta.helm.sh/release-name": "other"}}});
        api.patch("foreign", &PatchParams::default(), &Patch::Merge(other_owner)).await.unwrap();

        world.apply(&with_objects(&[config("stays"), config("wanted")])).await;
        world.until_ready().await;
        until_gone(world, "left").await;
        until_cleaned_up(world, 2).await;
        for name in ["stays", "wanted", "foreign", "left-kept"] {
            assert!(api.get_opt(name).await.unwrap().is_some(), "{name}");
        }
        assert!(world.api::<Role>().get_opt("left-role").await.unwrap().is_none());
        let claim = world.api::<PersistentVolumeClaim>().get("left-claim").await.unwrap();
        assert_eq!(claim.metadata.deletion_timestamp, None, "the cleanup must not delete a PersistentVolumeClaim");

        // After a restart, the operator knows only from the label on the record that the cleanup is complete. Without
        // the label, it would clean up again, and the check below would find writes.
        operator.kill();
        let began = now();
        let operator = world.operator().start().await;
        operator.finds_ready(1).await;
        assert_eq!(world.writes_since(began), []);
        assert_eq!(world.helm_runs().len(), 3);
    });
}

#[test]
fn cleans_up_before_helm_forgets_a_record() {
    check_cleanup_of_forgotten_records("forgotten", 4);
}

#[test]
fn cleans_up_before_helm_3_forgets_a_record() {
    check_cleanup_of_forgotten_records("forgotten-helm3", 3);
}

fn check_cleanup_of_forgotten_records(name: &str, helm: u8) {
    run_test(name, async |world| {
        let operator = world.operator().helm(helm).start().await;
        world.apply(&with_objects(&[])).await;
        world.until_ready().await;
        world.apply(&with_objects(&[config("first"), refused()])).await;
        until_failed(world, 2).await;
        operator.kill();
        world.apply(&with_objects(&[config("second"), refused()])).await;
        let operator = world.operator().helm(helm).start().await;
        until_failed(world, 3).await;
        assert!(world.api::<ConfigMap>().get_opt("first").await.unwrap().is_some());
        operator.kill();

        // When helm creates revision 4, helm deletes the record of revision 2, the only record that lists the ConfigMap
        // `first`. Although no record lists this ConfigMap any more, the operator must delete it.
        world.apply(&with_objects(&[config("third")])).await;
        let operator = world.operator().helm(helm).start().await;
        world.until_ready().await;
        until_cleaned_up(world, 3).await;
        let names = |maps: Vec<ConfigMap>| maps.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
        let api = world.api::<ConfigMap>();
        let left = names(api.list(&kube::api::ListParams::default()).await.unwrap().items);
        assert!(!left.contains(&"first".to_owned()) && !left.contains(&"second".to_owned()), "{left:?}");
        assert!(left.contains(&"third".to_owned()), "{left:?}");
        assert_eq!((label(world, 2).await, label(world, 3).await), (None, Some("3".into())));

        // Restore the state of a cluster whose operator was killed after helm succeeded and before the cleanup. In this
        // state, the ConfigMap `second` still exists, and the record of revision 3 has no label that marks it as
        // cleaned up.
        operator.kill();
        let without_label = json!({"metadata": {"labels": {"osdpl.dev/cleaned-up": null}}});
        let record = format!("sh.helm.release.v1.{RELEASE}.v3");
        world.api::<Secret>().patch(&record, &PatchParams::default(), &Patch::Merge(without_label)).await.unwrap();
        let mut second = config("second");
        second["metadata"]["annotations"] =
            json!({"meta.helm.sh/release-name": RELEASE, "meta.helm.sh/release-namespace": world.namespace});
        api.create(&PostParams::default(), &serde_json::from_value(second).unwrap()).await.unwrap();
        let _operator = world.operator().helm(helm).start().await;
        until_gone(world, "second").await;
        until_cleaned_up(world, 3).await;
        assert_eq!(world.helm_runs().len(), 4);
    });
}

#[test]
fn deletion_removes_objects_of_the_deployed_revision() {
    run_test("leaving", async |world| {
        let _operator = world.operator().start().await;
        world.apply(&with_objects(&[config("deployed")])).await;
        world.until_ready().await;
        world.apply(&with_objects(&[config("failed"), refused()])).await;
        until_failed(world, 2).await;
        // `helm uninstall` deletes only the objects of the newest revision, which failed. The operator must also delete
        // the objects of the deployed revision.
        world.delete().await;
        world.until_gone().await;
        for name in ["deployed", "failed"] {
            assert!(world.api::<ConfigMap>().get_opt(name).await.unwrap().is_none(), "{name}");
        }
    });
}

#[test]
fn retries_an_unrenderable_chart_only_with_new_inputs() {
    run_test("unrenderable", async |world| {
        let _operator = world.operator().start().await;
        let with =
            |object: Value| with_values(services(&["mariadb", RELEASE]), RELEASE, json!({"extraObjects": [object]}));
        // Helm refuses this invalid template before helm writes a release record, so the operator sees only helm's
        // error output.
        world.apply(&with(json!("{{ nonsense }}"))).await;
        let cloud = world
            .until("the operator reports helm's failure", |cloud| {
                let is_reported = cloud.reason() == reason::FAILED && cloud.child("mariadb").ready;
                is_reported.then(|| cloud.clone())
            })
            .await;
        let child = cloud.child(RELEASE);
        assert!(child.message.contains("does not retry until the values or the chart change"), "{}", child.message);
        assert_eq!((child.status.as_str(), child.revision), ("absent", None));
        assert_eq!(
            cloud.condition("Stalled").unwrap().status,
            "True",
            "Stalled must be True, because a retry does not fix an invalid template"
        );
        assert_eq!(cloud.condition("Reconciling").unwrap().status, "False");
        let runs = || world.helm_runs().iter().filter(|run| run.release() == RELEASE).count();
        assert_eq!(runs(), 1);

        world.apply(&with(config("good"))).await;
        world.until_ready().await;
        assert_eq!(runs(), 2);
    });
}

#[test]
fn reports_immutable_fields_and_retries_rarely() {
    run_test("immutable", async |world| {
        let _operator = world.operator().start().await;
        world.apply(&services(&["mariadb"])).await;
        world.until_ready().await;
        world.apply(&with_values(services(&["mariadb"]), "mariadb", json!({"volume": {"size": "9Gi"}}))).await;
        let message = world
            .until("the operator reports which StatefulSet to delete", |cloud| {
                let message = cloud.child("mariadb").message;
                message.contains("kubectl -n ").then_some(message)
            })
            .await;
        let command = format!("kubectl -n {} delete statefulset mariadb-server --cascade=orphan", world.namespace);
        assert!(message.contains(&command) && message.contains("osdpl.dev/repair"), "{message}");
        let orphaned = kube::api::DeleteParams::orphan();
        world.api::<StatefulSet>().delete("mariadb-server", &orphaned).await.unwrap();
        Box::pin(
            world.until_object::<StatefulSet>("the StatefulSet is deleted", "mariadb-server", |found| found.is_none()),
        )
        .await;
        world.annotate(osdpl_core::api::REPAIR, json!("mariadb")).await;
        let cloud = world.until_ready().await;
        assert_eq!(
            cloud.child("mariadb").revision,
            Some(3),
            "the size change must result in one failed revision (2), and the repair in one successful revision (3)"
        );
    });
}
