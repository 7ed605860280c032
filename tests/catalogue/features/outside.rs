//! Checks features that depend on a folder of the node, on the labels of nodes, or on servers outside of the cluster.

use osdpl_core::ceph::{self, DeclaredCeph, Gateway};
use serde_json::{Value, json};

use super::{reports, sets};
use crate::clouds::{at, base_spec, catalogue, refusals, resolved, resolved_with};

/// Returns a function that looks up a path in the values of the release `manila`, in a cloud with these features and
/// nodes.
fn manila(features: &Value, nodes: &Value) -> impl Fn(&str) -> Value + use<> {
    let spec = json!({"services": {"manila": {"enabled": true}}, "features": features, "nodes": nodes});
    let desired = resolved(catalogue(), &base_spec(&spec));
    assert_eq!(refusals(&desired), Vec::<String>::new(), "{spec}");
    move |path| at(&desired.releases["manila"].values, path).cloned().unwrap_or_default()
}

/// The pods of Manila's chart mount the folder of the virtual switch from the node. In a cloud without the service
/// openvswitch, no other pod creates this folder, so the catalogue makes the kubelet create the folder.
#[test]
fn share_service_creates_the_switch_folder() {
    let ceph = json!({"backend": "ceph", "ceph": {"mode": "external", "secret": {"name": "ceph"}}});
    let mounted = |mounts: &Value| mounts.as_array().unwrap().iter().any(|mount| mount["name"] == "switch");
    let parent = "pod.mounts.manila_share.manila_share";
    for features in [
        json!({"storage": ceph}),
        json!({"storage": ceph, "shares": {"highlyAvailable": true}}),
        json!({"storage": ceph, "shares": {"highlyAvailable": true}, "tls": {"database": true, "issuer": {"name": "corp"}}}),
    ] {
        let value = manila(&features, &json!({}));
        let volumes = value(&format!("{parent}.volumes"));
        assert_eq!(volumes[0]["hostPath"], json!({"path": "/run/openvswitch", "type": "DirectoryOrCreate"}));
        assert!(
            mounted(&value(&format!("{parent}.volumeMounts"))),
            "the container must mount the volume, because the kubelet ignores a volume without mounts: {features}"
        );
    }
}

#[test]
fn share_servers_run_on_nodes_with_a_switch() {
    let generic =
        json!({"shares": {"backends": [{"name": "generic", "type": "generic", "image": "server", "flavor": "100"}]}});
    let roles = json!({"roles": {"control-plane": {"names": ["c1"]}, "compute": {"names": ["n1"]}}});
    let label = "labels.share.node_selector_key";
    assert_eq!(manila(&generic, &roles)(label), "openvswitch");
    assert_eq!(
        manila(&generic, &json!({}))(label),
        Value::Null,
        "without roles, the values must set no label, because the user labels the nodes"
    );
    assert_eq!(manila(&json!({}), &roles)(label), Value::Null, "without share servers, manila must not need a switch");
}

#[test]
fn iscsi_volumes_reach_all_attaching_pods() {
    let other = json!({"name": "array", "type": "other", "iscsi": true, "secret": "array-account", "options": {"volume_driver": "a.b.C"}});
    let lvm = json!({"name": "fast", "type": "lvm", "volumeGroup": "vg0"});
    let iscsi: &[super::Set] = &[
        ("cinder", "conf.enable_iscsi", json!(true)),
        ("nova", "conf.enable_iscsi", json!(true)),
        ("cinder", "pod.useHostNetwork", json!({"volume": true, "backup": true})),
        ("cinder", "pod.security_context.cinder_backup.container.cinder_backup.privileged", json!(true)),
        ("cinder", "pod.security_context.cinder_backup.container.cinder_backup.runAsUser", json!(42424)),
    ];
    let backup = json!({"type": "nfs", "share": "10.0.0.3:/b"});
    sets(&[
        (json!({"volumes": {"backends": [lvm], "backup": backup}}), iscsi),
        (json!({"volumes": {"backends": [other], "backup": backup}}), iscsi),
    ]);
}

#[test]
fn driver_passwords_are_not_in_values() {
    let volumes = json!({"name": "array", "type": "other", "secret": "account", "options": {"volume_driver": "a.b.C"}});
    let shares = json!({"name": "filer", "type": "other", "protocol": "NFS", "secret": "account",
                        "options": {"share_driver": "a.b.C", "driver_handles_share_servers": "false"}});
    let file = |name: &str| json!({"secret": {"name": "account", "items": [{"key": "backend.conf", "path": name}]}});
    let services = json!({"manila": {"enabled": true}, "mariadb_operator": {"enabled": true}});
    for declarative in [false, true] {
        let features = json!({"volumes": {"backends": [volumes]}, "shares": {"backends": [shares]}, "database": {"declarative": declarative}});
        let desired = resolved(catalogue(), &base_spec(&json!({"services": services, "features": features})));
        let sources = |release: &str, pod: &str| {
            at(&desired.releases[release].values, &format!("pod.etcSources.{pod}")).cloned().unwrap_or_default()
        };
        let connection = declarative.then(|| json!({"secret": {"name": "cinder-db-conn"}}));
        let expected: Vec<Value> = connection.into_iter().chain([file("array.conf")]).collect();
        assert_eq!(sources("cinder", "cinder_volume"), json!(expected));
        // Manila's list has no Secret with the database connection, even if `declarative` is set: Manila's chart cannot
        // read the connection from a Secret, so `declarative` does not apply to Manila's database.
        assert_eq!(sources("manila", "manila_share"), json!([file("filer.conf")]));
    }
    let spec =
        |feature: &str, backend: Value| json!({"services": services, "features": {feature: {"backends": [backend]}}});
    let nfs = json!({"name": "files", "type": "nfs", "host": "10.0.0.3", "path": "/v", "secret": "account"});
    let generic = json!({"name": "generic", "type": "generic", "image": "i", "flavor": "1", "secret": "account"});
    reports(&[
        (spec("volumes", nfs), "spec.features.volumes.backends", &["for backends of type other", "remove them"]),
        (spec("shares", generic), "spec.features.shares.backends", &["for backends of type other", "remove it"]),
    ]);
}

#[test]
fn floating_network_vlan_is_allowed_in_neutron() {
    let ranges = "conf.plugins.ml2_conf.ml2_type_vlan.network_vlan_ranges";
    let floating = |more: Value| {
        let mut network = json!({"vlan": 7, "subnet": {"cidr": "203.0.113.0/24"}});
        network.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        network
    };
    let physnet = json!([{"name": "lab", "bridge": "br-lab", "vlanRanges": ["10:20", "30:40"]}]);
    sets(&[
        (json!({"network": {"floatingNetwork": floating(json!({}))}}), &[("neutron", ranges, json!("external"))]),
        (
            json!({"network": {"floatingNetwork": floating(json!({"physicalNetwork": "external"})), "providerNetworks": physnet}}),
            &[("neutron", ranges, json!("external,lab:10:20,lab:30:40"))],
        ),
        (
            json!({"network": {"floatingNetwork": floating(json!({"physicalNetwork": "lab"})), "providerNetworks": physnet}}),
            &[("neutron", ranges, json!("lab:10:20,lab:30:40"))],
        ),
    ]);
}

#[test]
fn external_name_servers_use_their_masters() {
    let masters = json!([{"host": "192.0.2.9", "port": 53}, {"host": "2001:db8::1"}]);
    let spec = |bind: Value| {
        let service = json!({"nameServers": ["ns1.example.org."], "bind": bind});
        json!({"services": {"designate": {"enabled": true}}, "features": {"dnsService": service}})
    };
    let bind = json!({"servers": [{"host": "10.0.0.5"}], "secret": "rndc"});
    let mut reached = bind.clone();
    reached["masters"] = masters;
    let desired = resolved(catalogue(), &base_spec(&spec(reached)));
    assert_eq!(refusals(&desired), Vec::<String>::new());
    assert!(
        !desired.findings.iter().any(|finding| finding.location.field.contains("dnsService")),
        "{:?}",
        desired.findings
    );
    let text = at(&desired.releases["designate"].values, "conf.pools").unwrap().as_str().unwrap();
    let pools: Value = osdpl_values::yaml::parse("pools", text).unwrap();
    let masters = json!([{"host": "192.0.2.9", "port": 53}, {"host": "2001:db8::1", "port": 5354}]);
    assert_eq!(pools[0]["targets"][0]["masters"], masters);
    let field = "spec.features.dnsService.bind.masters";
    reports(&[(spec(bind), field, &["only nodes of the cluster can reach", "set masters"])]);
}

#[test]
fn public_certificate_covers_chart_gateways() {
    let key = b"AQABAgMEBQYHCBAApqampqampqampqampqamgQ==".to_vec();
    let secret = [("bootstrap-rgw.key".to_owned(), key)].into();
    let store = json!({"backend": "ceph", "ceph": {"mode": "external", "secret": {"name": "ceph"}, "objectStore": {}}});
    let gate = json!({"enabled": true, "gateway": {"name": "gate", "namespace": "gateways"}});
    let tls = json!({"public": {"secretName": "public", "issuer": {"name": "acme"}, "names": ["more.example.org"]}});
    let names = |gateway: Gateway| {
        let ceph = DeclaredCeph::of(Ok(ceph::example())).with_gateway(Some(Ok(gateway)));
        let features = json!({"storage": store, "publicEndpoints": gate, "tls": tls});
        let services = json!({"ceph_rgw": {"enabled": true}});
        let spec = base_spec(&json!({"publicDomain": "example.org", "features": features, "services": services}));
        let desired = resolved_with(catalogue(), &spec, ceph);
        assert_eq!(refusals(&desired), Vec::<String>::new());
        let names = at(&desired.releases["keystone"].values, "extraObjects.certificate_public.spec.dnsNames");
        names.unwrap().as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let run = |public| Gateway::external("openstack/ceph", &secret).unwrap().with_public(public).unwrap();
    let others = names(ceph::example_gateway());
    assert!(others.contains(&"more.example.org".to_owned()), "{others:?}");
    let added = |gateway: Gateway| names(gateway).into_iter().filter(|name| !others.contains(name)).collect::<Vec<_>>();
    assert_eq!(added(run(None)), ["swift.example.org"]);
    assert_eq!(added(run(Some("https://objects.example.net"))), ["objects.example.net"]);
    assert_eq!(
        added(run(Some("https://192.0.2.5"))),
        Vec::<String>::new(),
        "a gateway's IP address must add no name to the certificate"
    );
}

#[test]
fn provisioned_machines_reach_the_api() {
    let provisioning = json!({"interface": "eth3", "physicalNetwork": "external", "cidr": "172.24.6.0/24", "gateway": "172.24.6.1",
                              "start": "172.24.6.100", "end": "172.24.6.200"});
    let policies = json!({"enabled": true, "nodes": ["10.0.0.0/24"]});
    let features = json!({"bareMetal": {"provisioning": provisioning}, "networkPolicies": policies});
    let spec = json!({"services": {"ironic": {"enabled": true}}, "features": features});
    let desired = resolved(catalogue(), &base_spec(&spec));
    let ingress = at(&desired.releases["ironic"].values, "network_policy.ironic.spec.ingress").unwrap();
    let networks: Vec<_> =
        ingress[0]["from"].as_array().unwrap().iter().filter_map(|peer| peer["ipBlock"]["cidr"].as_str()).collect();
    assert_eq!(networks, ["10.0.0.0/24", "172.24.6.0/24"]);
}
