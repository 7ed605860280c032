//! A cloud that stands: what a change costs, and that nothing costs nothing.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use crate::cloud::{Told, services, with_values};
use crate::world::{World, now, patience, story};

/// Two releases without hooks: the smallest cloud with something to compare.
const SMALL: [&str; 2] = ["mariadb", "memcached"];

/// A poke that has one answer, a status write (a new generation is observed): once that is there, whatever else the operator
/// would do has begun.
async fn poke(world: &World, spec: &mut serde_json::Value) {
    spec["deletionPolicy"] = if spec["deletionPolicy"] == "Retain" { json!("Purge") } else { json!("Retain") };
    world.apply(spec).await;
    world.until_ready().await;
}

/// Nothing changes: no helm, no write but the answers to `pokes` pokes.
async fn was_quiet(world: &World, since: k8s_openapi::jiff::Timestamp, helms: usize, pokes: usize) {
    let logged = async {
        // A watch may be told of a write before the audit log is.
        while world.writes_since(since).len() < pokes {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    patience("the audit log has the answers to the pokes", logged).await;
    assert_eq!(world.helm_runs().len(), helms, "{:?}", world.helm_runs());
    let writes = world.writes_since(since);
    assert!(writes.len() == pokes && writes.iter().all(|write| write.subresource == "status"), "{writes:#?}");
    let read = world.secrets_read_since(since);
    assert!(!read.iter().any(|name| name.contains("-credentials-")), "a watch tells what they hold: {read:?}");
}

/// The notes of all events, each with how often it was told.
async fn events(world: &World) -> Vec<(String, String, Option<i32>)> {
    let events = world.api::<Event>().list(&ListParams::default()).await.unwrap();
    let ours =
        events.items.into_iter().filter(|event| event.involved_object.kind.as_deref() == Some("OpenStackDeployment"));
    let mut told: Vec<_> = ours
        .map(|event| {
            let count = event.series.as_ref().and_then(|series| series.count);
            (event.name_any(), event.message.unwrap_or_default(), count)
        })
        .collect();
    told.sort();
    told
}

#[test]
fn one_key_changed_is_one_helm_process_and_none_changed_is_none() {
    one_key("one-key", 4);
}

#[test]
fn with_helm_3_too_one_key_changed_is_one_helm_process() {
    one_key("one-key-helm3", 3);
}

fn one_key(name: &str, helm: u8) {
    story(name, async |world| {
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
        poke(world, &mut spec).await;
        was_quiet(world, began, 3, 1).await;
        assert_eq!(world.secrets_read_since(began), [""; 0]);
    });
}

#[test]
fn nothing_is_started_or_written_for_a_minute_nor_when_the_operator_starts_again() {
    story("quiet", async |world| {
        let mut spec = services(&SMALL);
        let mut operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        poke(world, &mut spec).await;
        let (mut began, told) = (now(), events(world).await);
        tokio::time::sleep(Duration::from_mins(1)).await;
        was_quiet(world, began, 2, 0).await;
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
            poke(world, &mut spec).await;
            was_quiet(world, began, 2, 1).await;
        }
        assert_eq!(events(world).await, told);
    });
}

#[test]
fn a_spec_that_changes_while_no_operator_runs_is_told_as_unseen_and_one_that_asks_for_nothing_is_taken_without_a_word()
{
    story("restart", async |world| {
        let mut spec = services(&SMALL);
        let operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_ready().await;
        poke(world, &mut spec).await;
        assert!(operator.stop().await.success());

        let (began, told) = (now(), events(world).await);
        spec["deletionPolicy"] = json!("Purge");
        world.apply(&spec).await;
        let status = world.run(&["status"]);
        let text = String::from_utf8(status.stdout).unwrap();
        assert!(text.contains("\nnot yet seen by the operator: generation 3, seen 2"), "{text}");
        assert_eq!(status.status.code(), Some(2), "{text}");

        let _operator = world.operator().start().await;
        world.until_ready().await;
        poke(world, &mut spec).await;
        was_quiet(world, began, 2, 2).await;
        assert_eq!(events(world).await, told);
    });
}
