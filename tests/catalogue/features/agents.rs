//! Checks in which clouds Neutron's chart deploys RPC servers for Neutron's agents, which processes run beside Neutron's
//! API, and which firewall trunk ports use.

use serde_json::json;

use super::{reports, sets};
use crate::clouds::{at, base_spec, catalogue, resolved};

/// With OVN, Neutron's chart must deploy RPC servers only if the cloud has other agents of Neutron, such as the agents
/// for VPN or BGP. OVN's own components use OVN's databases instead of RPC.
#[test]
fn agents_with_ovn_use_rpc_servers() {
    let sriov = json!({"devices": [{"interface": "ens1", "physicalNetwork": "external"}]});
    for (network, is_there) in [
        (json!({}), false),
        (json!({"extensions": ["qos", "trunk"]}), false),
        (json!({"extensions": ["vpnaas"]}), true),
        (json!({"extensions": ["dynamicRouting"], "bgpRouterId": "192.0.2.1"}), true),
        (json!({"sriov": sriov}), true),
    ] {
        let mut features = json!({"network": network});
        features["network"]["backend"] = "ovn".into();
        let desired = resolved(catalogue(), &base_spec(&json!({"presets": ["core", "ha"], "features": features})));
        let values = &desired.releases["neutron"].values;
        assert_eq!(at(values, "manifests.deployment_rpc_server"), Some(&json!(is_there)), "{features}");
        let budget = at(values, "extraObjects.disruption_budget_rpc_server");
        assert_eq!(budget.is_some(), is_there, "{features}");
    }
}

/// Neutron's API under uWSGI runs no periodic tasks, so other processes must, with either backend. The chart has the
/// template from which `extraObjects` renders their pods.
#[test]
fn periodic_tasks_run_beside_the_api() {
    for backend in ["ovs", "ovn"] {
        let features = json!({"network": {"backend": backend}});
        let desired = resolved(catalogue(), &base_spec(&json!({"presets": ["core"], "features": features})));
        let workers = at(&desired.releases["neutron"].values, "extraObjects.workers").and_then(|text| text.as_str());
        for part in ["/deployment-rpc_server.yaml", "\"periodic-workers\"", "\"ovn-maintenance-worker\""] {
            assert!(workers.unwrap().contains(part), "{backend}: {part}");
        }
    }
}

#[test]
fn trunk_ports_use_the_configured_firewall() {
    let network = |network| json!({"network": network});
    let driver = "conf.plugins.openvswitch_agent.securitygroup.firewall_driver";
    let hybrid = json!("neutron.agent.linux.iptables_firewall.OVSHybridIptablesFirewallDriver");
    sets(&[
        (
            network(json!({"extensions": ["trunk"], "firewall": "openvswitch"})),
            &[("neutron", driver, json!("openvswitch"))],
        ),
        (network(json!({"firewall": "iptables"})), &[("neutron", driver, hybrid)]),
    ]);
    let field = "spec.features.network.firewall";
    reports(&[
        (json!({"features": network(json!({"extensions": ["trunk"]}))}), field, &["subports", "set firewall"]),
        (
            json!({"features": network(json!({"backend": "ovn", "firewall": "iptables"}))}),
            field,
            &["no effect", "remove it"],
        ),
    ]);
}
