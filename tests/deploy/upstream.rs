//! Every release of the catalogue, by upstream's charts (`CHARTS`; else the stand-ins): what helm makes of it, and that each credential stands wherever charts
//! repeat it.

#[path = "upstream/by_values.rs"]
mod by_values;
#[path = "upstream/rendered.rs"]
mod rendered;

use std::collections::BTreeSet;

use osdpl::catalog::{Catalog, KeyTree};
use osdpl::desired::{Desired, DesiredRelease};
use osdpl::values::{self, Values};
use serde_json::{Value, json};

use crate::clouds::{at, resolved};
use crate::shipped;

/// What stands in more than one chart, and whose it is: wherever a chart knows the path, it holds that.
const SHARED: &[(&str, &str)] = &[
    ("endpoints.identity.auth.admin.password", "the-keystone-admin"),
    ("endpoints.oslo_db.auth.admin.password", "the-mariadb-root"),
    ("endpoints.oslo_db_cell0.auth.admin.password", "the-mariadb-root"),
    ("endpoints.oslo_db_cell1.auth.admin.password", "the-mariadb-root"),
    ("endpoints.oslo_db_persistence.auth.admin.password", "the-mariadb-root"),
    ("endpoints.oslo_db_persistence.auth.octavia.password", "the-octavia-database"),
    ("endpoints.oslo_db_cell0.auth.nova.password", "the-nova-database"),
    ("endpoints.oslo_db_cell1.auth.nova.password", "the-nova-database"),
    ("endpoints.oslo_messaging.auth.admin.password", "the-rabbitmq-admin"),
    ("endpoints.oslo_cache.auth.memcache_secret_key", "the-memcached-secret_key"),
    ("endpoints.identity.auth.glance.password", "the-glance-identity"),
    ("endpoints.object_store.auth.glance.tmpurlkey", "the-glance-temporary_url_key"),
    ("endpoints.powerdns.auth.service.token", "the-powerdns-token"),
    ("endpoints.oslo_db_session.auth.admin.password", "the-mariadb-root"),
    ("endpoints.oslo_db.auth.sst.password", "the-mariadb-sst"),
    ("endpoints.oslo_db.auth.audit.password", "the-mariadb-audit"),
    ("endpoints.oslo_db.auth.exporter.password", "the-mariadb-exporter"),
    ("endpoints.elasticsearch.auth.admin.password", "the-elasticsearch-admin"),
    ("endpoints.ldap.auth.admin.password", "the-ldap-admin"),
    ("endpoints.monitoring.auth.admin.password", "the-prometheus-admin"),
    ("conf.nova.neutron.metadata_proxy_shared_secret", "the-neutron-metadata"),
    ("conf.metadata_agent.DEFAULT.metadata_proxy_shared_secret", "the-neutron-metadata"),
    ("conf.ovn_agent.DEFAULT.metadata_proxy_shared_secret", "the-neutron-metadata"),
    ("conf.ovn_metadata_agent.DEFAULT.metadata_proxy_shared_secret", "the-neutron-metadata"),
    ("conf.nova.libvirt.rbd_secret_uuid", "the-nova-rbd_secret_uuid"),
    ("endpoints.postgresql.auth.admin.password", "the-postgresql-admin"),
    ("conf.blazar.physical_host_plugin.blazar_password", "the-blazar-identity"),
];

/// What repeats another's user at a path where other charts have one of their own.
const REPEATED: &[(&str, &str, &str)] = &[
    ("cyborg", "endpoints.identity.auth.nova.password", "the-nova-identity"),
    ("cyborg", "endpoints.identity.auth.placement.password", "the-placement-identity"),
    ("grafana", "endpoints.monitoring.auth.user.password", "the-prometheus-admin"),
    ("ldap", "openldap.password", "the-ldap-admin"),
    ("rabbitmq", "endpoints.oslo_messaging.auth.user.password", "the-rabbitmq-admin"),
    ("rally", "conf.rally.keystone_authtoken.memcache_secret_key", "the-memcached-secret_key"),
];

/// A second database, which shares nothing with the cloud's.
const APART: (&str, &str) = ("mariadb-cluster", "endpoints.oslo_db.auth.");

/// Passwords that charts list and that stay as they are, with the reason; `*` stands for one key.
const IDLE: &[(&str, &str, &str)] = &[
    ("*", "endpoints.oci_image_registry.auth.*.password", "off until its user says so, with a password"),
    ("gnocchi", "endpoints.oslo_db_postgresql.auth.*.password", "its index is in MariaDB"),
    ("trove", "endpoints.identity.auth.*.password", "entries for others, which no template reads"),
];

/// A credential for a Ceph that has a user of nova's own, which the example of one has not.
const OTHERWISE: &str = "the-nova-rbd_instances_secret_uuid";

/// A cloud with everything in the catalogue, but for what excludes each other: these features choose.
fn everything(catalog: &Catalog, release: &str, features: &Value) -> Desired {
    let services: Values = catalog.services.keys().map(|name| (name.clone(), json!({"enabled": true}))).collect();
    let presets =
        if features["storage"]["backend"] == "ceph" { json!(["compute", "storage", "ha"]) } else { json!(["compute"]) };
    let gateway = json!({"name": "public", "namespace": "gateways"});
    let mut spec = json!({
        "openstackRelease": release, "presets": presets, "publicDomain": "cloud.example.org", "services": services,
        "features": {"publicEndpoints": {"enabled": true, "gateway": gateway}, "compute": {"coldMigration": {"enabled": true}}},
    });
    spec["features"].as_object_mut().unwrap().extend(features.as_object().unwrap().clone());
    resolved(catalog, &spec)
}

/// A Ceph for all that can use one.
fn on_ceph() -> Value {
    let ceph = json!({"mode": "external", "secret": {"name": "ceph"}, "objectStore": {}});
    json!({"storage": {"backend": "ceph", "ceph": ceph}})
}

/// No Ceph, and images that a secret is needed for.
fn on_claims() -> Value {
    let puller = json!({"host": "r.example.org", "username": "puller", "passwordSecret": {"name": "registry", "key": "password"}});
    json!({"storage": {"backend": "pvc"}, "imageRegistry": puller})
}

/// The other network, and a broker for each service that can have its own; on Ceph.
fn apart(catalog: &Catalog) -> Value {
    let brokers = catalog.services["rabbitmq"].releases.keys();
    let dedicated: Vec<_> = brokers.filter_map(|release| release.strip_prefix("rabbitmq-")).collect();
    let mut features = on_ceph();
    features["network"] = json!({"backend": "ovn"});
    features["messaging"] = json!({"dedicated": dedicated});
    features
}

/// The paths of every leaf.
fn leaves(tree: &KeyTree, above: &values::Path, found: &mut Vec<values::Path>) {
    match tree {
        KeyTree::Map(below) => below.iter().for_each(|(key, tree)| leaves(tree, &above.child(key), found)),
        leaf => found.extend(leaf.has_default().then(|| above.clone())),
    }
}

/// Whether a path is that of a password of some user's at some endpoint.
fn is_password(path: &values::Path) -> bool {
    matches!(path.keys(), [first, _, auth, _, last] if first == "endpoints" && auth == "auth" && last == "password")
}

fn is_idle(release: &str, path: &values::Path) -> bool {
    let fits = |pattern: &str, text: &str| pattern == "*" || pattern == text;
    IDLE.iter().any(|(name, pattern, _)| {
        let keys: Vec<&str> = pattern.split('.').collect();
        fits(name, release)
            && keys.len() == path.keys().len()
            && keys.iter().zip(path.keys()).all(|(pattern, key)| fits(pattern, key))
    })
}

/// What of its passwords and of what it repeats a release does not hold.
fn missing(catalog: &Catalog, name: &str, release: &DesiredRelease) -> Vec<String> {
    let mut known = Vec::new();
    leaves(catalog.keys().get(&release.chart).unwrap(), &values::Path::root(), &mut known);
    let text = |path: &values::Path| values::get(&release.values, path).and_then(Value::as_str).unwrap_or_default();
    let own = known.iter().filter(|path| is_password(path) && !is_idle(name, path) && !text(path).starts_with("the-"));
    let own = own.map(|path| format!("{name}: {path} is upstream's"));
    let listed = |path: &str| known.contains(&values::Path::parse(path).unwrap());
    let apart = |path: &str| name == APART.0 && path.starts_with(APART.1);
    let idle = |path: &str| is_idle(name, &values::Path::parse(path).unwrap());
    let shared = SHARED.iter().filter(|(path, _)| listed(path) && !idle(path) && !apart(path));
    let repeated = REPEATED.iter().filter(|(release, _, _)| *release == name).map(|(_, path, owner)| (path, owner));
    let wanted = shared.map(|(path, owner)| (path, owner)).chain(repeated);
    let other = wanted.filter(|(path, owner)| at(&release.values, path) != Some(&json!(owner)));
    own.chain(other.map(|(path, owner)| format!("{name}: {path} is not {owner}"))).collect()
}

#[test]
fn each_credential_stands_wherever_a_chart_has_a_place_for_it() {
    let catalog = shipped();
    for features in [on_ceph(), on_claims(), apart(&catalog)] {
        let desired = everything(&catalog, "2026.1", &features);
        assert!(desired.releases.len() >= 35, "{}", desired.releases.len());
        let missing: Vec<_> =
            desired.releases.iter().flat_map(|(name, release)| missing(&catalog, name, release)).collect();
        assert!(missing.is_empty(), "{missing:#?}");
    }
}

#[test]
fn every_credential_reaches_the_cloud_that_has_everything() {
    let catalog = shipped();
    let desired = everything(&catalog, "2026.1", &on_ceph());
    let held: BTreeSet<&str> = desired.releases.values().map(|release| release.service.as_str()).collect();
    let texts: Vec<String> = desired.releases.values().map(|release| json!(release.values).to_string()).collect();
    let stands = |owner: &String| texts.iter().any(|text| text.contains(owner.as_str()));
    for (service, entry) in catalog.services.iter().filter(|(service, _)| held.contains(service.as_str())) {
        let lost: Vec<_> = entry.credentials.keys().map(|name| format!("the-{service}-{name}")).collect();
        let lost: Vec<_> = lost.iter().filter(|owner| !stands(owner) && *owner != OTHERWISE).collect();
        assert!(lost.is_empty(), "{lost:?} are made, and nothing is given them");
    }
}

#[test]
fn what_two_releases_show_each_other_is_the_same_at_both() {
    let desired = everything(&shipped(), "2026.1", &on_ceph());
    let text = |release: &str, path: &str| {
        let found = at(&desired.releases[release].values, path).and_then(Value::as_str);
        found.unwrap_or_else(|| panic!("{release} has no text at {path}")).to_owned()
    };
    // Nova takes a request for metadata for one of Neutron's proxies' by it.
    let nova = text("nova", "conf.nova.neutron.metadata_proxy_shared_secret");
    for agent in ["ovn_agent", "ovn_metadata_agent", "metadata_agent"] {
        let path = format!("conf.{agent}.DEFAULT.metadata_proxy_shared_secret");
        assert_eq!(text("neutron", &path), nova, "neutron: {path} is not what nova expects");
    }
    // Ceilometer logs in as the broker's administrator, whom the charts call so.
    let administrator = text("rabbitmq", "endpoints.oslo_messaging.auth.user.password");
    let path = "conf.ceilometer.notification.messaging_urls.values";
    let urls = at(&desired.releases["ceilometer"].values, path).and_then(Value::as_array).unwrap();
    let begin = format!("rabbit://rabbitmq:{administrator}@");
    let other: Vec<_> = urls.iter().filter(|url| !url.as_str().unwrap().starts_with(&begin)).collect();
    assert!(
        urls.len() == 7 && other.is_empty(),
        "ceilometer: {path} has {other:?} among {urls:?}, and the broker knows {begin}"
    );
}
