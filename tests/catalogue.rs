//! Checks the shipped catalogue: the catalogue loads, each value that it sets has a key in the chart, each credential
//! appears in the values of a release, and each kind of cloud resolves to consistent values.

#![allow(clippy::disallowed_methods, reason = "tests read files")]

#[path = "catalogue/added.rs"]
mod added;
#[path = "catalogue/adopted.rs"]
mod adopted;
#[path = "catalogue/alone.rs"]
mod alone;
#[path = "catalogue/brokers.rs"]
mod brokers;
#[path = "catalogue/budget.rs"]
mod budget;
#[path = "catalogue/built_in.rs"]
mod built_in;
#[path = "catalogue/certificates.rs"]
mod certificates;
#[path = "catalogue/clouds.rs"]
mod clouds;
#[path = "catalogue/cross_cutting.rs"]
mod cross_cutting;
#[path = "catalogue/digests.rs"]
mod digests;
#[path = "catalogue/features.rs"]
mod features;
#[path = "catalogue/ha.rs"]
mod ha;
#[path = "catalogue/keys.rs"]
mod keys;
#[path = "catalogue/options.rs"]
mod options;
#[path = "catalogue/own_keys.rs"]
mod own_keys;
#[path = "catalogue/rotation.rs"]
mod rotation;
#[path = "catalogue/sizes.rs"]
mod sizes;

use clouds::{at, catalogue, clouds, files, refusals, resolved};
use osdpl_core::catalog::{Catalog, Files, Text};
use osdpl_core::credentials;
use osdpl_values as values;
use serde_json::{Value, json};

#[test]
fn every_chart_has_known_keys() {
    // When osdpl loads the built-in catalogue, it skips checks that it makes only for the files of users. So check here
    // that the built-in catalogue contains the list of known keys of every chart.
    let catalog = Catalog::load(&osdpl_core::files::built_in()).unwrap();
    let releases = catalog.services.values().flat_map(|service| service.releases.values());
    let missing: Vec<_> =
        releases.map(|release| &release.chart).filter(|chart| catalog.keys().get(chart).is_none()).collect();
    assert!(missing.is_empty(), "no values/keys/<chart>.json for {missing:?}");
}

/// The built-in catalogue must have the same files as the `values` and `presets` folders. The other tests load these
/// folders as an external catalogue, because osdpl skips checks for the built-in catalogue.
#[test]
fn built_in_catalogue_matches_the_tested_one() {
    let built_in = osdpl_core::files::built_in();
    let given = files();
    assert!(built_in.values().all(|text| matches!(text, Text::BuiltIn { .. })));
    assert!(given.values().all(|text| matches!(text, Text::UserProvided(_))));
    let texts = |files: &Files| {
        files.iter().map(|(path, text)| (path.clone(), text.as_written().into_owned())).collect::<Vec<_>>()
    };
    assert_eq!(texts(&built_in), texts(&given));
}

#[test]
fn every_credential_is_set_and_can_be_restored() {
    let catalog = catalogue();
    let releases: Vec<&String> = catalog.services.values().flat_map(|service| service.releases.keys()).collect();
    for (service, entry) in &catalog.services {
        for credential in entry.credentials.keys() {
            let name = (service.clone(), credential.clone());
            let placed =
                releases.iter().any(|release| !credentials::find_credential_paths(catalog, release, &name).is_empty());
            assert!(placed, "{service}.{credential} is in no release's values");
        }
    }
}

#[test]
fn minimal_resource_is_a_complete_cloud() {
    let desired = resolved(catalogue(), &json!({"openstackRelease": "2026.1", "presets": ["compute"]}));
    assert_eq!(refusals(&desired), Vec::<String>::new());
    assert!(desired.findings.is_empty(), "{:?}", desired.findings);
    let names: Vec<_> = desired.releases.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "barbican",
            "cinder",
            "designate",
            "glance",
            "heat",
            "horizon",
            "keystone",
            "libvirt",
            "mariadb",
            "memcached",
            "neutron",
            "nova",
            "octavia",
            "openvswitch",
            "placement",
            "powerdns",
            "rabbitmq"
        ]
    );
}

#[test]
fn every_kind_of_cloud_resolves() {
    let catalog = catalogue();
    for (cloud, spec) in clouds() {
        let desired = resolved(catalog, &spec);
        assert_eq!(refusals(&desired), Vec::<String>::new(), "{cloud}");
        let ovn = cloud.contains("ovn") && cloud.contains("compute");
        assert_eq!(desired.releases.contains_key("ovn"), ovn, "{cloud}");
    }
}

#[test]
fn nova_neutron_and_libvirt_never_wait_for_each_other() {
    let catalog = catalogue();
    for (cloud, spec) in clouds() {
        let desired = resolved(catalog, &spec);
        for release in ["nova", "neutron", "libvirt"].iter().filter_map(|name| desired.releases.get(*name)) {
            let peers: Vec<_> = release
                .needs
                .keys()
                .filter(|need| ["nova", "neutron", "libvirt"].contains(&need.application.as_str()))
                .collect();
            assert!(peers.is_empty(), "{cloud}: {} needs {peers:?}", release.chart);
        }
    }
}

#[test]
fn repeated_values_are_equal_in_all_charts() {
    let catalog = catalogue();
    for (cloud, spec) in clouds() {
        let desired = resolved(catalog, &spec);
        let members = at(&desired.releases["rabbitmq"].values, "pod.replicas.server").cloned();
        for (name, release) in &desired.releases {
            let same = |path: &str, expected: Value| {
                let value = at(&release.values, path).cloned();
                assert!(
                    value.is_none() || value == Some(expected.clone()),
                    "{cloud}: {name}: {path} is {value:?}, not {expected}"
                );
            };
            same("endpoints.oslo_messaging.statefulset.replicas", members.clone().unwrap());
            same("endpoints.identity.auth.admin.password", json!("the-keystone-admin"));
            same("endpoints.oslo_db.auth.admin.password", json!("the-mariadb-root"));
            same("endpoints.oslo_db_cell0.auth.admin.password", json!("the-mariadb-root"));
            same("endpoints.oslo_db_cell1.auth.admin.password", json!("the-mariadb-root"));
            same("endpoints.oslo_messaging.auth.admin.password", json!("the-rabbitmq-admin"));
            same("endpoints.oslo_cache.auth.memcache_secret_key", json!("the-memcached-secret_key"));
            same("conf.nova.neutron.metadata_proxy_shared_secret", json!("the-neutron-metadata"));
            same("conf.nova.libvirt.rbd_secret_uuid", json!("the-nova-rbd_secret_uuid"));
            same("conf.ceph.cinder.secret_uuid", json!("the-nova-rbd_secret_uuid"));
            same("conf.backends.rbd1.rbd_secret_uuid", json!("the-nova-rbd_secret_uuid"));
        }
    }
}

#[test]
fn only_openstack_images_follow_the_release() {
    let catalog = catalogue();
    for (cloud, spec) in clouds() {
        let release = spec["openstackRelease"].as_str().unwrap();
        for (name, desired) in &resolved(catalog, &spec).releases {
            let tags = at(&desired.values, "images.tags").and_then(Value::as_object);
            for (tag, image) in tags.into_iter().flatten() {
                let ending = format!(":{release}-ubuntu_noble");
                assert!(image.as_str().unwrap().ends_with(&ending), "{cloud}: {name}: {tag} is {image}");
            }
            let backend = ["mariadb", "rabbitmq", "memcached", "openvswitch", "ovn"].contains(&name.as_str());
            assert_eq!(tags.is_none(), backend, "{cloud}: {name}");
        }
    }
}

#[test]
fn reports_missing_parts() {
    let catalog = catalogue();
    let cases = [
        (json!({"presets": ["storage"]}), "spec.features.storage.ceph: images and volumes are set to Ceph"),
        (
            json!({"presets": ["storage"], "features": {"storage": {"ceph": {"mode": "external"}}}}),
            "spec.features.storage.ceph.secret: an external Ceph (mode external) is described by a Secret",
        ),
        (
            json!({"features": {"publicEndpoints": {"enabled": true}}}),
            "spec.publicDomain: publicEndpoints is enabled, but there is no domain",
        ),
        (
            json!({"features": {"storage": {"backend": "ceph"}}}),
            "spec.features.storage.ceph: images and volumes are set to Ceph",
        ),
        (
            json!({"presets": ["compute", "ha"], "features": {"storage": {"backend": "local"}}}),
            "spec.features.storage.backend: the preset `ha` runs three databases on three nodes",
        ),
        (
            json!({"features": {"network": {"backend": "ovn"}}, "services": {"ovn": {"enabled": false}}}),
            "spec.services.ovn.enabled: is false, but ovn is needed by neutron (ovn/ovn-ovsdb-nb, ovn/ovn-ovsdb-sb)",
        ),
        (
            json!({"services": {"openvswitch": {"enabled": false}}}),
            "spec.services.openvswitch.enabled: is false, but openvswitch is needed by neutron (openvswitch/server)",
        ),
        (
            json!({"services": {"libvirt": {"releases": {"libvirt": {"namespace": "elsewhere"}}}}}),
            "spec.services.neutron.releases.neutron.namespace: openvswitch, ovn, libvirt, nova and neutron wait for each other's pods",
        ),
        (
            json!({"services": {"mariadb": {"external": {"host": "db.example.org"}}}}),
            "spec.services.mariadb.credentials.root: an external mariadb needs this credential",
        ),
    ];
    let mut wrong = Vec::new();
    for (change, expected) in cases {
        let mut spec = json!({"openstackRelease": "2026.1", "presets": ["compute"]});
        spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let refusals = refusals(&resolved(catalog, &spec));
        if !refusals.iter().any(|refusal| refusal.starts_with(expected)) {
            wrong.push(format!("{expected}\n{refusals:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn external_backend_has_one_address_and_port() {
    let given = |name: &str| json!({"host": "10.1.1.1", "port": if name == "rabbitmq" { 5671 } else { 3307 }});
    let key = json!({"name": "outside", "key": "password"});
    let spec = json!({"openstackRelease": "2026.1", "presets": ["compute", "ha"], "services": {
        "mariadb": {"external": given("mariadb"), "credentials": {"root": key}},
        "rabbitmq": {"external": given("rabbitmq"), "credentials": {"admin": key}},
    }});
    let desired = resolved(catalogue(), &spec);
    assert_eq!(refusals(&desired), Vec::<String>::new());
    let nova = &desired.releases["nova"].values;
    assert_eq!(at(nova, "endpoints.oslo_db.port.mysql.default"), Some(&json!(3307)));
    assert_eq!(at(nova, "endpoints.oslo_db_cell1.port.mysql.default"), Some(&json!(3307)));
    assert_eq!(at(nova, "endpoints.oslo_messaging.port.amqp.default"), Some(&json!(5671)));
    assert_eq!(
        at(nova, "endpoints.oslo_messaging.statefulset"),
        Some(&Value::Null),
        "values must not list members of an external rabbitmq, which has no StatefulSet"
    );
}

#[test]
fn region_class_and_namespaces_reach_every_chart() {
    let spec = json!({"openstackRelease": "2026.1", "presets": ["compute"], "region": "North", "storageClass": "fast",
                      "services": {"mariadb": {"releases": {"mariadb": {"namespace": "data"}}}, "rabbitmq": {"releases": {"rabbitmq": {"name": "mq"}}}}});
    let desired = resolved(catalogue(), &spec);
    for (name, release) in &desired.releases {
        let users = at(&release.values, "endpoints.identity.auth").and_then(Value::as_object);
        for (user, auth) in users.into_iter().flatten() {
            assert_eq!(auth["region_name"], "North", "{name}: {user}");
        }
        for (path, value) in values::leaves(&release.values) {
            assert!(path.keys().last().unwrap() != "class_name" || value == "fast", "{name}: {path}");
        }
        let namespace = at(&release.values, "endpoints.oslo_db.namespace");
        assert!(namespace.is_none_or(|namespace| namespace == "data"), "{name}: {namespace:?}");
    }
    let cinder = &desired.releases["cinder"].values;
    assert_eq!(at(cinder, "conf.cinder.nova.region_name"), Some(&json!("North")));
    assert_eq!(at(cinder, "endpoints.oslo_messaging.statefulset.name"), Some(&json!("mq-rabbitmq")));
}
