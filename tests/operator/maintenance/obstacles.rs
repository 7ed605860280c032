//! Tests what can delay a maintenance, such as instances that can't be migrated, a quorum, PodDisruptionBudgets or an
//! unavailable Nova. Also tests that a maintenance can be cancelled, and that its end does not undo the changes of
//! someone else: a node that was cordoned before must stay cordoned, and a compute service that was disabled before
//! must stay disabled.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use osdpl_core::api::RETRY;

use super::*;
use crate::cloud::StatusAccess;
use crate::fake_apis::Behaviour;

impl World {
    /// Creates a StatefulSet of three database pods, one on each node of this test, with a `PodDisruptionBudget` that
    /// allows one eviction.
    async fn create_database(&self) {
        let labels = json!({"application": "mariadb", "component": "server"});
        let anti_affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            [{"labelSelector": {"matchLabels": labels}, "topologyKey": "host"}]}});
        let pod = json!({"nodeSelector": {"test": self.namespace}, "affinity": anti_affinity,
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
        Box::pin(self.until_object("the three database pods are ready", "mariadb-server", ready)).await;
        let allows = |budget: Option<&PodDisruptionBudget>| {
            budget.and_then(|budget| budget.status.as_ref()).is_some_and(|status| status.disruptions_allowed == Some(1))
        };
        Box::pin(self.until_object("the PodDisruptionBudget allows one eviction", "mariadb-server", allows)).await;
    }

    /// Makes a pod ready or unready, and waits until the pod's Ready condition has changed.
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

    async fn allow_evictions(&self, count: i32) {
        let patch = Patch::Merge(json!({"spec": {"maxUnavailable": count}}));
        self.api::<PodDisruptionBudget>().patch("mariadb-server", &PatchParams::default(), &patch).await.unwrap();
    }

    /// Returns the name of a database pod that is not on this node.
    async fn member_on_another_node(&self, node: &str) -> String {
        self.member(|name| name != node).await
    }

    /// Returns the name of the database pod on this node.
    async fn member_on(&self, node: &str) -> String {
        self.member(|name| name == node).await
    }

    async fn member(&self, is: impl Fn(&str) -> bool) -> String {
        let pods = self.api::<Pod>().list(&kube::api::ListParams::default()).await.unwrap();
        let node_of = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        pods.iter().find(|pod| is(&node_of(pod))).unwrap().name_any()
    }
}

#[test]
fn immovable_instances_block_and_foreign_changes_stay() {
    run_test("blocked", async |world| {
        let server = FakeApis::start(&[]).await;
        let mut nodes = Nodes::of(world);
        let names = add_computes(&mut nodes, &server, &["one", "two"]).await;
        let one = names[0].as_str();
        server.nova.add_server(one, "x", "ACTIVE");
        server.nova.add_server(one, "y", "SHUTOFF");
        server.nova.set_migration_outcome(MigrationOutcome::Failed);
        server.nova.set_service(one, "status", "disabled".into());
        server.nova.set_service(one, "disabled_reason", "broken fan".into());
        world.set_cordon(one, true).await;
        let _operator = world.start_for_maintenance(&server).await;
        world.apply_without_releases(json!({})).await;
        world.maintain("blocked", json!({"node": one})).await;
        let both = |status: &NodeMaintenanceStatus| {
            status.instances.as_ref().is_some_and(|instances| instances.failed.len() == 2) && is_true(status, "Blocked")
        };
        let status =
            world.until_maintained("blocked", "the maintenance is Blocked and names both instances", both).await;
        let failed = status.instances.unwrap().failed;
        let remedy = format!("kubectl annotate nm {} osdpl.dev/retry=now", world.maintenance_name("blocked"));
        assert!(
            failed[0].reason.starts_with("its live migration 1 ended with status error; see the log of nova-compute")
        );
        assert!(failed[0].name == "x-name" && failed[0].reason.ends_with(&remedy), "{failed:?}");
        assert!(
            failed[1].id == "y"
                && failed[1].reason.starts_with("its status is SHUTOFF, in which it can't be live-migrated; start it")
        );
        assert!(status.message.starts_with("instance x-name (x): its live migration 1"), "{}", status.message);
        assert_eq!(
            server.nova.changes(),
            ["migrate x"],
            "the operator must request only the migration of x, because y is SHUTOFF"
        );

        server.nova.set_migration_outcome(MigrationOutcome::Immediate);
        server.nova.remove_server("y");
        let retry = Patch::Merge(json!({"metadata": {"annotations": {RETRY: "now"}}}));
        world.maintenances().patch(&world.maintenance_name("blocked"), &PatchParams::default(), &retry).await.unwrap();
        let status = world.until_ready_to_drain("blocked").await;
        assert_eq!(
            step(&status, MaintenanceStep::DisableCompute),
            (StepState::Skipped, "someone else has disabled the compute service: broken fan")
        );
        assert_eq!(step(&status, MaintenanceStep::Cordon), (StepState::Skipped, "someone else has cordoned the node"));
        let maintenance = world.maintenances().get(&world.maintenance_name("blocked")).await.unwrap();
        assert!(!maintenance.annotations().contains_key(RETRY), "the retry must remove the annotation");
        world.delete_maintenance("blocked").await;
        world.until_maintenance_deleted("blocked").await;
        assert_eq!(world.cordon_of(one).await, (true, None));
        assert_eq!(server.nova.service(one), (false, "broken fan".into()));
        assert_eq!(server.nova.changes(), ["migrate x", "migrate x"]);

        check_cancellation(world, &server, &names[1]).await;
        check_incoming_instances(world, &server, one).await;
        check_unavailable_or_old_nova(world, &server, &names[1]).await;
        nodes.remove_all().await;
    });
}

/// Checks that a maintenance can be cancelled: as soon as it is deleted, the operator enables nova-compute again,
/// without waiting for running migrations.
async fn check_cancellation(world: &World, server: &FakeApis, node: &str) {
    server.nova.set_migration_outcome(MigrationOutcome::Delayed);
    world.maintain("abort", json!({"node": node})).await;
    server.nova.until_changed("migrate x", 3).await;
    assert!(!server.nova.service(node).0);
    world.delete_maintenance("abort").await;
    server.nova.until_changed(&format!("put os-services/compute-{node} enabled"), 1).await;
    world.until_maintenance_deleted("abort").await;
    assert_eq!(world.cordon_of(node).await, (false, None));
    server.nova.release("x");
}

/// Checks that a maintenance waits while an instance is being migrated to the node. When the instance has arrived, the
/// operator migrates it to another node.
async fn check_incoming_instances(world: &World, server: &FakeApis, node: &str) {
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

async fn check_unavailable_or_old_nova(world: &World, server: &FakeApis, node: &str) {
    // Create a pod of nova-compute on the node. In a cloud without a DaemonSet nova-compute, the operator recognizes a
    // compute node only by such a pod.
    let compute = json!({"metadata": {"name": "nova-compute", "labels": {"application": "nova", "component": "compute"}},
        "spec": {"nodeName": node, "containers": [{"name": "nova-compute", "image": "nova"}]}});
    world.api::<Pod>().create(&PostParams::default(), &serde_json::from_value(compute).unwrap()).await.unwrap();
    let before = server.nova.changes().len();
    let paused_spec = world.paused_spec().await;
    let mut spec = paused_spec.clone();
    spec["services"]["keystone"]["credentials"]["admin"] = json!({"name": "nowhere", "key": "password"});
    let generation = world.apply(&spec).await.metadata.generation;
    world
        .until("the operator has observed the spec", |cloud| {
            (cloud.status().observed_generation == generation).then_some(())
        })
        .await;
    world.maintain("away", json!({"node": node})).await;
    world
        .until_message("away", "osdpl cannot query Nova: the password of the cloud's administrator is not known yet")
        .await;
    server.set_behaviour("nova-api", Behaviour::Unavailable);
    world.apply(&paused_spec).await;
    let status = world.until_message("away", "503 Service Unavailable").await;
    let prefix = format!("cannot check for instances on {node}: GET http://nova-api.");
    assert!(status.message.starts_with(&prefix), "{}", status.message);
    server.set_behaviour("nova-api", Behaviour::Normal);
    server.nova.set_api_version(52);
    server.nova.expire();
    world.until_message("away", "Nova supports API version 2.52 at most, but osdpl needs 2.53").await;
    assert_eq!((world.cordon_of(node).await, server.nova.changes().len()), ((false, None), before));
    let leave_instances = Patch::Merge(json!({"spec": {"instances": "Leave"}}));
    world
        .maintenances()
        .patch(&world.maintenance_name("away"), &PatchParams::default(), &leave_instances)
        .await
        .unwrap();
    world.until_ready_to_drain("away").await;
    assert_eq!(world.cordon_of(node).await, (true, Some(world.maintenance_name("away"))));
    world.delete_maintenance("away").await;
    world.until_maintenance_deleted("away").await;
    assert_eq!((world.cordon_of(node).await, server.nova.changes().len()), ((false, None), before));
}

#[test]
fn quorum_and_budgets_block_until_the_window_ends() {
    run_test("quorum", async |world| {
        let server = FakeApis::start(&[]).await;
        let mut nodes = Nodes::of(world);
        let mut joined = Vec::new();
        for name in ["one", "two", "three"] {
            joined.push(nodes.add(name, json!({"test": world.namespace, "host": name})).await);
        }
        let node = joined[0].as_str();
        Box::pin(world.create_database()).await;
        let _operator = world.start_for_maintenance(&server).await;
        world.apply_without_releases(json!({"maintenance": {"limits": {"control-plane": 2}}})).await;
        let member = world.member_on_another_node(node).await;
        world.set_ready(&member, false).await;
        world.maintain("first", json!({"node": node})).await;
        let set = format!("{}/mariadb-server", world.namespace);
        let quorum = format!(
            "StatefulSet {set} would keep 1 of 3 pods ready without this node but needs 2 for its quorum; make its other pods ready"
        );
        let status = world.until_message("first", &quorum).await;
        assert_eq!(step(&status, MaintenanceStep::Turn).0, StepState::Waiting);
        world.allow_evictions(0).await;
        world.set_ready(&member, true).await;
        let budget =
            format!("PodDisruptionBudget {set} allows no eviction: 3 of its pods are healthy, and at least 3 must");
        world.until_message("first", &budget).await;
        assert_eq!(world.cordon_of(node).await, (false, None));
        // Make the pod on the first node unready. The PodDisruptionBudget allows the eviction of this pod, because the
        // eviction does not reduce the number of ready pods.
        let own = world.member_on(node).await;
        world.set_ready(&own, false).await;
        world.allow_evictions(1).await;
        let status = world.until_ready_to_drain("first").await;
        assert_eq!(step(&status, MaintenanceStep::Instances), (StepState::Skipped, "the node is not a compute node"));
        assert_eq!(world.cordon_of(node).await, (true, Some(world.maintenance_name("first"))));

        // The second maintenance waits: while the first node is in maintenance, the operator counts the database pod on
        // the first node as unavailable.
        let soon = (crate::world::now() + k8s_openapi::jiff::SignedDuration::from_secs(8)).to_string();
        world.maintain("second", json!({"node": joined[1], "window": {"end": soon}})).await;
        world.until_message("second", "would keep 1 of 3 pods ready").await;
        let expired = world.until_message("second", "spec.window ended before").await;
        assert_eq!(expired.phase, Some(osdpl_core::api::MaintenancePhase::Expired));
        world.delete_maintenance("second").await;
        world.delete_maintenance("first").await;
        world.until_maintenance_deleted("second").await;
        world.until_maintenance_deleted("first").await;
        assert_eq!(world.cordon_of(node).await, (false, None));
        nodes.remove_all().await;
    });
}
