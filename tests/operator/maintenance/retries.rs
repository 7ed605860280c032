//! Nova responds with status 500 to a change that a maintenance needs. The operator must report the failure once, and
//! retry the step.

use serde_json::json;

use super::add_computes;
use crate::fake_apis::FakeApis;
use crate::nodes::Nodes;
use crate::world::{now, run_test};

#[test]
fn failing_step_is_reported_once_and_retried() {
    run_test("maintenance-retry", async |world| {
        let (mut nodes, server) = (Nodes::of(world), FakeApis::start(&["identity", "compute"]).await);
        let node = add_computes(&mut nodes, &server, &["one"]).await.remove(0);
        world.apply_without_releases(json!({})).await;
        let _operator = world.start_for_maintenance(&server).await;
        let start = now();
        server.nova.set_broken(true);
        world.maintain("failing", json!({"node": node})).await;
        world.until_message("failing", "500 Internal Server Error").await;
        let (since, before) = (now(), server.nova.changes().len());
        server.nova.until_changed("put failed", before + 2).await;
        let count_writes = |since| {
            let all = world.writes_since(since).into_iter();
            all.filter(|entry| entry.resource.starts_with("nodemaintenances")).count()
        };
        assert!(count_writes(start) > 0, "the operator must report the failure in the status");
        assert_eq!(
            count_writes(since),
            0,
            "the operator must not write the status again while the failure is the same"
        );
        server.nova.set_broken(false);
        world.until_ready_to_drain("failing").await;
        world.delete_maintenance("failing").await;
        world.until_maintenance_deleted("failing").await;
        nodes.remove_all().await;
    });
}
