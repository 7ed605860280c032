//! Mistakes in `spec.nodes.roles`. When a role disappears from the spec or no longer selects a node, the node keeps the
//! role's labels until a person approves exactly this removal.

use cluster::AuditEntry;
use osdpl_core::api::OpenStackDeployment;
use serde_json::{Value, json};

use crate::cloud::StatusAccess;
use crate::nodes::{COMPUTE, Nodes, SWITCH, until_labels_wait, with_rollout};
use crate::world::{World, now, run_test};

/// Returns a spec with the role `compute` for `nodes`. Because of `approval: Automatic` in the spec, only the removal
/// of labels can need an approval. Whether it needs one depends on `rollout`.
fn compute(nodes: &Value, rollout: &Value) -> Value {
    let mut spec = with_rollout(json!({"compute": nodes}), rollout.clone());
    spec["approval"] = json!("Automatic");
    spec
}

/// Waits until the status says that the role selects no node, and that osdpl therefore does not remove the role's
/// labels.
async fn until_kept(world: &World) {
    let is_reported = |cloud: &OpenStackDeployment| {
        let message = cloud.condition("Ready")?.message;
        message.contains("osdpl does not remove the role's labels from").then_some(())
    };
    world.until("the operator reports that the role has no node", is_reported).await;
}

#[test]
fn mistakes_in_roles_remove_no_label() {
    run_test("role-mistakes", async |world| {
        let mut nodes = Nodes::of(world);
        let names = [nodes.add("a", json!({"rack": "r1"})).await, nodes.add("b", json!({"rack": "r1"})).await];
        // Use the rollout settings with the fewest limits. Even with these settings, no mistake may remove a label.
        let generous = json!({"approval": "Automatic", "batchSize": "100%", "pauseSeconds": 0});
        let _operator = world.operator().start().await;
        let good = compute(&json!({"selector": {"matchLabels": {"rack": "r1"}}}), &generous);
        world.apply(&good).await;
        for name in &names {
            nodes.until_labels(name, &[COMPUTE, SWITCH]).await;
        }
        world.until_ready().await;

        let since = now();
        let typing_error = json!({"key": "rack", "operator": "In", "values": ["R1"]});
        let contradiction = json!([{"key": "rack", "operator": "Exists"}, {"key": "rack", "operator": "DoesNotExist"}]);
        for broken in [
            json!({"selector": {"matchLabels": {"rak": "r1"}}}),
            json!({"selector": {"matchExpressions": [typing_error]}}),
            json!({"selector": {"matchExpressions": contradiction}}),
            json!({"names": ["a", "b"]}),
        ] {
            world.apply(&compute(&broken, &generous)).await;
            until_kept(world).await;
            world.apply(&good).await;
            world.until_ready().await;
        }
        // `spec.approval: Automatic` must not approve the removal of labels.
        let mut dropped = with_rollout(json!({}), json!({"batchSize": "100%", "pauseSeconds": 0}));
        dropped["approval"] = json!("Automatic");
        world.apply(&dropped).await;
        until_labels_wait(world).await;
        dropped.as_object_mut().unwrap().remove("nodes");
        world.apply(&dropped).await;
        until_labels_wait(world).await;
        let writes = world.writes_since(since).into_iter().filter(|write| write.resource == "nodes");
        assert_eq!(writes.collect::<Vec<AuditEntry>>(), []);
        nodes.remove_all().await;
    });
}

#[test]
fn reassigned_node_keeps_its_labels_until_another_approval() {
    run_test("role-reassigned", async |world| {
        let mut nodes = Nodes::of(world);
        let names = [nodes.add("a", json!({"rack": "r1"})).await, nodes.add("b", json!({"rack": "r1"})).await];
        let rollout = |pause: u32| json!({"batchSize": 1, "pauseSeconds": pause});
        let _operator = world.operator().start().await;
        world.apply(&with_rollout(json!({"compute": {"names": names}}), rollout(3600))).await;
        for name in &names {
            nodes.until_labels(name, &[COMPUTE, SWITCH]).await;
        }
        world.apply(&with_rollout(json!({}), rollout(3600))).await;
        let approved = until_labels_wait(world).await.status().approval;
        world.osdpl(&["approve"]);
        nodes.until_labels(&names[0], &[]).await;
        let stored =
            |cloud: &OpenStackDeployment| cloud.status().label_removal.filter(|removal| removal.last_batch.is_some());
        let removal = world.until("the status contains the first batch", stored).await;
        assert_eq!(Some(removal.hash), approved, "the status must contain the hash that the person approved");

        // The first node gets the role again before the second one has lost its labels.
        world.apply(&with_rollout(json!({"compute": {"names": [names[0]]}}), rollout(3600))).await;
        nodes.until_labels(&names[0], &[COMPUTE, SWITCH]).await;
        let is_left = |cloud: &OpenStackDeployment| {
            let removal = cloud.status().label_removal?;
            removal.nodes.keys().eq([&names[1]]).then_some(())
        };
        world.until("the approval covers only the second node", is_left).await;
        world.apply(&with_rollout(json!({}), rollout(0))).await;
        nodes.until_labels(&names[1], &[]).await;
        until_labels_wait(world).await;
        nodes.until_labels(&names[0], &[COMPUTE, SWITCH]).await;
        nodes.remove_all().await;
    });
}
