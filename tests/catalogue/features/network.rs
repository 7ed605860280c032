//! Checks the values that the feature `network` sets, and its errors and warnings.

use serde_json::json;

use super::{reports, sets};
use crate::clouds::{at, base_spec, catalogue, refusals, resolved};

#[test]
fn neutron_job_creates_the_floating_network() {
    let script = |create: &str, pool: &str| {
        json!(format!(
            "name=public\nnetwork=$(openstack network list --external --name $name -f value -c ID)\nif [ -z \"$network\" ]; then\n\
             \x20 for attempt in $(seq 60); do\n\
             \x20   zones=$(openstack availability zone list --network -f value -c \"Zone Name\")\n\
             \x20   [ -z \"$zones\" ] || break\n\x20   sleep 5\n  done\n\
             \x20 network=$(openstack network create --external {create} -f value -c id $name)\nfi\n\
             subnet=$(openstack subnet list --network $network -f value -c ID)\nif [ -z \"$subnet\" ]; then\n\
             \x20 openstack subnet create --network $network --no-dhcp --ip-version 4 --subnet-range 203.0.113.0/24 {pool} $name-subnet\nfi\n"
        ))
    };
    let plain = script("--provider-network-type flat --provider-physical-network external", " ");
    let vlan = script(
        "--provider-network-type vlan --provider-segment 7 --provider-physical-network lab",
        "--gateway 203.0.113.254 --allocation-pool start=203.0.113.10,end=203.0.113.99",
    );
    let subnet =
        json!({"cidr": "203.0.113.0/24", "gateway": "203.0.113.254", "first": "203.0.113.10", "last": "203.0.113.99"});
    sets(&[
        (
            json!({"network": {"floatingNetwork": {"subnet": {"cidr": "203.0.113.0/24"}}}}),
            &[("neutron", "bootstrap.enabled", json!(true)), ("neutron", "bootstrap.script", plain)],
        ),
        (
            json!({"network": {"providerNetworks": [{"name": "lab", "bridge": "br-lab"}],
                   "floatingNetwork": {"physicalNetwork": "lab", "vlan": 7, "subnet": subnet}}}),
            &[("neutron", "bootstrap.script", vlan)],
        ),
    ]);
    let spec = |network: serde_json::Value| json!({"features": {"network": {"floatingNetwork": network}}});
    reports(&[
        (
            spec(json!({"subnet": {"cidr": "203.0.113.0/24", "first": "203.0.113.10"}})),
            "spec.features.network.floatingNetwork.subnet",
            &["only one end", "set both"],
        ),
        (
            spec(json!({"physicalNetwork": "lab", "subnet": {"cidr": "203.0.113.0/24"}})),
            "spec.features.network.floatingNetwork.physicalNetwork",
            &["does not know", "providerNetworks"],
        ),
        (
            json!({"features": {"network": {"providerNetworks": [{"name": "lab"}],
                   "floatingNetwork": {"physicalNetwork": "lab", "subnet": {"cidr": "203.0.113.0/24"}}}}}),
            "spec.features.network.floatingNetwork.physicalNetwork",
            &["has no bridge", "with a bridge"],
        ),
    ]);
}

#[test]
fn routing_and_tunnel_settings_reach_their_agents() {
    let plain = |backend: &str| json!({"network": {"backend": backend, "distributedRouting": true, "mtu": 9000, "tunnelNetwork": "10.1.0.0/16"}});
    let tunnels = json!({"network": {"tenantNetworks": {"types": ["geneve", "vlan"], "tunnelIds": "1:99"},
                         "providerNetworks": [{"name": "lab", "vlanRanges": ["100:199", "300:310"]}]}});
    sets(&[
        (
            plain("ovs"),
            &[
                ("neutron", "conf.neutron.DEFAULT.router_distributed", json!(true)),
                ("neutron", "conf.l3_agent.DEFAULT.agent_mode", json!("dvr_snat")),
                ("neutron", "conf.plugins.openvswitch_agent.agent.enable_distributed_routing", json!(true)),
                ("neutron", "labels.agent.l3.node_selector_key", json!("openvswitch")),
                ("neutron", "labels.agent.metadata.node_selector_key", json!("openvswitch")),
                ("neutron", "conf.neutron.DEFAULT.global_physnet_mtu", json!(9000)),
                ("neutron", "conf.plugins.ml2_conf.ml2.path_mtu", json!(9000)),
                ("neutron", "network.interface.tunnel_network_cidr", json!("10.1.0.0/16")),
            ],
        ),
        (
            plain("ovn"),
            &[
                ("neutron", "conf.plugins.ml2_conf.ovn.enable_distributed_floating_ip", json!(true)),
                ("ovn", "network.interface.tunnel_network_cidr", json!("10.1.0.0/16")),
            ],
        ),
        (
            tunnels,
            &[
                ("neutron", "conf.plugins.ml2_conf.ml2.tenant_network_types", json!("geneve,vlan")),
                ("neutron", "conf.plugins.ml2_conf.ml2.mechanism_drivers", json!("openvswitch,l2population")),
                ("neutron", "conf.plugins.openvswitch_agent.agent.tunnel_types", json!("geneve")),
                ("neutron", "conf.neutron.DEFAULT.l3_ha_network_type", json!("geneve")),
                ("neutron", "conf.plugins.ml2_conf.ml2_type_geneve.vni_ranges", json!("1:99")),
                (
                    "neutron",
                    "conf.plugins.ml2_conf.ml2_type_vlan.network_vlan_ranges",
                    json!("lab:100:199,lab:300:310"),
                ),
            ],
        ),
    ]);
}

#[test]
fn provider_networks_and_sriov_reach_their_agents() {
    let physical = |backend: &str| {
        json!({"network": {"backend": backend, "providerNetworks": [
            {"name": "lab", "bridge": "br-lab", "interface": "eth2", "mtu": 9000}, {"name": "dc", "bridge": "br-dc", "vlanRanges": ["10:20"]}]}})
    };
    let sriov = |backend: &str| {
        json!({"network": {"backend": backend, "providerNetworks": [{"name": "fast"}],
               "sriov": {"devices": [{"interface": "ens1", "physicalNetwork": "fast", "virtualFunctions": 8, "mtu": 9000}]}}})
    };
    let spec = json!(["{\"devname\": \"ens1\", \"physical_network\": \"fast\"}"]);
    let mappings = json!("external:br-ex,lab:br-lab,dc:br-dc");
    let bridges = json!({"br-ex": "", "br-lab": "eth2", "br-dc": ""});
    sets(&[
        (
            physical("ovs"),
            &[
                ("neutron", "conf.plugins.openvswitch_agent.ovs.bridge_mappings", mappings.clone()),
                ("neutron", "conf.auto_bridge_add", bridges.clone()),
                ("neutron", "conf.plugins.ml2_conf.ml2.physical_network_mtus", json!("lab:9000")),
                ("neutron", "conf.plugins.ml2_conf.ml2_type_vlan.network_vlan_ranges", json!("lab,dc:10:20")),
            ],
        ),
        (physical("ovn"), &[("ovn", "conf.ovn_bridge_mappings", mappings), ("ovn", "conf.auto_bridge_add", bridges)]),
        (
            sriov("ovs"),
            &[
                ("neutron", "network.backend", json!(["openvswitch", "sriov"])),
                (
                    "neutron",
                    "conf.plugins.ml2_conf.ml2.mechanism_drivers",
                    json!("openvswitch,sriovnicswitch,l2population"),
                ),
                (
                    "neutron",
                    "network.interface.sriov",
                    json!([{"device": "ens1", "num_vfs": 8, "promisc": false, "mtu": 9000}]),
                ),
                ("neutron", "conf.plugins.sriov_agent.sriov_nic.physical_device_mappings", json!("fast:ens1")),
                ("neutron", "images.tags.neutron_sriov_agent", json!("quay.io/airshipit/neutron:2026.1-ubuntu_noble")),
                ("nova", "conf.nova.pci.device_spec.values", spec),
                ("nova", "network.backend", json!(["openvswitch"])),
            ],
        ),
        (sriov("ovn"), &[("neutron", "conf.plugins.ml2_conf.ml2.mechanism_drivers", json!("ovn,sriovnicswitch"))]),
    ]);
}

#[test]
fn extensions_add_plugins_and_agents() {
    let with = |backend: &str, extensions: &[&str]| json!({"network": {"backend": backend, "extensions": extensions, "dns": {"domain": "cloud.example.org"}}});
    let provider =
        |driver: &str| json!(format!("VPN:strongswan:neutron_vpnaas.services.vpn.service_drivers.{driver}:default"));
    let bgp = json!({"network": {"extensions": ["dynamicRouting"], "bgpRouterId": "10.0.0.1"}});
    sets(&[
        (
            with("ovs", &["trunk", "qos", "portForwarding", "vpnaas"]),
            &[
                ("neutron", "conf.neutron.DEFAULT.service_plugins", json!("router,trunk,qos,port_forwarding,vpnaas")),
                ("neutron", "conf.neutron.service_providers.service_provider", provider("ipsec.IPsecVPNDriver")),
                ("neutron", "conf.plugins.ml2_conf.ml2.extension_drivers", json!("port_security,qos,dns")),
                ("neutron", "conf.plugins.openvswitch_agent.agent.extensions", json!("qos")),
                ("neutron", "conf.l3_agent.agent.extensions", json!("port_forwarding,vpnaas")),
                ("neutron", "conf.neutron.DEFAULT.dns_domain", json!("cloud.example.org.")),
            ],
        ),
        (
            with("ovn", &["vpnaas"]),
            &[
                ("neutron", "conf.neutron.DEFAULT.service_plugins", json!("ovn-router,ovn-vpnaas")),
                ("neutron", "conf.neutron.service_providers.service_provider", provider("ovn_ipsec.IPsecOvnVPNDriver")),
                ("neutron", "manifests.daemonset_ovn_vpn_agent", json!(true)),
                ("neutron", "conf.plugins.ml2_conf.ml2.extension_drivers", json!("port_security,dns")),
            ],
        ),
        (
            bgp,
            &[
                ("neutron", "conf.neutron.DEFAULT.service_plugins", json!("router,bgp")),
                ("neutron", "manifests.daemonset_bgp_dragent", json!(true)),
                ("neutron", "conf.bgp_dragent.bgp.bgp_router_id", json!("10.0.0.1")),
            ],
        ),
    ]);
}

#[test]
fn refuses_invalid_provider_and_tenant_networks() {
    let network = |network| json!({"features": {"network": network}});
    let networks = "spec.features.network.providerNetworks";
    let types = "spec.features.network.tenantNetworks.types";
    reports(&[
        (
            network(json!({"backend": "ovn", "tenantNetworks": {"types": ["vxlan"]}})),
            types,
            &["OVN's tunnels are Geneve", "use geneve or vlan"],
        ),
        (network(json!({"tenantNetworks": {"types": ["vlan"]}})), types, &["no physical network", "vlanRanges"]),
        (
            network(json!({"providerNetworks": [{"name": "external", "bridge": "br-x"}]})),
            networks,
            &["exists already", "choose another name"],
        ),
        (
            network(json!({"providerNetworks": [{"name": "a", "bridge": "br-int"}]})),
            networks,
            &["belong to the backend"],
        ),
        (
            network(json!({"providerNetworks": [{"name": "a"}, {"name": "a"}]})),
            networks,
            &["the same name", "use different ones"],
        ),
        (
            network(json!({"providerNetworks": [{"name": "a", "bridge": "b"}, {"name": "c", "bridge": "b"}]})),
            networks,
            &["the same bridge"],
        ),
        (
            network(json!({"providerNetworks": [{"name": "a", "interface": "eth1"}]})),
            networks,
            &["no bridge", "set its"],
        ),
    ]);
}

#[test]
fn refuses_invalid_extensions_and_tunnels() {
    let network = |network| json!({"features": {"network": network}});
    let sriov = json!({"devices": [{"interface": "ens1", "physicalNetwork": "fast"}]});
    reports(&[
        (
            network(json!({"sriov": sriov})),
            "spec.features.network.sriov.devices",
            &["does not know", "add it to spec.features.network.providerNetworks"],
        ),
        (
            network(json!({"extensions": ["dynamicRouting"]})),
            "spec.features.network.bgpRouterId",
            &["no router ID", "set bgpRouterId"],
        ),
        (
            network(json!({"bgpRouterId": "10.0.0.1"})),
            "spec.features.network.bgpRouterId",
            &["no effect", "dynamicRouting"],
        ),
        (
            network(json!({"tunnelInterface": "eth1", "tunnelNetwork": "10.0.0.0/8"})),
            "spec.features.network.tunnelNetwork",
            &["no effect", "remove one"],
        ),
        (network(json!({"extensions": ["bgp"]})), "spec.features.network.extensions[0]", &["not one of", "choose"]),
        (network(json!({"mtu": 100})), "spec.features.network.mtu", &["too small", "write a whole number from"]),
    ]);
}

/// Neutron's agents for L3, DHCP, metadata and VPN wait for the agent of the virtual switch on their own node. So the
/// catalogue must select only nodes with a virtual switch for these agents.
#[test]
fn switch_agents_run_on_nodes_with_a_switch() {
    let catalog = catalogue();
    let on = |name: &str| json!({"names": [name]});
    let of_ovs = ["agent.l3", "agent.dhcp", "agent.metadata", "netns_cleanup_cron"];
    let by_ovn = ["agent.ovn_vpn"];
    for (roles, backend, key) in [
        (json!({"control-plane": on("c1"), "compute": on("n1"), "gateway": on("g1")}), "ovs", Some("l3-agent")),
        (json!({"control-plane": on("c1"), "compute": on("n1")}), "ovs", Some("openvswitch")),
        (json!({"storage": on("s1")}), "ovs", None),
        (json!({"control-plane": on("c1"), "compute": on("n1"), "gateway": on("g1")}), "ovn", Some("l3-agent")),
        (json!({"control-plane": on("c1"), "compute": on("n1")}), "ovn", Some("openvswitch")),
        (json!({"storage": on("s1")}), "ovn", None),
    ] {
        let spec = base_spec(&json!({"nodes": {"roles": roles}, "features": {"network": {"backend": backend}}}));
        let desired = resolved(catalog, &spec);
        assert_eq!(refusals(&desired), Vec::<String>::new(), "{roles}");
        for labels in of_ovs.into_iter().chain(by_ovn) {
            let found = at(&desired.releases["neutron"].values, &format!("labels.{labels}.node_selector_key"));
            let key = key.filter(|_| by_ovn.contains(&labels) == (backend == "ovn"));
            assert_eq!(found.and_then(serde_json::Value::as_str), key, "{roles} on {backend}: {labels}");
        }
    }
    let distributed = json!({"network": {"distributedRouting": true}});
    let spec = base_spec(&json!({"nodes": {"roles": {"gateway": on("g1")}}, "features": distributed}));
    let neutron = &resolved(catalog, &spec).releases["neutron"].values;
    assert_eq!(at(neutron, "labels.agent.l3.node_selector_key"), Some(&json!("openvswitch")));
    assert_eq!(at(neutron, "labels.agent.dhcp.node_selector_key"), Some(&json!("l3-agent")));
}
