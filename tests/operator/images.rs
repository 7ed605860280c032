//! New images. After an upgrade to new images, the new pods must not start before the Job of the new image has migrated
//! the database schema. If a tag has moved, the operator reports that new pods run another digest.

use cluster::{AuditEntry, Rule};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use osdpl_core::api::{OpenStackDeployment, condition};
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services, with_values};
use crate::world::{World, now, run_test, with_timeout};

const JOB: &str = "keystone-db-sync";

/// Returns which of two writes came first after `since`: the deletion of the Job keystone-db-sync, or the patch of the
/// Deployment keystone-api, whose pods wait for that Job.
fn first_write(world: &World, since: Timestamp) -> String {
    let matches = |entry: &AuditEntry, verb: &str, resource: &str, name: &str| {
        entry.verb == verb && entry.resource == resource && entry.name == name && entry.namespace == world.namespace
    };
    let writes = world.writes_since(since);
    let entry = writes
        .iter()
        .find(|entry| matches(entry, "delete", "jobs", JOB) || matches(entry, "patch", "deployments", "keystone-api"))
        .unwrap();
    format!("{} {}", entry.verb, entry.name)
}

/// Returns, for each pod of keystone-api with this image, whether the pod's init containers have completed.
async fn new_pods(world: &World, image: &str) -> Vec<bool> {
    let pods = world.api::<Pod>().list(&ListParams::default()).await.unwrap();
    let new = pods.items.into_iter().filter(|pod| {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        pod.metadata.name.as_deref().is_some_and(|name| name.starts_with("keystone-api-"))
            && containers.into_iter().any(|container| container.image.as_deref() == Some(image))
    });
    let started = |pod: Pod| pod.status.and_then(|status| status.phase).is_some_and(|phase| phase != "Pending");
    new.map(started).collect()
}

#[test]
fn new_image_waits_for_its_schema_migration() {
    run_test("images", async |world| {
        let _operator = world.operator().start().await;
        let spec = world.keystone().await;
        let keystone = |values: Value| with_values(spec.clone(), "keystone", values);
        world.apply(&spec).await;
        world.until_ready().await;

        let began = now();
        world.apply(&keystone(json!({"pod": {"replicas": {"api": 2}}}))).await;
        world.until_ready().await;
        assert_eq!(
            first_write(world, began),
            "patch keystone-api",
            "with unchanged images, the operator must not delete the Job keystone-db-sync"
        );

        // Block helm in the hook keystone-db-init, which runs before keystone-db-sync. The operator must have deleted
        // the old Job keystone-db-sync. Otherwise the new pods would find this completed Job, would not wait for the
        // new Job, and would start with the old schema.
        let before = "keystone-db-init";
        world.cluster().behaviour(before, &Rule::new(&world.namespace, before, "hang")).await.unwrap();
        let (began, image) = (now(), "quay.io/airshipit/keystone:next");
        let tags = json!({"keystone_api": image, "keystone_db_sync": image});
        world.apply(&keystone(json!({"pod": {"replicas": {"api": 2}}, "images": {"tags": tags}}))).await;
        world
            .until("helm waits for the hook keystone-db-init", |cloud| {
                cloud.child("keystone").hook.filter(|hook| hook.contains(before)).map(drop)
            })
            .await;
        assert_eq!(first_write(world, began), format!("delete {JOB}"));
        assert!(world.api::<Job>().get_opt(JOB).await.unwrap().is_none());
        let pods = with_timeout("a pod with the new image exists", async {
            loop {
                let pods = new_pods(world, image).await;
                if !pods.is_empty() {
                    break pods;
                }
                tokio::task::yield_now().await;
            }
        });
        assert!(pods.await.iter().all(|started| !started));

        world.cluster().remove_rule(before).await.unwrap();
        world.until_ready().await;
        assert_eq!(new_pods(world, image).await, [true, true]);
    });
}

/// Returns the message of the condition Ready.
fn ready_message(cloud: &OpenStackDeployment) -> String {
    cloud.condition(condition::READY).map(|ready| ready.message).unwrap_or_default()
}

#[test]
fn moved_tag_is_reported_until_the_image_is_pinned() {
    run_test("moved-tag", async |world| {
        let image = "quay.io/airshipit/mariadb:latest-ubuntu_noble";
        let operator = world.operator().start().await;
        let mut spec = with_values(services(&["mariadb"]), "mariadb", json!({"pod": {"replicas": {"server": 3}}}));
        world.apply(&spec).await;
        let recorded = world.until_ready().await.child("mariadb").images;
        let old = recorded[0].strip_prefix(&format!("{image}@")).unwrap().to_owned();
        assert_eq!(recorded.len(), 1, "the tag has one digest, so all pods run the same digest: {recorded:?}");

        // The tag moves while no operator runs. The new operator must still notice, because the status contains the
        // digest that ran before.
        assert!(operator.stop().await.success());
        let new = format!("sha256:{}", "b".repeat(64));
        let moved = Rule {
            namespace: Some(world.namespace.clone()),
            name: Some("mariadb-server-0".into()),
            digest: Some(new.clone()),
            ..Rule::default()
        };
        world.cluster().behaviour("moved", &moved).await.unwrap();
        world.delete_pods("mariadb-server-0").await;
        let _operator = world.operator().start().await;
        let warning = "pods of release mariadb run image";
        let cloud = world
            .until("the operator warns about the moved tag", |cloud| {
                (cloud.is_ready() && ready_message(cloud).contains(warning)).then(|| cloud.clone())
            })
            .await;
        let mut expected = vec![format!("{image}@{old}"), format!("{image}@{new}")];
        expected.sort();
        assert_eq!(cloud.child("mariadb").images, expected);
        let message = ready_message(&cloud);
        assert!(message.contains("sha256:bbbbbbbbbbbb (mariadb-server)"), "{message}");
        assert!(message.contains(&format!("{} (mariadb-controller, mariadb-server)", &old[..19])), "{message}");
        let is_found = |event: &Event| {
            let note = event.message.as_deref().unwrap_or_default();
            event.reason.as_deref() == Some("ImageChanged") && note.contains(&format!("moved from {old} to {new}"))
        };
        let reported = with_timeout("an event reports the moved tag", async {
            while !world.api::<Event>().list(&ListParams::default()).await.unwrap().iter().any(is_found) {
                tokio::task::yield_now().await;
            }
        });
        reported.await;
        assert_eq!(world.helm_runs().len(), 1);

        spec["images"] = json!({"digests": {image: old}});
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        assert_eq!((cloud.child("mariadb").images, cloud.child("mariadb").revision), (Vec::new(), Some(2)));
        assert!(!ready_message(&cloud).contains(warning), "{}", ready_message(&cloud));
    });
}
