//! Nova does not respond to a request that the operator sends for a maintenance. The operator must still stop soon
//! after SIGTERM.

use serde_json::json;

use super::add_computes;
use crate::fake_apis::{Behaviour, FakeApis};
use crate::nodes::Nodes;
use crate::world::{now, run_test};

#[test]
fn stops_without_waiting_for_nova() {
    run_test("maintenance-stop", async |world| {
        let (mut nodes, server) = (Nodes::of(world), FakeApis::start(&["identity", "compute"]).await);
        let node = add_computes(&mut nodes, &server, &["one"]).await.remove(0);
        world.apply_without_releases(json!({})).await;
        let operator = world.start_for_maintenance(&server).await;
        server.set_behaviour("nova-api", Behaviour::Silent);
        // The operator logs in to Keystone, and then waits for Nova.
        let maintain = world.maintain("silent", json!({"node": node}));
        tokio::join!(server.wait_for_requests(1), maintain);
        let since = now();
        assert!(operator.stop().await.success());
        // If the operator had waited for Nova's response, it would have written the error of the request to the status.
        let written: Vec<_> = world.writes_since(since).into_iter().map(|write| write.resource).collect();
        assert!(!written.iter().any(|resource| resource.starts_with("nodemaintenances")), "{written:?}");

        server.set_behaviour("nova-api", Behaviour::Normal);
        let _operator = world.start_for_maintenance(&server).await;
        world.until_ready_to_drain("silent").await;
        world.delete_maintenance("silent").await;
        world.until_maintenance_deleted("silent").await;
        nodes.remove_all().await;
    });
}
