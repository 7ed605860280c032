//! Drift: somebody changes objects of releases outside of helm. The operator reports, repairs or ignores such changes,
//! as the spec says.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use osdpl_core::api::{HelmReleaseStatus, OpenStackDeployment, REPAIR, condition, reason};
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services, with_values};
use crate::world::{World, now, run_test};

const SMALL: [&str; 2] = ["mariadb", "memcached"];

/// Returns a spec with one drift policy for all releases.
fn with_drift_policy(policy: &str) -> Value {
    let mut spec = services(&SMALL);
    spec["drift"] = policy.into();
    spec
}

fn by(manager: &str) -> PatchParams {
    PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() }
}

/// Changes the script in the `ConfigMap` mariadb-bin, as a user would with `kubectl edit`. `manager` is the field
/// manager of the change.
async fn edit(world: &World, manager: &str, script: &str) {
    let patch = Patch::Merge(json!({"data": {"stand-in.sh": script}}));
    world.api::<ConfigMap>().patch("mariadb-bin", &by(manager), &patch).await.unwrap();
}

/// Deletes a Service, as a user would with `kubectl delete service`.
async fn delete_service(world: &World, name: &str) {
    world.api::<Service>().delete(name, &DeleteParams::default()).await.unwrap();
}

/// Returns the drift that the status reports for a release: a line `OBJECT CHANGE FIELD_MANAGER` for each object. `?`
/// stands for an unknown field manager.
fn drift(child: &HelmReleaseStatus) -> Vec<String> {
    let line = |drift: &osdpl_core::api::ObjectDrift| {
        format!("{} {} {}", drift.object, drift.change, drift.by.as_deref().unwrap_or("?"))
    };
    child.drift.iter().map(line).collect()
}

async fn until_drift(world: &World, release: &str, expected: &[&str]) -> OpenStackDeployment {
    let what = format!("the status reports the drift {expected:?} of {release}");
    world.until(&what, |cloud| (drift(&cloud.child(release)) == expected).then(|| cloud.clone())).await
}

/// Returns the messages of all events with the reason `Drifted`, sorted.
async fn drift_events(world: &World) -> Vec<String> {
    let events = world.api::<Event>().list(&ListParams::default()).await.unwrap();
    let ours = events.items.into_iter().filter(|event| event.reason.as_deref() == Some("Drifted"));
    let mut notes: Vec<_> = ours.map(|event| event.message.unwrap_or_default()).collect();
    notes.sort();
    notes
}

#[test]
fn reports_drift_with_author_and_time_across_restarts() {
    run_test("drift", async |world| {
        let operator = world.operator().start().await;
        world.apply(&services(&SMALL)).await;
        assert_eq!(drift(&world.until_ready().await.child("mariadb")), [""; 0]);

        // Change the selector of the Service `mariadb`, as upstream's mariadb-controller does. osdpl must not report
        // this change as drift: it must report only the edit of the ConfigMap below.
        let selector =
            Patch::Merge(json!({"spec": {"selector": {"statefulset.kubernetes.io/pod-name": "mariadb-server-0"}}}));
        world.api::<Service>().patch("mariadb", &by("pykube-ng"), &selector).await.unwrap();
        edit(world, "kubectl-edit", "exec false").await;
        until_drift(world, "mariadb", &["ConfigMap mariadb-bin edited: data.stand-in.sh kubectl-edit"]).await;
        let scale = Patch::Merge(json!({"spec": {"replicas": 2}}));
        world.api::<StatefulSet>().patch_scale("memcached-memcached", &by("kubectl"), &scale).await.unwrap();
        until_drift(world, "memcached", &["StatefulSet memcached-memcached edited: spec.replicas kubectl"]).await;
        delete_service(world, "memcached").await;
        let both = ["Service memcached deleted ?", "StatefulSet memcached-memcached edited: spec.replicas kubectl"];
        until_drift(world, "memcached", &both).await;

        let is_reported = |cloud: &OpenStackDeployment| {
            (cloud.is_ready() && cloud.child("memcached").drift.len() == 2).then(|| cloud.clone())
        };
        let cloud =
            world.until("the cloud is Ready, and the status reports both changes of memcached", is_reported).await;
        let degraded = cloud.condition(condition::DEGRADED).unwrap();
        assert_eq!((degraded.status.as_str(), degraded.reason.as_str()), ("True", reason::DRIFTED));
        let message = cloud.child("mariadb").message;
        assert!(
            message.starts_with("ConfigMap mariadb-bin was edited by kubectl-edit (data.stand-in.sh), at 20"),
            "{message}"
        );
        assert!(message.contains(&format!("annotate the OpenStackDeployment with {REPAIR}=mariadb")), "{message}");
        let summary = cloud.status().message;
        assert!(summary.contains("changed outside of helm: mariadb, memcached"), "{summary}");
        // The operator writes the events of a pass after the status of this pass, and before the status of the next
        // pass. So change the spec and wait for the next status. Then the operator has written all events about the
        // drift.
        let mut spec = services(&SMALL);
        spec["deletionPolicy"] = "Retain".into();
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        let notes = drift_events(world).await;
        assert_eq!(notes.len(), 3, "{notes:#?}");
        assert_eq!(operator.metric("osdpl_releases_drifted{", "nimbus"), 2);

        let (began, before) = (now(), cloud.status());
        operator.kill();
        let operator = world.operator().start().await;
        operator.finds_ready(2).await;
        let after = world.deployments().get(crate::cloud::NAME).await.unwrap();
        assert_eq!(after.status(), before);
        assert!(world.writes_since(began).is_empty(), "{:#?}", world.writes_since(began));
        assert_eq!((world.helm_runs().len(), drift_events(world).await), (2, notes));
    });
}

#[test]
fn repairs_drift_with_growing_backoff() {
    run_test("drift-repair", async |world| {
        let operator = world.operator().start().await;
        world.apply(&with_drift_policy("Repair")).await;
        world.until_ready().await;
        delete_service(world, "memcached").await;
        let repaired = |release: &'static str, revision: i64| {
            move |cloud: &OpenStackDeployment| {
                let child = cloud.child(release);
                (child.ready && child.revision == Some(revision) && child.drift.is_empty()).then_some(())
            }
        };
        world.until("the operator has restored the Service", repaired("memcached", 2)).await;
        world.api::<Service>().get("memcached").await.unwrap();

        let script =
            async || world.api::<ConfigMap>().get("mariadb-bin").await.unwrap().data.unwrap()["stand-in.sh"].clone();
        let shipped = script().await;
        edit(world, "other-tool", "exec false").await;
        world.until("the operator has reverted the edit", repaired("mariadb", 2)).await;
        assert_eq!(script().await, shipped);
        edit(world, "other-tool", "exec false").await;
        let is_reported = |cloud: &OpenStackDeployment| {
            let message = cloud.child("mariadb").message;
            let is_repeated =
                message.contains("drift came back after osdpl repaired") && message.contains("by other-tool");
            is_repeated.then_some(())
        };
        world.until("the operator reports that other-tool repeated its change", is_reported).await;
        assert_eq!((world.helm_runs().len(), script().await.as_str()), (4, "exec false"));

        // The operator delays its second repair of the same edit. But here a person requests the repair with the
        // annotation `osdpl.dev/repair`, so the operator must repair the edit at once.
        world.annotate(REPAIR, json!("mariadb")).await;
        world.until("the operator has reverted the edit again", repaired("mariadb", 3)).await;
        assert_eq!((world.helm_runs().len(), script().await), (5, shipped));
        assert_eq!(operator.metric("osdpl_releases_drifted{", "nimbus"), 0);
    });
}

#[test]
fn repairs_reported_drift_on_request() {
    run_test("drift-all", async |world| {
        let _operator = world.operator().helm(3).start().await;
        world.apply(&services(&SMALL)).await;
        world.until_ready().await;
        edit(world, "kubectl-edit", "exec false").await;
        until_drift(world, "mariadb", &["ConfigMap mariadb-bin edited: data.stand-in.sh kubectl-edit"]).await;
        world.annotate(REPAIR, json!("all")).await;
        let cloud = until_drift(world, "mariadb", &[]).await;
        assert!(cloud.child("mariadb").revision >= Some(1));
        let done = |cloud: &OpenStackDeployment| {
            let is_consumed = !cloud.metadata.annotations.clone().unwrap_or_default().contains_key(REPAIR);
            (cloud.is_ready() && cloud.child("mariadb").revision == Some(2) && is_consumed).then(|| cloud.clone())
        };
        let cloud =
            world.until("one upgrade has repaired mariadb, and the operator has removed the annotation", done).await;
        assert_eq!((cloud.child("memcached").revision, world.helm_runs().len()), (Some(1), 3));
    });
}

#[test]
fn detects_removed_fields_without_a_writer() {
    run_test("drift-removed", async |world| {
        let _operator = world.operator().start().await;
        world.apply(&services(&["mariadb"])).await;
        world.until_ready().await;
        let script = Patch::Merge(json!({"data": {"stand-in.sh": null}}));
        world.api::<ConfigMap>().patch("mariadb-bin", &by("kubectl-edit"), &script).await.unwrap();
        let selector = Patch::Merge(json!({"spec": {"template": {"spec": {"nodeSelector": null}}}}));
        world.api::<StatefulSet>().patch("mariadb-server", &by("kubectl-edit"), &selector).await.unwrap();
        let cloud = world
            .until("the status reports the drift of both objects", |cloud| {
                (cloud.child("mariadb").drift.len() == 2).then(|| cloud.clone())
            })
            .await;
        let reported = drift(&cloud.child("mariadb"));
        assert_eq!(reported[0], "ConfigMap mariadb-bin edited: data.stand-in.sh removed ?");
        assert!(
            reported[1].starts_with("StatefulSet mariadb-server edited: spec.template.spec.nodeSelector"),
            "{reported:?}"
        );
        world.annotate(REPAIR, json!("mariadb")).await;
        let cloud = until_drift(world, "mariadb", &[]).await;
        assert_eq!(cloud.child("mariadb").drift, []);
        world
            .until("the operator has repaired mariadb with revision 2", |cloud| {
                (cloud.is_ready() && cloud.child("mariadb").revision == Some(2)).then_some(())
            })
            .await;
        let data = world.api::<ConfigMap>().get("mariadb-bin").await.unwrap().data.unwrap();
        assert!(data.contains_key("stand-in.sh"));
    });
}

#[test]
fn ignores_configured_drift() {
    run_test("drift-ignored", async |world| {
        let _operator = world.operator().start().await;
        let mut spec = with_drift_policy("Ignore");
        world.apply(&spec).await;
        world.until_ready().await;
        edit(world, "kubectl-edit", "exec false").await;
        delete_service(world, "memcached").await;
        // From now on, the operator must report the drift of memcached and still ignore the drift of mariadb. So the
        // status that contains the drift of memcached must not contain the drift of mariadb.
        spec["services"]["memcached"]["releases"]["memcached"]["drift"] = "Report".into();
        world.apply(&spec).await;
        let cloud = until_drift(world, "memcached", &["Service memcached deleted ?"]).await;
        assert_eq!(drift(&cloud.child("mariadb")), [""; 0]);
        assert_eq!(world.helm_runs().len(), 2);
        spec["services"]["memcached"]["releases"]["memcached"]["drift"] = "Ignore".into();
        world.apply(&spec).await;
        until_drift(world, "memcached", &[]).await;
        assert_eq!(
            drift_events(world).await.len(),
            1,
            "the operator must write an event only for the drift of memcached, which it reports"
        );
    });
}

#[test]
fn own_upgrade_is_not_drift() {
    run_test("drift-own", async |world| {
        let _operator = world.operator().start().await;
        let spec = services(&["mariadb", "powerdns"]);
        world.apply(&spec).await;
        world.until_ready().await;

        world.block_helm();
        let values = json!({"conf": {"powerdns": {"loglevel": 5}}});
        world.apply(&with_values(spec, "powerdns", values)).await;
        let gone = |job: Option<&Job>| job.is_none_or(|job| job.metadata.deletion_timestamp.is_some());
        Box::pin(world.until_object(
            "the operator deletes the Job powerdns-db-init before the upgrade",
            "powerdns-db-init",
            gone,
        ))
        .await;
        // Edit a ConfigMap, and wait for the status that reports this edit. The same status must not report the deleted
        // Job as drift, because the operator itself has deleted the Job.
        edit(world, "kubectl-edit", "exec false").await;
        let cloud =
            until_drift(world, "mariadb", &["ConfigMap mariadb-bin edited: data.stand-in.sh kubectl-edit"]).await;
        let child = cloud.child("powerdns");
        assert_eq!((child.status.as_str(), child.revision, drift(&child)), ("deployed", Some(1), Vec::new()));

        world.release_helm().await;
        let cloud = world.until_ready().await;
        assert_eq!(cloud.child("powerdns").revision, Some(2));
        assert_eq!(drift_events(world).await.len(), 1, "{:#?}", drift_events(world).await);
    });
}
