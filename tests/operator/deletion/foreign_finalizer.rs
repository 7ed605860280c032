//! osdpl has deleted a cloud and removed osdpl's finalizer from the OpenStackDeployment. The OpenStackDeployment still
//! exists, because it also has a finalizer of another controller. osdpl must not delete the cloud or report the
//! deletion a second time.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use osdpl_core::api::{FINALIZER, OpenStackDeployment};
use serde_json::{Value, json};

use crate::cloud::{NAME, StatusAccess, services};
use crate::nodes::Nodes;
use crate::operator::Operator;
use crate::world::{World, now, run_test, with_timeout};

/// A finalizer of another controller, which does not exist here. The test itself removes the finalizer at the end.
const FOREIGN_FINALIZER: &str = "example.org/accounts";

/// Returns the events in the test's namespace: a map from the name of each event to the text `REASON: MESSAGE` and the
/// number of repetitions.
async fn events(world: &World) -> BTreeMap<String, (String, Option<i32>)> {
    let events = world.api::<Event>().list(&ListParams::default()).await.unwrap();
    let texts = events.items.into_iter().map(|event| {
        let count = event.series.as_ref().and_then(|series| series.count);
        (
            event.name_any(),
            (format!("{}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default()), count),
        )
    });
    texts.collect()
}

/// Returns the number of reconcile passes that the operator has completed, from its metric for the duration of passes.
fn passes(operator: &Operator) -> u64 {
    operator.metric("osdpl_reconcile_duration_seconds_count", "")
}

/// Triggers two reconcile passes, one after the other: changes a label of the resource, and then an annotation.
async fn trigger_passes(world: &World, operator: &Operator, round: u32) {
    let until_next_pass = async |before: u64| {
        let counted = async {
            while passes(operator) <= before {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        with_timeout("a pass has ended", counted).await;
    };
    let before = passes(operator);
    let labels = Patch::Merge(json!({"metadata": {"labels": {"example.org/round": round.to_string()}}}));
    world.deployments().patch(NAME, &PatchParams::default(), &labels).await.unwrap();
    until_next_pass(before).await;
    let before = passes(operator);
    world.annotate("example.org/round", json!(round.to_string())).await;
    until_next_pass(before).await;
}

/// Creates a cloud with a node role, an unmanaged release and a foreign finalizer. When the cloud is deleted, the
/// operator must keep the unmanaged release and report this in an event.
async fn start_cloud(world: &World, node: &str) {
    let mut spec = services(&["mariadb", "memcached"]);
    spec["nodes"] = json!({"roles": {"gateway": {"names": [node]}}});
    world.apply(&spec).await;
    world.until_ready().await;
    spec["services"]["memcached"]["releases"] = json!({"memcached": {"managed": false}});
    world.apply(&spec).await;
    let unmanaged =
        |cloud: &OpenStackDeployment| cloud.child("memcached").message.starts_with("unmanaged:").then_some(());
    world.until("memcached is unmanaged", unmanaged).await;
    let finalizers: Value = json!({"metadata": {"finalizers": [FINALIZER, FOREIGN_FINALIZER]}});
    world.deployments().patch(NAME, &PatchParams::default(), &Patch::Merge(finalizers)).await.unwrap();
}

#[test]
fn finalizes_once_while_a_foreign_finalizer_remains() {
    run_test("foreign-finalizer", async |world| {
        let mut nodes = Nodes::of(world);
        let node = nodes.add("gateway", json!({})).await;
        let mut operator = world.operator().start().await;
        start_cloud(world, &node).await;
        world.delete().await;
        let is_finalized = |cloud: &OpenStackDeployment| (cloud.finalizers() == [FOREIGN_FINALIZER]).then_some(());
        world.until("osdpl has removed its finalizer", is_finalized).await;
        let (texts, helm_runs) = (events(world).await, world.helm_runs().len());
        let retained: Vec<_> = texts.values().filter(|(text, _)| text.starts_with("Retained: ")).collect();
        assert!(
            matches!(retained[..], [(_, None)]),
            "exactly one event must list the objects that the deletion retained: {texts:?}"
        );

        for round in [1, 2] {
            let since = now();
            trigger_passes(world, &operator, round).await;
            let version = world.annotate("example.org/checked", json!(round.to_string())).await.resource_version();
            assert_eq!(operator.metric("osdpl_reconcile_failures_total", ""), 0, "{}", world.operator_log());
            let started = operator.metric("osdpl_helm_starts_total", "uninstall");
            assert_eq!(
                started,
                u64::from(round == 1),
                "the first operator must uninstall one release, and the second operator must uninstall none"
            );
            assert!(
                !operator.metrics().contains(&format!("name=\"{NAME}\"")),
                "the metrics must not contain a resource from which osdpl has removed its finalizer"
            );
            assert!(operator.stop().await.success());
            assert_eq!(world.helm_runs().len(), helm_runs, "{:?}", world.helm_runs());
            assert_eq!(events(world).await, texts, "passes after the end of the deletion must not repeat an event");
            let cloud = world.deployments().get(NAME).await.unwrap();
            assert_eq!(
                cloud.resource_version(),
                version,
                "the operator must not write the resource after it has removed its finalizer"
            );
            assert_eq!(world.writes_since(since), []);
            operator = world.operator().start().await;
        }

        let without_finalizers = Patch::Merge(json!({"metadata": {"finalizers": []}}));
        world.deployments().patch(NAME, &PatchParams::default(), &without_finalizers).await.unwrap();
        world.until_gone().await;
        nodes.remove_all().await;
    });
}
