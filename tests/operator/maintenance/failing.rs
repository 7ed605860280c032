//! Failing steps.

use serde_json::json;

use super::computes;
use crate::nodes::Nodes;
use crate::standin::StandIn;
use crate::world::{now, run_test};

#[test]
fn failing_step_is_reported_once_and_retried() {
    run_test("failing", async |world| {
        let (mut nodes, server) = (Nodes::of(world), StandIn::start(&["identity", "compute"]).await);
        let node = computes(&mut nodes, &server, &["one"]).await.remove(0);
        world.apply_without_releases(json!({})).await;
        let _operator = world.start_for_maintenance(&server).await;
        let start = now();
        server.nova.breaks(true);
        world.maintain("tired", json!({"node": node})).await;
        world.until_message("tired", "500 Internal Server Error").await;
        let (since, before) = (now(), server.nova.changes().len());
        server.nova.until_changed("put in vain", before + 2).await;
        let written = |since| {
            let all = world.writes_since(since).into_iter();
            all.filter(|entry| entry.resource.starts_with("nodemaintenances")).count()
        };
        assert!(written(start) > 0, "the audit log has them");
        assert_eq!(written(since), 0, "the same message causes no write and no early retry");
        server.nova.breaks(false);
        world.until_ready_to_drain("tired").await;
        world.delete_maintenance("tired").await;
        world.until_maintenance_deleted("tired").await;
        nodes.leave().await;
    });
}
