//! Nodes enter and leave maintenance, with fake APIs of Nova and Neutron.

mod obstacles;
mod retries;
mod stops;

use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};
use osdpl_core::api::{MaintenanceStep, NODE_MAINTENANCE, NodeMaintenance, NodeMaintenanceStatus, StepState};
use serde_json::{Value, json};

use crate::fake_apis::FakeApis;
use crate::nodes::Nodes;
use crate::nova::MigrationOutcome;
use crate::operator::Operator;
use crate::world::{TIMEOUT, World, run_test, with_timeout};

impl World {
    /// Starts an operator whose requests to OpenStack go to the fake APIs. During a maintenance, it polls them every
    /// second.
    async fn start_for_maintenance(&self, server: &FakeApis) -> Operator {
        let address = server.address.to_string();
        let arguments = ["--probe-address", &address, "--probe-timeout", "2", "--maintenance-poll", "1"];
        self.operator().arguments(&arguments).start().await
    }

    /// Creates a paused cloud, so the operator installs no releases. The fake APIs respond in place of the cloud's
    /// services.
    async fn apply_without_releases(&self, nodes: Value) {
        let mut spec = self.paused_spec().await;
        spec["nodes"] = nodes;
        self.apply(&spec).await;
    }

    /// Returns the spec of a paused cloud, and creates the Secret to which the spec refers. osdpl generates no
    /// credentials for a paused cloud. So the spec takes each credential in Keystone's values from this Secret.
    async fn paused_spec(&self) -> Value {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "provided"},
            "stringData": {"password": "of-the-user"}});
        let secret: Secret = serde_json::from_value(secret).unwrap();
        let parameters = PatchParams::apply("test");
        self.api::<Secret>().patch("provided", &parameters, &Patch::Apply(secret)).await.unwrap();
        let key = json!({"name": "provided", "key": "password"});
        json!({"openstackRelease": "2026.1", "presets": ["compute"], "paused": true, "services": {
            "keystone": {"credentials": {"admin": key, "database": key, "messaging": key, "test": key}},
            "mariadb": {"credentials": {"root": key}},
            "rabbitmq": {"credentials": {"admin": key}},
            "memcached": {"credentials": {"secret_key": key}}}})
    }

    pub fn maintenances(&self) -> Api<NodeMaintenance> {
        Api::all(self.client.clone())
    }

    /// Returns the name of a NodeMaintenance, which contains the test's namespace. NodeMaintenances are cluster-scoped,
    /// and the next test may use the same control plane.
    fn maintenance_name(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    async fn maintain(&self, name: &str, spec: Value) {
        let object = json!({"metadata": {"name": self.maintenance_name(name)}, "spec": spec});
        self.maintenances().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    /// Deletes a NodeMaintenance and does not wait until it is gone, like `kubectl delete --wait=false`.
    async fn delete_maintenance(&self, name: &str) {
        self.maintenances().delete(&self.maintenance_name(name), &DeleteParams::default()).await.unwrap();
    }

    async fn until_maintenance_deleted(&self, name: &str) {
        let (api, own) = (self.maintenances(), self.maintenance_name(name));
        let gone = await_condition(api, &own, |found: Option<&NodeMaintenance>| found.is_none());
        with_timeout(&format!("maintenance {name} is deleted"), gone).await.unwrap();
    }

    /// Waits until the status of a NodeMaintenance satisfies the predicate, and returns the status.
    async fn until_maintained(
        &self,
        name: &str,
        what: &str,
        is: impl Fn(&NodeMaintenanceStatus) -> bool,
    ) -> NodeMaintenanceStatus {
        let is_expected = |found: Option<&NodeMaintenance>| found.and_then(|one| one.status.as_ref()).is_some_and(&is);
        let own = self.maintenance_name(name);
        let wait = await_condition(self.maintenances(), &own, is_expected);
        let Ok(found) = tokio::time::timeout(TIMEOUT, wait).await else {
            let last = self.maintenances().get(&self.maintenance_name(name)).await.unwrap().status;
            panic!("timed out waiting until {what}; last status: {last:?}");
        };
        found.unwrap().unwrap().status.unwrap()
    }

    async fn until_message(&self, name: &str, text: &str) -> NodeMaintenanceStatus {
        self.until_maintained(name, &format!("{name} has the message {text:?}"), |status| status.message.contains(text))
            .await
    }

    async fn until_ready_to_drain(&self, name: &str) -> NodeMaintenanceStatus {
        self.until_maintained(name, &format!("{name} is ready to drain"), |status| is_true(status, "ReadyToDrain"))
            .await
    }

    /// Returns whether a node is cordoned, and the name of the NodeMaintenance for which the operator has cordoned the
    /// node.
    async fn cordon_of(&self, node: &str) -> (bool, Option<String>) {
        let node = Api::<Node>::all(self.client.clone()).get(node).await.unwrap();
        let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
        (cordoned, node.annotations().get(NODE_MAINTENANCE).cloned())
    }

    /// Cordons or uncordons a node as an administrator does with `kubectl cordon` or `kubectl uncordon`.
    async fn set_cordon(&self, node: &str, cordoned: bool) {
        let patch = Patch::Merge(json!({"spec": {"unschedulable": cordoned}}));
        Api::<Node>::all(self.client.clone()).patch(node, &PatchParams::default(), &patch).await.unwrap();
    }
}

fn is_true(status: &NodeMaintenanceStatus, condition: &str) -> bool {
    status.conditions.iter().any(|known| known.type_ == condition && known.status == "True")
}

/// Returns the state and the message of one step of a maintenance.
fn step(status: &NodeMaintenanceStatus, name: MaintenanceStep) -> (StepState, &str) {
    let step = status.steps.iter().find(|step| step.name == name).unwrap();
    (step.state, &step.message)
}

const COMPUTE: [&str; 2] = ["openstack-compute-node", "openvswitch"];

async fn add_computes(nodes: &mut Nodes<'_>, server: &FakeApis, names: &[&str]) -> Vec<String> {
    let mut joined = Vec::new();
    for name in names {
        let name = nodes.add(name, COMPUTE.into_iter().map(|label| (label, "enabled")).collect()).await;
        server.nova.add_compute(&name);
        joined.push(name);
    }
    joined
}

/// Checks that the operator does not query Nova for a maintenance before the maintenance window begins.
async fn check_future_window(world: &World, server: &FakeApis, node: &str) {
    let reads = server.nova.reads();
    world.maintain("third", json!({"node": node, "window": {"start": "2999-01-01T00:00:00Z"}})).await;
    world.until_message("third", "waits until spec.window begins at 2999-01-01T00:00:00Z").await;
    assert_eq!(
        server.nova.reads(),
        reads,
        "the operator must not query Nova for a maintenance whose window has not begun"
    );
    world.delete_maintenance("third").await;
    world.until_maintenance_deleted("third").await;
}

/// Checks that the maintenance `second` waits for the maintenance `first`, which is for the node `one`.
async fn check_waits(world: &World, one: &str) {
    let waits = format!(
        "waits for NodeMaintenance {} ({one}): 1 node of role compute may be in maintenance at once",
        world.maintenance_name("first")
    );
    let status = world.until_message("second", &waits).await;
    assert!(!is_true(&status, "Blocked") && step(&status, MaintenanceStep::DisableCompute).0 == StepState::Pending);
}

#[test]
fn maintains_one_node_at_a_time_across_restarts() {
    run_test("maintenance", async |world| {
        let server = FakeApis::start(&[]).await;
        let mut nodes = Nodes::of(world);
        let names = add_computes(&mut nodes, &server, &["one", "two"]).await;
        let [one, two] = [names[0].as_str(), names[1].as_str()];
        for (id, status) in [("a", "ACTIVE"), ("b", "ACTIVE"), ("c", "PAUSED")] {
            server.nova.add_server(one, id, status);
        }
        server.nova.set_migration_outcome(MigrationOutcome::Delayed);
        let operator = world.start_for_maintenance(&server).await;
        world.apply_without_releases(json!({})).await;
        world.maintain("first", json!({"node": one, "reason": "a new fan"})).await;
        let status = world.until_message("first", "2 instances are being migrated, 1 more after that").await;
        server.nova.until_changed("migrate b", 1).await;
        let disable = format!("put os-services/compute-{one} disabled");
        assert_eq!(server.nova.changes(), [disable.as_str(), "migrate a", "migrate b"]);
        let reason = format!("osdpl: maintenance {}: a new fan", world.maintenance_name("first"));
        assert_eq!(server.nova.service(one), (false, reason));
        assert_eq!(status.instances.unwrap().moved, "0/3");
        assert_eq!(
            world.cordon_of(one).await,
            (false, None),
            "the operator must not cordon the node before its instances are migrated"
        );

        world.maintain("second", json!({"node": two})).await;
        check_waits(world, one).await;

        operator.kill();
        let operator = world.start_for_maintenance(&server).await;
        server.nova.release("a");
        server.nova.until_changed("migrate c", 1).await;
        assert_eq!(
            server.nova.changes(),
            [disable.as_str(), "migrate a", "migrate b", "migrate c"],
            "the restarted operator must not request a migration a second time"
        );
        server.nova.release("b");
        server.nova.release("c");
        let status = world.until_ready_to_drain("first").await;
        assert_eq!(status.instances.clone().unwrap().moved, "3/3");
        assert!(
            status.message.starts_with(&format!("{one} can be drained (kubectl drain {one} ")),
            "{}",
            status.message
        );
        assert!(status.steps.iter().all(|step| step.state == StepState::Done), "{:?}", status.steps);
        assert_eq!(world.cordon_of(one).await, (true, Some(world.maintenance_name("first"))));

        check_future_window(world, &server, two).await;

        check_agents_before_return(world, &server, one).await;
        server.nova.set_migration_outcome(MigrationOutcome::Immediate);
        world.until_ready_to_drain("second").await;
        assert_eq!((server.nova.host_of("a"), server.nova.host_of("c")), (one.to_owned(), one.to_owned()));
        assert_eq!(operator.metric("osdpl_maintenance_failures_total", ""), 0);
        world.delete_maintenance("second").await;
        world.until_maintenance_deleted("second").await;
        nodes.remove_all().await;
    });
}

/// Checks that after the maintenance, the operator does not enable nova-compute before Nova reports it as up again and
/// Neutron reports the node's agents as alive.
async fn check_agents_before_return(world: &World, server: &FakeApis, node: &str) {
    server.nova.set_service(node, "state", "down".into());
    server.nova.set_agent(node, false);
    world.delete_maintenance("first").await;
    let status = world.until_message("first", &format!("waits until nova reports nova-compute on {node} as up")).await;
    assert_eq!(step(&status, MaintenanceStep::Uncordon).0, StepState::Done);
    assert_eq!(world.cordon_of(node).await, (false, None));
    // When a nova-compute stops, Nova still reports its state as `up` for a minute. So the operator must ignore the
    // state `up` while nova-compute's last report (`updated_at`) is older than the start of the step Agents.
    server.nova.set_service(node, "updated_at", "2020-01-01T00:00:00.000000".into());
    server.nova.set_service(node, "state", "up".into());
    world.until_message("first", &format!("waits until nova reports nova-compute on {node} as up again")).await;
    server.nova.set_service(node, "updated_at", "2999-01-01T00:00:00.000000".into());
    world.until_message("first", &format!("waits until neutron reports Open vSwitch agent on {node} as alive")).await;
    assert!(
        !server.nova.service(node).0,
        "the operator must not enable nova-compute before the host's Neutron agents are alive"
    );
    server.nova.set_agent(node, true);
    server.nova.until_changed(&format!("put os-services/compute-{node} enabled"), 1).await;
    world.until_maintenance_deleted("first").await;
    assert_eq!(server.nova.service(node), (true, String::new()));
}
