//! Nodes are taken out of the cloud and given back.

mod failing;
mod troubles;

use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};
use osdpl_core::api::{MaintenanceStep, NODE_MAINTENANCE, NodeMaintenance, NodeMaintenanceStatus, StepState};
use serde_json::{Value, json};

use crate::nodes::Nodes;
use crate::nova::Moves;
use crate::operator::Operator;
use crate::standin::StandIn;
use crate::world::{World, patience, story};

impl World {
    /// An operator that speaks to this stand-in, and looks often.
    async fn maintains(&self, server: &StandIn) -> Operator {
        let address = server.address.to_string();
        let often = ["--probe-address", &address, "--probe-timeout", "2", "--maintenance-poll", "1"];
        self.operator().arguments(&often).start().await
    }

    /// A cloud of which nothing is installed: the stand-in answers for all of it.
    async fn plans_a_cloud(&self, nodes: Value) {
        self.apply(&json!({"openstackRelease": "2026.1", "presets": ["compute"], "paused": true, "nodes": nodes}))
            .await;
    }

    pub fn maintenances(&self) -> Api<NodeMaintenance> {
        Api::all(self.client.clone())
    }

    /// The resource's name: it is cluster-wide, and planes are handed on.
    fn own(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    async fn maintain(&self, name: &str, spec: Value) {
        let object = json!({"metadata": {"name": self.own(name)}, "spec": spec});
        self.maintenances().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    /// `kubectl delete --wait=false`.
    async fn gives_back(&self, name: &str) {
        self.maintenances().delete(&self.own(name), &DeleteParams::default()).await.unwrap();
    }

    async fn until_given_back(&self, name: &str) {
        let (api, own) = (self.maintenances(), self.own(name));
        let gone = await_condition(api, &own, |found: Option<&NodeMaintenance>| found.is_none());
        patience(&format!("maintenance {name} is gone"), gone).await.unwrap();
    }

    /// Waits until its status is so.
    async fn until_maintained(
        &self,
        name: &str,
        what: &str,
        is: impl Fn(&NodeMaintenanceStatus) -> bool,
    ) -> NodeMaintenanceStatus {
        let seen = |found: Option<&NodeMaintenance>| found.and_then(|one| one.status.as_ref()).is_some_and(&is);
        let found = patience(what, await_condition(self.maintenances(), &self.own(name), seen)).await.unwrap();
        found.unwrap().status.unwrap()
    }

    async fn until_says(&self, name: &str, words: &str) -> NodeMaintenanceStatus {
        self.until_maintained(name, &format!("{name} says {words:?}"), |status| status.message.contains(words)).await
    }

    async fn until_ready_to_drain(&self, name: &str) -> NodeMaintenanceStatus {
        self.until_maintained(name, &format!("{name} is ready to drain"), |status| holds(status, "ReadyToDrain")).await
    }

    /// Whether a node is cordoned, and by which maintenance.
    async fn cordon_of(&self, node: &str) -> (bool, Option<String>) {
        let node = Api::<Node>::all(self.client.clone()).get(node).await.unwrap();
        let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
        (cordoned, node.annotations().get(NODE_MAINTENANCE).cloned())
    }

    /// `kubectl cordon` and `kubectl uncordon` by hand.
    async fn set_cordon(&self, node: &str, cordoned: bool) {
        let patch = Patch::Merge(json!({"spec": {"unschedulable": cordoned}}));
        Api::<Node>::all(self.client.clone()).patch(node, &PatchParams::default(), &patch).await.unwrap();
    }
}

fn holds(status: &NodeMaintenanceStatus, condition: &str) -> bool {
    status.conditions.iter().any(|known| known.type_ == condition && known.status == "True")
}

/// The state of a step, and what is said of it.
fn step(status: &NodeMaintenanceStatus, name: MaintenanceStep) -> (StepState, &str) {
    let step = status.steps.iter().find(|step| step.name == name).unwrap();
    (step.state, &step.message)
}

const COMPUTE: [&str; 2] = ["openstack-compute-node", "openvswitch"];

async fn computes(nodes: &mut Nodes<'_>, server: &StandIn, names: &[&str]) -> Vec<String> {
    let mut joined = Vec::new();
    for name in names {
        let name = nodes.join(name, COMPUTE.into_iter().map(|label| (label, "enabled")).collect()).await;
        server.nova.compute(&name);
        joined.push(name);
    }
    joined
}

#[test]
fn a_compute_is_emptied_cordoned_and_given_back_in_order_over_a_killed_operator_one_at_a_time() {
    story("maintenance", async |world| {
        let server = StandIn::start(&[]).await;
        let mut nodes = Nodes::of(world);
        let names = computes(&mut nodes, &server, &["one", "two"]).await;
        let [one, two] = [names[0].as_str(), names[1].as_str()];
        for (id, status) in [("a", "ACTIVE"), ("b", "ACTIVE"), ("c", "PAUSED")] {
            server.nova.server(one, id, status);
        }
        server.nova.moves(Moves::Slowly);
        let operator = world.maintains(&server).await;
        world.plans_a_cloud(json!({})).await;
        world.maintain("first", json!({"node": one, "reason": "a new fan"})).await;
        let status = world.until_says("first", "2 instances are being migrated, 1 more after that").await;
        server.nova.until_changed("migrate b", 1).await;
        let disable = format!("put os-services/compute-{one} disabled");
        assert_eq!(server.nova.changes(), [disable.as_str(), "migrate a", "migrate b"]);
        let mark = format!("osdpl: maintenance {}: a new fan", world.own("first"));
        assert_eq!(server.nova.service(one), (false, mark));
        assert_eq!(status.instances.unwrap().moved, "0/3");
        assert_eq!(world.cordon_of(one).await, (false, None), "not before it is empty");

        world.maintain("second", json!({"node": two})).await;
        let waits = format!(
            "waits for NodeMaintenance {} ({one}): 1 node of role compute may be in maintenance at once",
            world.own("first")
        );
        let status = world.until_says("second", &waits).await;
        assert!(!holds(&status, "Blocked") && step(&status, MaintenanceStep::DisableCompute).0 == StepState::Pending);

        operator.kill();
        let operator = world.maintains(&server).await;
        server.nova.release("a");
        server.nova.until_changed("migrate c", 1).await;
        assert_eq!(server.nova.changes(), [disable.as_str(), "migrate a", "migrate b", "migrate c"], "none twice");
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
        assert_eq!(world.cordon_of(one).await, (true, Some(world.own("first"))));

        let reads = server.nova.reads();
        world.maintain("third", json!({"node": two, "window": {"start": "2999-01-01T00:00:00Z"}})).await;
        world.until_says("third", "its window begins at 2999-01-01T00:00:00Z").await;
        assert_eq!(server.nova.reads(), reads, "nova is asked by those whose turn has come, until they are ready");
        world.gives_back("third").await;
        world.until_given_back("third").await;

        returned_only_once_its_agents_are_up(world, &server, one).await;
        server.nova.moves(Moves::AtOnce);
        world.until_ready_to_drain("second").await;
        assert_eq!((server.nova.host_of("a"), server.nova.host_of("c")), (one.to_owned(), one.to_owned()));
        assert!(!world.operator_log().contains("gaaaa-"), "a token is logged");
        assert_eq!(operator.metric("osdpl_maintenance_failures_total", ""), 0);
        world.gives_back("second").await;
        world.until_given_back("second").await;
        nodes.leave().await;
    });
}

async fn returned_only_once_its_agents_are_up(world: &World, server: &StandIn, node: &str) {
    server.nova.set_service(node, "state", "down".into());
    server.nova.set_agent(node, false);
    world.gives_back("first").await;
    let status = world.until_says("first", &format!("waits until nova reports nova-compute on {node} as up")).await;
    assert_eq!(step(&status, MaintenanceStep::Uncordon).0, StepState::Done);
    assert_eq!(world.cordon_of(node).await, (false, None));
    // Nova says `up` until a minute after it was heard of.
    server.nova.set_service(node, "updated_at", "2020-01-01T00:00:00.000000".into());
    server.nova.set_service(node, "state", "up".into());
    world.until_says("first", &format!("waits until nova reports nova-compute on {node} as up again")).await;
    server.nova.set_service(node, "updated_at", "2999-01-01T00:00:00.000000".into());
    world.until_says("first", &format!("waits until neutron reports Open vSwitch agent on {node} as alive")).await;
    assert!(!server.nova.service(node).0, "not before its agents are up");
    server.nova.set_agent(node, true);
    server.nova.until_changed(&format!("put os-services/compute-{node} enabled"), 1).await;
    world.until_given_back("first").await;
    assert_eq!(server.nova.service(node), (true, String::new()));
}
