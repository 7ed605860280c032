//! Checks the features of optional services: load balancers, shares, bare metal, DNS, instance high availability.

use serde_json::{Value, json};

use super::{Set, reports};
use crate::clouds::{at, base_spec, catalogue, refusals, resolved};

/// Checks each case: osdpl must accept a cloud with the case's features, and set the expected values. `service`
/// contains the names of the optional services to enable, separated by spaces.
fn sets_with(service: &str, cases: &[(Value, &[Set])]) {
    let catalog = catalogue();
    for (features, expected) in cases {
        let mut features = features.clone();
        if features["storage"]["backend"] == "ceph" {
            features["storage"]["ceph"] = json!({"mode": "external", "secret": {"name": "ceph"}});
        }
        let mut services = json!({});
        for service in service.split(' ') {
            services[service] = json!({"enabled": true});
        }
        let desired = resolved(catalog, &base_spec(&json!({"services": services, "features": features})));
        assert_eq!(refusals(&desired), Vec::<String>::new(), "{features}");
        for (release, path, value) in *expected {
            let found = at(&desired.releases[*release].values, path);
            assert_eq!(found, Some(value), "{features}: {release}: {path}");
        }
    }
}

fn amphora() -> Value {
    let id = "11111111-2222-3333-4444-555555555555";
    json!({"imageOwner": id, "flavor": "amphora", "networks": [id], "securityGroups": [id, id],
           "controllers": ["172.31.0.11:5555", "172.31.0.12:5555"], "certificates": "octavia-certs"})
}

#[test]
fn load_balancers_use_existing_resources() {
    let id = "11111111-2222-3333-4444-555555555555";
    let mount = |file: &str, path: &str| json!({"name": "octavia-certs", "mountPath": format!("/etc/octavia/certs/{path}{file}"), "subPath": file, "readOnly": true});
    let mounts = json!([
        mount("server_ca.cert.pem", ""),
        mount("server_ca-chain.cert.pem", ""),
        mount("server_ca.key.pem", "private/"),
        mount("client_ca.cert.pem", ""),
        mount("client.cert-and-key.pem", "private/")
    ]);
    let mut pair = amphora();
    pair["topology"] = json!("ACTIVE_STANDBY");
    sets_with(
        "octavia",
        &[
            (
                json!({"loadBalancer": {"providers": ["amphora"], "amphora": amphora()}}),
                &[
                    ("octavia", "manifests.daemonset_worker", json!(true)),
                    ("octavia", "manifests.daemonset_health_manager", json!(true)),
                    ("octavia", "conf.octavia.controller_worker.amp_image_owner_id", json!(id)),
                    ("octavia", "conf.octavia.controller_worker.amp_secgroup_list", json!(format!("{id},{id}"))),
                    ("octavia", "conf.octavia.controller_worker.loadbalancer_topology", json!("SINGLE")),
                    (
                        "octavia",
                        "conf.octavia.health_manager.controller_ip_port_list",
                        json!("172.31.0.11:5555,172.31.0.12:5555"),
                    ),
                    ("octavia", "pod.mounts.octavia_worker.octavia_worker.volumeMounts", mounts),
                ],
            ),
            (
                json!({"loadBalancer": {"providers": ["amphora"], "amphora": pair}}),
                &[("octavia", "conf.octavia.controller_worker.loadbalancer_topology", json!("ACTIVE_STANDBY"))],
            ),
        ],
    );
}

#[test]
fn service_settings_reach_their_releases() {
    sets_with(
        "manila",
        &[
            (
                json!({"shares": {"backends": [{"name": "generic", "type": "generic", "image": "server", "flavor": "100"},
                       {"name": "filer", "type": "other", "protocol": "CIFS", "options": {"share_driver": "a.b.C", "driver_handles_share_servers": "false"}}]}}),
                &[
                    ("manila", "manifests.deployment_share", json!(true)),
                    ("manila", "conf.manila.DEFAULT.enabled_share_backends", json!("generic,filer")),
                    ("manila", "conf.manila.DEFAULT.enabled_share_protocols", json!("NFS,CIFS")),
                    ("manila", "conf.manila.generic.service_image_name", json!("server")),
                    ("manila", "conf.manila.filer.share_driver", json!("a.b.C")),
                    ("manila", "conf.manila.filer.share_backend_name", json!("filer")),
                ],
            ),
            (
                json!({"shares": {"highlyAvailable": true}, "storage": {"backend": "ceph"}}),
                &[
                    ("manila", "manifests.statefulset_share", json!(true)),
                    ("manila", "conf.manila.DEFAULT.host", Value::Null),
                ],
            ),
        ],
    );
    let network = json!({"interface": "eth3", "physicalNetwork": "external", "cidr": "10.9.0.0/24", "gateway": "10.9.0.1", "start": "10.9.0.10", "end": "10.9.0.99"});
    sets_with(
        "ironic",
        &[(
            json!({"bareMetal": {"provisioning": network, "compute": true, "interfaces": {"hardware": ["ipmi", "redfish"]}}}),
            &[
                ("ironic", "manifests.statefulset_conductor", json!(true)),
                ("ironic", "network.pxe.device", json!("eth3")),
                ("ironic", "network.pxe.neutron_subnet_cidr", json!("10.9.0.0/24")),
                ("ironic", "conf.ironic.DEFAULT.enabled_hardware_types", json!("ipmi,redfish")),
                ("nova", "manifests.statefulset_compute_ironic", json!(true)),
            ],
        )],
    );
    let consul = json!({"manage": "127.0.0.1:8500", "tenant": "10.0.0.1:8500", "storage": "10.1.0.1:8500"});
    sets_with(
        "masakari",
        &[(
            json!({"instanceHa": {"monitors": ["instance", "host"], "hostDriver": "consul", "consul": consul, "recoveryThreads": 3}, "storage": {"backend": "ceph"}}),
            &[
                ("masakari", "manifests.instance_monitor", json!(true)),
                ("masakari", "manifests.introspective_instance_monitor", json!(false)),
                ("masakari", "conf.masakarimonitors.host.monitoring_driver", json!("consul")),
                (
                    "masakari",
                    "conf.masakarimonitors.consul",
                    json!({"agent_manage": "127.0.0.1:8500", "agent_tenant": "10.0.0.1:8500", "agent_storage": "10.1.0.1:8500"}),
                ),
                ("masakari", "conf.masakari.DEFAULT.host_failure_recovery_threads", json!(3)),
            ],
        )],
    );
}

#[test]
fn zones_use_the_configured_servers() {
    let bind = json!({"servers": [{"host": "10.0.0.5"}], "secret": "rndc"});
    let spec = json!({"openstackRelease": "2026.1", "presets": ["compute"], "services": {"designate": {"enabled": true}, "powerdns": {"enabled": true}},
                      "features": {"network": {"dns": {"domain": "example.org"}},
                                   "dnsService": {"bind": bind, "nameServers": ["ns1.example.org.", "ns2.example.org."], "neutron": true}}});
    let desired = resolved(catalogue(), &spec);
    assert_eq!(refusals(&desired), Vec::<String>::new());
    let text = at(&desired.releases["designate"].values, "conf.pools").unwrap().as_str().unwrap();
    let pools: Value =
        osdpl_values::yaml::parse("pools", &text.replace("{{", "'").replace("}}", "'").replace('"', "")).unwrap();
    assert_eq!(pools[0]["ns_records"][1]["hostname"], "ns2.example.org.");
    assert_eq!(pools[0]["nameservers"], json!([{"host": "10.0.0.5", "port": 53}]));
    assert_eq!(pools[0]["targets"][0]["options"]["rndc_port"], 953);
    assert!(
        text.contains("host: ${MINIDNS_SERVICE_HOST}"),
        "the values must contain the variable, because a shell script of the chart replaces it: {text}"
    );
    let neutron = &desired.releases["neutron"].values;
    assert_eq!(at(neutron, "conf.neutron.DEFAULT.external_dns_driver"), Some(&json!("designate")));
}

/// Returns a spec with a service and features.
fn with(service: &str, features: &Value) -> Value {
    json!({"services": {service: {"enabled": true}}, "features": features})
}

/// Returns a spec with features, but without the service that they need.
fn without(features: &Value) -> Value {
    json!({"features": features})
}

#[test]
fn refuses_invalid_load_balancer_settings() {
    reports(&[
        (
            without(&json!({"loadBalancer": {"providers": ["ovn"]}})),
            "spec.features.loadBalancer.providers",
            &["octavia is not part", "enable"],
        ),
        (
            with("octavia", &json!({"loadBalancer": {"providers": ["amphora"]}})),
            "spec.features.loadBalancer.amphora.image",
            &["has no image", "imageOwner"],
        ),
        (
            with("octavia", &json!({"loadBalancer": {"providers": ["ovn"]}, "network": {"backend": "ovn"}})),
            "spec.features.loadBalancer.providers",
            &["does not contain ovn-octavia-provider", "neither the sockets", "use amphora"],
        ),
        (
            with("octavia", &json!({"loadBalancer": {"amphora": amphora()}})),
            "spec.features.loadBalancer.amphora",
            &["no effect", "add it there"],
        ),
        (
            with("octavia", &json!({"loadBalancer": {"providers": ["ovn", "ovn"]}, "network": {"backend": "ovn"}})),
            "spec.features.loadBalancer.providers",
            &["listed twice", "once"],
        ),
    ]);
}

#[test]
fn refuses_invalid_share_settings() {
    let shares = |backend: Value| json!({"shares": {"backends": [backend]}});
    let field = "spec.features.shares.backends";
    reports(&[
        (without(&shares(json!({"name": "generic", "type": "generic"}))), field, &["manila is not part", "enable"]),
        (
            with("manila", &shares(json!({"name": "x", "type": "cephfs"}))),
            field,
            &["named after their type", "rename it"],
        ),
        (
            with("manila", &shares(json!({"name": "cephfs", "type": "cephfs"}))),
            field,
            &["no Ceph", "storage.backend to ceph"],
        ),
        (
            with("manila", &shares(json!({"name": "generic", "type": "generic"}))),
            field,
            &["no image or flavor", "set them"],
        ),
        (
            with("manila", &shares(json!({"name": "x", "type": "other"}))),
            field,
            &["incomplete", "options.share_driver"],
        ),
        (
            with("manila", &json!({"shares": {"highlyAvailable": true}})),
            "spec.features.shares.highlyAvailable",
            &["no share backend", "set one"],
        ),
    ]);
}

#[test]
fn refuses_invalid_bare_metal_settings() {
    let network = |physical: &str| json!({"interface": "eth3", "physicalNetwork": physical, "cidr": "10.9.0.0/24", "gateway": "10.9.0.1", "start": "10.9.0.10", "end": "10.9.0.99"});
    reports(&[
        (
            without(&json!({"bareMetal": {"provisioning": network("external")}})),
            "spec.features.bareMetal.provisioning",
            &["ironic is not part", "enable"],
        ),
        (
            with("ironic", &json!({"bareMetal": {"provisioning": network("metal")}})),
            "spec.features.bareMetal.provisioning.physicalNetwork",
            &["does not know this physical network", "add it"],
        ),
        (without(&json!({"bareMetal": {"compute": true}})), "spec.features.bareMetal.compute", &["not part", "enable"]),
        (
            with("ironic", &json!({"bareMetal": {"compute": true}})),
            "spec.features.bareMetal.provisioning",
            &["no conductor", "describe it"],
        ),
    ]);
}

#[test]
fn refuses_invalid_dns_settings() {
    reports(&[
        (
            without(&json!({"dnsService": {"nameServers": ["ns1.example.org."]}})),
            "spec.features.dnsService",
            &["designate is not part", "enable"],
        ),
        (
            with("designate", &json!({"dnsService": {"bind": {"servers": [{"host": "10.0.0.5"}], "secret": "rndc"}}})),
            "spec.features.dnsService.nameServers",
            &["are not set", "list them"],
        ),
        (
            with("designate", &json!({"dnsService": {"neutron": true}})),
            "spec.features.network.dns",
            &["no names without a domain", "set spec.features.network.dns.domain"],
        ),
        (
            without(&json!({"dnsService": {"neutron": true}})),
            "spec.features.dnsService.neutron",
            &["not part", "enable both"],
        ),
    ]);
}

#[test]
fn refuses_invalid_instance_ha_settings() {
    let consul = json!({"manage": "a:8500", "tenant": "a:8500", "storage": "a:8500"});
    reports(&[
        (
            without(&json!({"instanceHa": {"monitors": ["instance"]}})),
            "spec.features.instanceHa.monitors",
            &["masakari, to which they report", "enable"],
        ),
        (
            with("masakari", &json!({"instanceHa": {"hostDriver": "consul"}})),
            "spec.features.instanceHa.hostDriver",
            &["no effect", "add it"],
        ),
        (
            with("masakari", &json!({"instanceHa": {"monitors": ["host"], "hostDriver": "consul"}})),
            "spec.features.instanceHa.consul",
            &["addresses of its agents", "manage, tenant and storage"],
        ),
        (
            with("masakari", &json!({"instanceHa": {"monitors": ["host"], "consul": consul}})),
            "spec.features.instanceHa.consul",
            &["no effect", "hostDriver to consul"],
        ),
        (
            with("masakari", &json!({"instanceHa": {"monitors": ["process"]}})),
            "spec.features.instanceHa.monitors[0]",
            &["is not one of", "introspective"],
        ),
        (
            with("masakari", &json!({"instanceHa": {"monitors": ["host"]}})),
            "spec.features.instanceHa.monitors",
            &["lost with them", "keep the disks on Ceph"],
        ),
    ]);
}
