//! Overrides: the spec sets values only for some nodes. Upstream's charts create a separate DaemonSet for these nodes.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use osdpl_core::api::{RolloutPhase, reason};
use serde_json::{Value, json};

use crate::cloud::{BACKENDS, StatusAccess, services};
use crate::nodes::Nodes;
use crate::world::{World, run_test};

/// The beginning of nova's message in the status and in the plan, until a person approves the changed overrides.
const RESTARTS: &str = "its values divide the nodes differently among its DaemonSets, which can restart the pods of nova/compute on 3 nodes";

/// Returns the name and the number of nodes of each DaemonSet of a component. Leaves out the digest that some charts
/// append to the name.
async fn sets(world: &World, component: &str) -> Vec<(String, i32)> {
    let labelled = ListParams::default().labels(&format!("component={component}"));
    let found = world.api::<DaemonSet>().list(&labelled).await.unwrap();
    let names = found.iter().map(|set| {
        let name = set.name_any();
        let base = name.rsplit_once('-').filter(|(_, end)| end.len() >= 8).map_or(name.as_str(), |(base, _)| base);
        (base.to_owned(), set.status.as_ref().map_or(0, |status| status.desired_number_scheduled))
    });
    names.collect()
}

fn daemon_set(name: &str, nodes: i32) -> (String, i32) {
    (name.to_owned(), nodes)
}

/// Returns a spec with the preset `core` and external backends, but without the dashboard.
async fn core(world: &World) -> Value {
    let spec = json!({"openstackRelease": "2026.1", "presets": ["core"], "services": {"horizon": {"enabled": false}}});
    world.with_external(spec, &BACKENDS).await
}

/// Returns a spec with a role for node-1. If `overrides` is true, the values of nova, neutron and libvirt for this node
/// differ from their values for the other nodes. `cpus` is the list of dedicated CPUs in nova's values for node-1.
async fn cloud_spec(world: &World, cpus: &str, overrides: bool) -> Value {
    let gpu = json!({"matchLabels": {"gpu": "big"}});
    let values = json!({
        "nova": {"values": {"conf": {"nova": {"compute": {"cpu_dedicated_set": cpus}}}}},
        "neutron": {"daemonsets": ["ovs-agent"], "values": {"conf": {"plugins": {"openvswitch_agent": {"ovs": {"bridge_mappings": "fast:br-fast"}}}}}},
        "libvirt": {"values": {"conf": {"qemu": {"max_files": 4096}}, "pod": {"mounts": {"libvirt": {"libvirt": {"volumes": [{"name": "huge", "emptyDir": {}}]}}}}}},
    });
    let entry = json!({"name": "gpu", "selector": gpu, "releases": values});
    let overrides = if overrides { vec![entry] } else { Vec::new() };
    let roles = json!({"gpu": {"names": ["node-1"], "labels": {"gpu": "big"}}});
    let mut spec = core(world).await;
    spec["nodes"] = json!({"roles": roles, "overrides": overrides});
    spec
}

/// Checks that each component with overrides has a separate DaemonSet for node-1, and that l3-agent has one DaemonSet
/// for all nodes.
async fn check_split(world: &World) {
    assert_eq!(
        sets(world, "compute").await,
        [daemon_set("nova-compute-default", 2), daemon_set("nova-compute-gpu", 1)]
    );
    assert_eq!(
        sets(world, "neutron-ovs-agent").await,
        [daemon_set("neutron-ovs-agent-default", 2), daemon_set("neutron-ovs-agent-gpu", 1)]
    );
    assert_eq!(
        sets(world, "libvirt").await,
        [daemon_set("libvirt-libvirt", 1), daemon_set("libvirt-libvirt-default", 2)]
    );
    assert_eq!(
        sets(world, "l3-agent").await,
        [daemon_set("neutron-l3-agent-default", 3)],
        "a component without overrides must keep one DaemonSet for all nodes"
    );
}

/// Checks that nova.conf of node-1 contains the dedicated CPUs of the override.
async fn check_config(world: &World) {
    let secrets = world.api::<Secret>().list(&ListParams::default()).await.unwrap();
    let own = secrets.iter().find(|secret| secret.name_any().starts_with("nova-compute-gpu-")).unwrap();
    let conf = String::from_utf8(own.data.as_ref().unwrap()["nova.conf"].0.clone()).unwrap();
    assert!(conf.contains("[compute]\ncpu_dedicated_set = 2-3\n"), "{conf}");
}

#[test]
fn node_overrides_split_daemon_sets_after_approval() {
    run_test("overrides", async |world| {
        let nodes = Nodes::of(world);
        let _operator = world.operator().start().await;
        world.apply(&cloud_spec(world, "", false).await).await;
        world.until_ready().await;
        assert_eq!(sets(world, "compute").await, [daemon_set("nova-compute-default", 3)]);

        world.apply(&cloud_spec(world, "4-7", true).await).await;
        let cloud = world
            .until("libvirt, neutron and nova wait for approval", |cloud| {
                let waits = |release: &str| cloud.child(release).message.contains("waits for approval");
                (cloud.reason() == reason::APPROVAL && ["libvirt", "neutron", "nova"].into_iter().all(waits))
                    .then(|| cloud.clone())
            })
            .await;
        assert!(cloud.child("nova").message.starts_with(RESTARTS), "{}", cloud.child("nova").message);
        assert_eq!(cloud.child("nova").changes, ["conf.overrides.nova_compute.labels"]);
        let plan = world.osdpl(&["plan"]);
        for text in [
            RESTARTS,
            "which can restart the pods of neutron/neutron-ovs-agent on 3 nodes",
            "which can restart the pods of libvirt/libvirt on 3 nodes",
        ] {
            assert!(plan.contains(text), "{text}\n{plan}");
        }
        let unchanged = [daemon_set("nova-compute-default", 3)];
        assert_eq!(
            sets(world, "compute").await,
            unchanged,
            "the operator must not create a second DaemonSet before the approval"
        );
        world.osdpl(&["approve"]);
        world.until_ready().await;
        check_split(world).await;

        let runs = world.helm_runs().len();
        world.apply(&cloud_spec(world, "2-3", true).await).await;
        let cloud = world.until_ready().await;
        assert_eq!(
            world.helm_runs().len(),
            runs + 1,
            "new values for a node that already has overrides must need no approval, and must upgrade only nova"
        );
        let rollout = world
            .until("the rollout of nova/compute waits for approval", |cloud| {
                let rollout = cloud.status().rollouts.get("nova/compute")?.clone();
                (rollout.phase == RolloutPhase::AwaitingApproval).then_some(rollout)
            })
            .await;
        assert_eq!((rollout.updated, rollout.total), (2, 3), "only the pod on node-1 must be outdated");
        assert_eq!(cloud.child("nova").revision, Some(3));
        check_config(world).await;

        world.apply(&core(world).await).await;
        let cloud = world.until_reason(reason::APPROVAL).await;
        assert!(cloud.child("nova").message.starts_with(RESTARTS), "{}", cloud.child("nova").message);
        // Besides the restarts, the approval must allow the removal of the label that the previous spec's role `gpu`
        // put on node-1.
        world.osdpl(&["approve"]);
        let labels =
            ["openstack-control-plane", "openstack-compute-node", "openvswitch", "openstack-network-node", "l3-agent"];
        nodes.until_labels("node-1", &labels.map(|label| (label, "enabled"))).await;
    });
}

#[test]
fn refuses_overrides_that_no_chart_supports() {
    run_test("overrides-unsupported", async |world| {
        let mut spec = services(&["memcached"]);
        spec["nodes"] = json!({"overrides": [
            {"name": "a", "nodes": ["node-1"], "releases": {"memcached": {"values": {"conf": {"memcached": {"memory": 9}}}}}}]});
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        let cloud = world.until_reason(reason::INVALID).await;
        let expected = "spec.nodes.overrides[0].releases.memcached: can't differ by node: chart memcached makes the same pods for all nodes; set the values for all nodes in spec.services, or remove the values";
        assert_eq!(cloud.condition("Ready").unwrap().message, expected);
        // Because of rules in the CRD, the API server refuses the following specs. So the operator never reads them.
        for (nodes, text) in [
            (json!({"roles": {"compute": {}}}), "has no nodes for the role"),
            (json!({"roles": {"Compute": {"names": ["a"]}}}), "must map names of roles to their nodes"),
            (json!({"overrides": [{"name": "a", "releases": {}}]}), "either by `selector` or by `nodes`"),
            (
                json!({"overrides": [{"name": "a", "nodes": ["x"]}, {"name": "a", "nodes": ["y"]}]}),
                "has two entries with the same name",
            ),
        ] {
            let mut spec = services(&["memcached"]);
            spec["nodes"] = nodes;
            let object = json!({"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
                "metadata": {"name": crate::cloud::NAME, "namespace": world.namespace}, "spec": spec});
            let params = PatchParams::apply("test").force();
            let error =
                world.deployments().patch(crate::cloud::NAME, &params, &Patch::Apply(object)).await.unwrap_err();
            assert!(error.to_string().contains(text), "{text}: {error}");
        }
        world.apply(&services(&["memcached"])).await;
        world.until_ready().await;
    });
}
