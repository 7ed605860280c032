//! Steps that fail.

use serde_json::json;

use super::computes;
use crate::nodes::Nodes;
use crate::standin::StandIn;
use crate::world::{now, story};

#[test]
fn a_step_that_fails_is_told_once_and_tried_again_until_it_succeeds() {
    story("failing", async |world| {
        let (mut nodes, server) = (Nodes::of(world), StandIn::start(&["identity", "compute"]).await);
        let node = computes(&mut nodes, &server, &["one"]).await.remove(0);
        world.plans_a_cloud(json!({})).await;
        let _operator = world.maintains(&server).await;
        let start = now();
        server.nova.breaks(true);
        world.maintain("tired", json!({"node": node})).await;
        world.until_says("tired", "500 Internal Server Error").await;
        let (since, before) = (now(), server.nova.changes().len());
        server.nova.until_changed("put in vain", before + 2).await;
        let written = |since| {
            let all = world.writes_since(since).into_iter();
            all.filter(|entry| entry.resource.starts_with("nodemaintenances")).count()
        };
        assert!(written(start) > 0, "the audit log has them");
        assert_eq!(written(since), 0, "the same words are no news, and no reason to try at once");
        server.nova.breaks(false);
        world.until_ready_to_drain("tired").await;
        world.gives_back("tired").await;
        world.until_given_back("tired").await;
        nodes.leave().await;
    });
}
