//! Obstacles, changes by others, and cancellation.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use osdpl_core::api::RETRY;

use super::*;
use crate::cloud::StatusAccess;
use crate::standin::Behaviour;

impl World {
    /// Creates a database of three members, one per node of this test.
    async fn has_a_database(&self) {
        let labels = json!({"application": "mariadb", "component": "server"});
        let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            [{"labelSelector": {"matchLabels": labels}, "topologyKey": "host"}]}});
        let pod = json!({"nodeSelector": {"story": self.namespace}, "affinity": apart,
            "containers": [{"name": "mariadb", "image": "mariadb"}]});
        let set = json!({"metadata": {"name": "mariadb-server"}, "spec": {"replicas": 3, "serviceName": "mariadb",
            "podManagementPolicy": "Parallel", "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod}}});
        let sets = self.api::<StatefulSet>();
        sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
        let budget = json!({"metadata": {"name": "mariadb-server"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}}});
        let budgets = self.api::<PodDisruptionBudget>();
        budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
        let ready = |set: Option<&StatefulSet>| {
            set.and_then(|set| set.status.as_ref()).is_some_and(|status| status.ready_replicas == Some(3))
        };
        Box::pin(self.until_object("the database exists", "mariadb-server", ready)).await;
        let allows = |budget: Option<&PodDisruptionBudget>| {
            budget.and_then(|budget| budget.status.as_ref()).is_some_and(|status| status.disruptions_allowed == Some(1))
        };
        Box::pin(self.until_object("its budget is counted", "mariadb-server", allows)).await;
    }

    /// Makes a pod unready, or ready again.
    async fn set_ready(&self, pod: &str, ready: bool) {
        let value = if ready { Value::Null } else { "false".into() };
        let patch = Patch::Merge(json!({"metadata": {"labels": {"kwok.osdpl.dev/ready": value}}}));
        self.api::<Pod>().patch(pod, &PatchParams::default(), &patch).await.unwrap();
        let is = |pod: Option<&Pod>| {
            let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.clone()).unwrap_or_default();
            conditions.iter().any(|one| one.type_ == "Ready" && (one.status == "True") == ready)
        };
        Box::pin(self.until_object(&format!("{pod} is ready: {ready}"), pod, is)).await;
    }

    async fn allow_evictions(&self, most: i32) {
        let patch = Patch::Merge(json!({"spec": {"maxUnavailable": most}}));
        self.api::<PodDisruptionBudget>().patch("mariadb-server", &PatchParams::default(), &patch).await.unwrap();
    }

    /// Returns a member that is not on this node.
    async fn member_beside(&self, node: &str) -> String {
        self.member(|at| at != node).await
    }

    /// Returns the member on this node.
    async fn member_on(&self, node: &str) -> String {
        self.member(|at| at == node).await
    }

    async fn member(&self, is: impl Fn(&str) -> bool) -> String {
        let pods = self.api::<Pod>().list(&kube::api::ListParams::default()).await.unwrap();
        let at = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        pods.iter().find(|pod| is(&at(pod))).unwrap().name_any()
    }
}

#[test]
fn immovable_instances_block_and_foreign_changes_stay() {
    run_test("blocked", async |world| {
        let server = StandIn::start(&[]).await;
        let mut nodes = Nodes::of(world);
        let names = computes(&mut nodes, &server, &["one", "two"]).await;
        let one = names[0].as_str();
        server.nova.server(one, "x", "ACTIVE");
        server.nova.server(one, "y", "SHUTOFF");
        server.nova.moves(Moves::Fail);
        server.nova.set_service(one, "status", "disabled".into());
        server.nova.set_service(one, "disabled_reason", "broken fan".into());
        world.set_cordon(one, true).await;
        let _operator = world.start_for_maintenance(&server).await;
        world.apply_without_releases(json!({})).await;
        world.maintain("stuck", json!({"node": one})).await;
        let both = |status: &NodeMaintenanceStatus| {
            status.instances.as_ref().is_some_and(|instances| instances.failed.len() == 2) && is_true(status, "Blocked")
        };
        let status = world.until_maintained("stuck", "both instances are named", both).await;
        let failed = status.instances.unwrap().failed;
        let again = format!("kubectl annotate nm {} osdpl.dev/retry=now", world.own("stuck"));
        assert!(failed[0].reason.starts_with("its live migration 1 ended as error; see the log of nova-compute"));
        assert!(failed[0].name == "x-name" && failed[0].reason.ends_with(&again), "{failed:?}");
        assert!(
            failed[1].id == "y" && failed[1].reason.starts_with("is SHUTOFF, which can't be live-migrated; start it")
        );
        assert!(status.message.starts_with("instance x-name (x) its live migration 1"), "{}", status.message);
        assert_eq!(server.nova.changes(), ["migrate x"], "once, and nothing else");

        server.nova.moves(Moves::AtOnce);
        server.nova.remove_server("y");
        let retry = Patch::Merge(json!({"metadata": {"annotations": {RETRY: "now"}}}));
        world.maintenances().patch(&world.own("stuck"), &PatchParams::default(), &retry).await.unwrap();
        let status = world.until_ready_to_drain("stuck").await;
        assert_eq!(
            step(&status, MaintenanceStep::DisableCompute),
            (StepState::Skipped, "someone else has disabled it: broken fan")
        );
        assert_eq!(step(&status, MaintenanceStep::Cordon), (StepState::Skipped, "someone else has cordoned it"));
        let kept = world.maintenances().get(&world.own("stuck")).await.unwrap();
        assert!(!kept.annotations().contains_key(RETRY), "it counts once");
        world.delete_maintenance("stuck").await;
        world.until_maintenance_deleted("stuck").await;
        assert_eq!(world.cordon_of(one).await, (true, None));
        assert_eq!(server.nova.service(one), (false, "broken fan".into()));
        assert_eq!(server.nova.changes(), ["migrate x", "migrate x"]);

        check_cancellation(world, &server, &names[1]).await;
        check_incoming_instances(world, &server, one).await;
        check_unavailable_or_old_nova(world, &server, &names[1]).await;
        nodes.leave().await;
    });
}

/// Deleting the maintenance reverts it at once; migrations in progress complete.
async fn check_cancellation(world: &World, server: &StandIn, node: &str) {
    server.nova.moves(Moves::Slowly);
    world.maintain("abort", json!({"node": node})).await;
    server.nova.until_changed("migrate x", 3).await;
    assert!(!server.nova.service(node).0);
    world.delete_maintenance("abort").await;
    server.nova.until_changed(&format!("put os-services/compute-{node} enabled"), 1).await;
    world.until_maintenance_deleted("abort").await;
    assert_eq!(world.cordon_of(node).await, (false, None));
    server.nova.release("x");
}

/// An instance that was scheduled to the node before is listed only after it arrives, and is then migrated.
async fn check_incoming_instances(world: &World, server: &StandIn, node: &str) {
    server.nova.start_migration("x", node);
    world.maintain("arrives", json!({"node": node})).await;
    let status = world.until_message("arrives", &format!("1 instance is on the way to {node}: x-name (x)")).await;
    assert!(!is_true(&status, "ReadyToDrain") && status.instances.unwrap().remaining == 0);
    server.nova.release("x");
    server.nova.until_changed("migrate x", 4).await;
    server.nova.release("x");
    world.until_ready_to_drain("arrives").await;
    assert_ne!(server.nova.host_of("x"), node);
    world.delete_maintenance("arrives").await;
    world.until_maintenance_deleted("arrives").await;
}

async fn check_unavailable_or_old_nova(world: &World, server: &StandIn, node: &str) {
    // No DaemonSet shows that it is a compute node.
    let compute = json!({"metadata": {"name": "nova-compute", "labels": {"application": "nova", "component": "compute"}},
        "spec": {"nodeName": node, "containers": [{"name": "nova-compute", "image": "nova"}]}});
    world.api::<Pod>().create(&PostParams::default(), &serde_json::from_value(compute).unwrap()).await.unwrap();
    let before = server.nova.changes().len();
    let mut spec = json!({"openstackRelease": "2026.1", "presets": ["compute"], "paused": true});
    let whole = spec.clone();
    spec["services"] = json!({"keystone": {"credentials": {"admin": {"name": "nowhere", "key": "password"}}}});
    let newest = world.apply(&spec).await.metadata.generation;
    world.until("the spec is read", |cloud| (cloud.status().observed_generation == newest).then_some(())).await;
    world.maintain("away", json!({"node": node})).await;
    world
        .until_message("away", "nova cannot be queried: the password of the cloud's administrator is not known yet")
        .await;
    server.answers("nova-api", Behaviour::Badly);
    world.apply(&whole).await;
    let status = world.until_message("away", "503 Service Unavailable").await;
    let begins = format!("cannot check for instances on {node}: GET http://nova-api.");
    assert!(status.message.starts_with(&begins), "{}", status.message);
    server.answers("nova-api", Behaviour::Well);
    server.nova.speaks(52);
    server.nova.expire();
    world.until_message("away", "nova supports API version 2.52 at most, but 2.53 is required").await;
    assert_eq!((world.cordon_of(node).await, server.nova.changes().len()), ((false, None), before));
    let leave = Patch::Merge(json!({"spec": {"instances": "Leave"}}));
    world.maintenances().patch(&world.own("away"), &PatchParams::default(), &leave).await.unwrap();
    world.until_ready_to_drain("away").await;
    assert_eq!(world.cordon_of(node).await, (true, Some(world.own("away"))));
    world.delete_maintenance("away").await;
    world.until_maintenance_deleted("away").await;
    assert_eq!((world.cordon_of(node).await, server.nova.changes().len()), ((false, None), before));
}

#[test]
fn quorum_and_budgets_block_until_the_window_ends() {
    run_test("quorum", async |world| {
        let server = StandIn::start(&[]).await;
        let mut nodes = Nodes::of(world);
        let mut joined = Vec::new();
        for name in ["one", "two", "three"] {
            joined.push(nodes.join(name, json!({"story": world.namespace, "host": name})).await);
        }
        let node = joined[0].as_str();
        Box::pin(world.has_a_database()).await;
        let _operator = world.start_for_maintenance(&server).await;
        world.apply_without_releases(json!({"maintenance": {"limits": {"control-plane": 2}}})).await;
        let member = world.member_beside(node).await;
        world.set_ready(&member, false).await;
        world.maintain("held", json!({"node": node})).await;
        let set = format!("{}/mariadb-server", world.namespace);
        let quorum = format!(
            "StatefulSet {set} would keep 1 of 3 pods ready without this node but needs 2 for its quorum; make its other pods ready"
        );
        let status = world.until_message("held", &quorum).await;
        assert_eq!(step(&status, MaintenanceStep::Turn).0, StepState::Waiting);
        world.allow_evictions(0).await;
        world.set_ready(&member, true).await;
        let budget = format!("PodDisruptionBudget {set} allows no eviction: 3 of its pods are healthy, but 3 must be");
        world.until_message("held", &budget).await;
        assert_eq!(world.cordon_of(node).await, (false, None));
        // A budget protects ready pods: the failing pod of the node may be evicted.
        let own = world.member_on(node).await;
        world.set_ready(&own, false).await;
        world.allow_evictions(1).await;
        let status = world.until_ready_to_drain("held").await;
        assert_eq!(step(&status, MaintenanceStep::Instances), (StepState::Skipped, "the node is not a compute node"));
        assert_eq!(world.cordon_of(node).await, (true, Some(world.own("held"))));

        // Pods on a node in maintenance count as unavailable.
        let soon = (crate::world::now() + k8s_openapi::jiff::SignedDuration::from_secs(8)).to_string();
        world.maintain("late", json!({"node": joined[1], "window": {"end": soon}})).await;
        world.until_message("late", "would keep 1 of 3 pods ready").await;
        let expired = world.until_message("late", "its window ended before").await;
        assert_eq!(expired.phase, Some(osdpl_core::api::MaintenancePhase::Expired));
        world.delete_maintenance("late").await;
        world.delete_maintenance("held").await;
        world.until_maintenance_deleted("late").await;
        world.until_maintenance_deleted("held").await;
        assert_eq!(world.cordon_of(node).await, (false, None));
        nodes.leave().await;
    });
}
