//! Tests a Ready cloud. Without a change, the operator starts no helm process and writes nothing. After a change of one
//! value, it starts helm once.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use crate::cloud::{StatusAccess, services, with_values};
use crate::world::{World, now, run_test, with_timeout};

/// The services of a small test cloud. Each has one release without hooks. Two releases are necessary: a test can then
/// see whether a change of one release affects the other.
const SMALL: [&str; 2] = ["mariadb", "memcached"];

/// Triggers a pass that should only write the observed generation: changes a field of the spec that has no effect on
/// releases. Waits until the pass has written the status. A pass starts every other action before it writes the status.
/// So after this function, a test can check that the pass started no other action.
async fn trigger(world: &World, spec: &mut serde_json::Value) {
    spec["deletionPolicy"] = if spec["deletionPolicy"] == "Retain" { json!("Purge") } else { json!("Retain") };
    world.apply(spec).await;
    world.until_ready().await;
}

/// Checks that helm ran `helm_runs` times in total, and that after `since`, the operator wrote only the status.
/// `triggers` is the number of calls of [`trigger`] after `since`. Each call must lead to exactly one write of the
/// status.
async fn check_idle(world: &World, since: k8s_openapi::jiff::Timestamp, helm_runs: usize, triggers: usize) {
    let are_logged = async {
        // The test's watch may report a write before the API server adds the write to its audit log. So wait until the
        // log is complete.
        while world.writes_since(since).len() < triggers {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    with_timeout("the audit log contains one write for each trigger", are_logged).await;
    assert_eq!(world.helm_runs().len(), helm_runs, "{:?}", world.helm_runs());
    let writes = world.writes_since(since);
    assert!(writes.len() == triggers && writes.iter().all(|write| write.subresource == "status"), "{writes:#?}");
    let secrets_read = world.secrets_read_since(since);
    assert!(
        !secrets_read.iter().any(|name| name.contains("-credentials-")),
        "the operator must use the credentials that its watch reports, instead of reading single Secrets: {secrets_read:?}"
    );
}

/// Returns the name, message and repetitions of each event of the OpenStackDeployment, sorted.
async fn events(world: &World) -> Vec<(String, String, Option<i32>)> {
    let events = world.api::<Event>().list(&ListParams::default()).await.unwrap();
    let of_deployment =
        events.items.into_iter().filter(|event| event.involved_object.kind.as_deref() == Some("OpenStackDeployment"));
    let mut texts: Vec<_> = of_deployment
        .map(|event| {
            let count = event.series.as_ref().and_then(|series| series.count);
            (event.name_any(), event.message.unwrap_or_default(), count)
        })
        .collect();
    texts.sort();
    texts
}

#[test]
fn one_changed_key_runs_helm_once() {
    check_one_changed_key("one-key", 4);
}

#[test]
fn one_changed_key_runs_helm_3_once() {
    check_one_changed_key("one-key-helm3", 3);
}

fn check_one_changed_key(name: &str, helm: u8) {
    run_test(name, async |world| {
        let mut spec = services(&SMALL);
        let _operator = world.operator().helm(helm).start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        let mut installed: Vec<_> = world.helm_runs().iter().map(|run| run.release().to_owned()).collect();
        installed.sort();
        assert_eq!(installed, SMALL);

        spec = with_values(spec, "memcached", json!({"conf": {"memcached": {"max_connections": 4096}}}));
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        let changed: Vec<_> = world.helm_runs().split_off(2).iter().map(|run| run.release().to_owned()).collect();
        assert_eq!(changed, ["memcached"]);
        assert_eq!((cloud.child("memcached").revision, cloud.child("mariadb").revision), (Some(2), Some(1)));
        assert_eq!(world.helm_values("memcached")["conf"]["memcached"]["max_connections"], 4096);

        let began = now();
        trigger(world, &mut spec).await;
        check_idle(world, began, 3, 1).await;
        assert_eq!(world.secrets_read_since(began), [""; 0]);
    });
}

#[test]
fn idle_cloud_causes_no_helm_and_no_writes() {
    run_test("idle", async |world| {
        let mut spec = services(&SMALL);
        let mut operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        trigger(world, &mut spec).await;
        let (mut began, expected_events) = (now(), events(world).await);
        tokio::time::sleep(Duration::from_mins(1)).await;
        check_idle(world, began, 2, 0).await;
        assert_eq!(world.secrets_read_since(began), [""; 0]);

        for graceful in [true, false] {
            began = now();
            if graceful {
                assert!(operator.stop().await.success());
            } else {
                operator.kill();
            }
            operator = world.operator().start().await;
            operator.finds_ready(2).await;
            trigger(world, &mut spec).await;
            check_idle(world, began, 2, 1).await;
        }
        assert_eq!(events(world).await, expected_events);
    });
}

#[test]
fn reports_spec_changes_made_without_an_operator() {
    run_test("restart", async |world| {
        let mut spec = services(&SMALL);
        let operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        trigger(world, &mut spec).await;
        assert!(operator.stop().await.success());

        let (began, expected_events) = (now(), events(world).await);
        spec["deletionPolicy"] = json!("Purge");
        world.apply(&spec).await;
        let status = world.run(&["status"]);
        let text = String::from_utf8(status.stdout).unwrap();
        assert!(text.contains("\nnot yet observed by the operator: generation 3, observed 2"), "{text}");
        assert_eq!(status.status.code(), Some(2), "{text}");

        let _operator = world.operator().start().await;
        world.until_ready().await;
        trigger(world, &mut spec).await;
        check_idle(world, began, 2, 2).await;
        assert_eq!(events(world).await, expected_events);
    });
}
