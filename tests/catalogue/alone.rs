//! Each service by itself: what else a working cloud needs comes along, so that nothing is refused.

use osdpl_core::catalog::Level;
use serde_json::{Value, json};

use crate::clouds::{catalogue, refusals, resolved};

fn alone(service: &str) -> Value {
    json!({"openstackRelease": "2026.1", "services": {service: {"enabled": true}}})
}

/// No service asks the user for anything before it can be had: there is no exception to list.
#[test]
fn each_service_alone_is_a_cloud_that_nothing_is_missing_of() {
    let catalog = catalogue();
    for service in catalog.services.keys() {
        assert_eq!(refusals(&resolved(&catalog, &alone(service))), Vec::<String>::new(), "{service}");
    }
}

#[test]
fn whoever_needs_instances_brings_all_that_makes_them_and_says_for_whom() {
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
        let desired = resolved(&catalog, &alone(service));
        let has = |name: &&str| desired.releases.contains_key(*name);
        let missing: Vec<_> = core.iter().chain(more).filter(|name| !has(name)).collect();
        assert!(missing.is_empty(), "{service}: {missing:?}");
        for name in core.iter().chain(more).filter(|name| **name != service) {
            let field = format!("spec.services.{name}");
            let is_note =
                |finding: &&osdpl_core::desired::Finding| finding.level == Level::Note && finding.field == field;
            let note =
                desired.findings.iter().find(is_note).unwrap_or_else(|| panic!("{service}: nothing about {name}"));
            assert!(note.message.starts_with("the service is part of the cloud because it is needed by "), "{note}");
        }
    }
    for service in ["barbican", "designate", "manila", "swift", "keystone"] {
        assert!(!resolved(&catalog, &alone(service)).releases.contains_key("nova"), "{service} needs no instances");
    }
}

#[test]
fn the_network_backend_says_which_switch_comes_along() {
    let catalog = catalogue();
    for (backend, expected) in [("ovs", &["openvswitch"][..]), ("ovn", &["openvswitch", "ovn"])] {
        let mut spec = alone("octavia");
        spec["features"] = json!({"network": {"backend": backend}});
        let desired = resolved(&catalog, &spec);
        assert_eq!(refusals(&desired), Vec::<String>::new(), "{backend}");
        let switches: Vec<_> =
            ["openvswitch", "ovn"].into_iter().filter(|name| desired.releases.contains_key(*name)).collect();
        assert_eq!(switches, expected);
    }
}

#[test]
fn hypervisors_of_the_users_own_are_a_warning_and_a_cloud_without_images_is_refused() {
    let catalog = catalogue();
    let mut spec = alone("nova");
    spec["services"]["libvirt"] = json!({"enabled": false});
    let desired = resolved(&catalog, &spec);
    assert_eq!(refusals(&desired), Vec::<String>::new());
    let warned = desired.findings.iter().find(|finding| finding.field == "spec.services.libvirt.enabled").unwrap();
    assert_eq!(warned.level, Level::Warning);
    assert!(warned.message.contains("nova (libvirt/libvirt)"), "{warned}");

    let spec = json!({"openstackRelease": "2026.1", "presets": ["core"], "services": {"glance": {"enabled": false}}});
    let said = refusals(&resolved(&catalog, &spec));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("spec.services.glance.enabled: is false, and glance is needed by nova (glance/api)"),
        "{said:?}"
    );
}
