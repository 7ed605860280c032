//! Checks clouds in which the user enables only one service: osdpl accepts the cloud, and adds the services that the
//! enabled service needs.

use osdpl_core::catalog::Level;
use serde_json::{Value, json};

use crate::clouds::{catalogue, refusals, resolved};

fn only(service: &str) -> Value {
    json!({"openstackRelease": "2026.1", "services": {service: {"enabled": true}}})
}

/// A user can enable any single service without further settings.
#[test]
fn each_service_alone_resolves_without_errors() {
    let catalog = catalogue();
    for service in catalog.services.keys() {
        assert_eq!(refusals(&resolved(catalog, &only(service))), Vec::<String>::new(), "{service}");
    }
}

#[test]
fn adds_compute_for_services_with_instances() {
    let catalog = catalogue();
    let core = [
        "glance",
        "keystone",
        "libvirt",
        "mariadb",
        "memcached",
        "neutron",
        "nova",
        "openvswitch",
        "placement",
        "rabbitmq",
    ];
    for (service, more) in [
        ("nova", &[][..]),
        ("neutron", &[]),
        ("libvirt", &[]),
        ("octavia", &[]),
        ("ironic", &[]),
        ("trove", &["cinder"]),
        ("magnum", &["barbican", "heat"]),
        ("tacker", &["barbican", "heat"]),
        ("masakari", &[]),
    ] {
        let desired = resolved(catalog, &only(service));
        let has = |name: &&str| desired.releases.contains_key(*name);
        let missing: Vec<_> = core.iter().chain(more).filter(|name| !has(name)).collect();
        assert!(missing.is_empty(), "{service}: {missing:?}");
        for name in core.iter().chain(more).filter(|name| **name != service) {
            let field = format!("spec.services.{name}");
            let is_note = |finding: &&osdpl_core::desired::Finding| {
                finding.level == Level::Note && finding.location.field == field
            };
            let note =
                desired.findings.iter().find(is_note).unwrap_or_else(|| panic!("{service}: nothing about {name}"));
            assert!(note.message.starts_with("the service is part of the cloud because it is needed by "), "{note}");
        }
    }
    for service in ["barbican", "designate", "manila", "swift", "keystone"] {
        assert!(
            !resolved(catalog, &only(service)).releases.contains_key("nova"),
            "enabling {service} must not add nova, because the service needs no instances"
        );
    }
}

#[test]
fn network_backend_selects_the_switch() {
    let catalog = catalogue();
    for (backend, expected) in [("ovs", &["openvswitch"][..]), ("ovn", &["openvswitch", "ovn"])] {
        let mut spec = only("octavia");
        spec["features"] = json!({"network": {"backend": backend}});
        let desired = resolved(catalog, &spec);
        assert_eq!(refusals(&desired), Vec::<String>::new(), "{backend}");
        let switches: Vec<_> =
            ["openvswitch", "ovn"].into_iter().filter(|name| desired.releases.contains_key(*name)).collect();
        assert_eq!(switches, expected);
    }
}

#[test]
fn warns_without_hypervisors_and_refuses_missing_images() {
    let catalog = catalogue();
    let mut spec = only("nova");
    spec["services"]["libvirt"] = json!({"enabled": false});
    let desired = resolved(catalog, &spec);
    assert_eq!(refusals(&desired), Vec::<String>::new());
    let warned =
        desired.findings.iter().find(|finding| finding.location.field == "spec.services.libvirt.enabled").unwrap();
    assert_eq!(warned.level, Level::Warning);
    assert!(warned.message.contains("nova (libvirt/libvirt)"), "{warned}");

    let spec = json!({"openstackRelease": "2026.1", "presets": ["core"], "services": {"glance": {"enabled": false}}});
    let refused = refusals(&resolved(catalog, &spec));
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(
        refused[0].starts_with("spec.services.glance.enabled: is false, but glance is needed by nova (glance/api)"),
        "{refused:?}"
    );
}
