//! Checks that osdpl sets each credential at every path where a chart expects it. The test clouds together contain
//! every release of the catalogue. The charts come from the folder in the environment variable `CHARTS`, or else from
//! `tests/charts`.

#[path = "upstream/by_values.rs"]
mod by_values;
#[path = "upstream/hooks.rs"]
mod hooks;
#[path = "upstream/random_output.rs"]
mod random_output;
#[path = "upstream/rendered.rs"]
mod rendered;

use std::collections::BTreeSet;

use osdpl_core::catalog::{Catalog, KeyTree, Level, Rule};
use osdpl_core::desired::{Desired, DesiredRelease, select};
use osdpl_core::placeholder;
use osdpl_lint::Input;
use osdpl_values::{self as values, Values};
use serde_json::{Value, json};

use crate::clouds::{at, refusals, resolved};
use crate::shipped;

/// Credentials that several charts have at the same path. Each entry has the path and the credential's placeholder. In
/// every chart that has the path, osdpl must set the credential there.
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

/// Credentials that osdpl must set at a path of one release only. Each entry has the release, the path and the
/// credential's placeholder. In another release, the same path contains the password of a user of that release's
/// service.
const REPEATED: &[(&str, &str, &str)] = &[
    ("cyborg", "endpoints.identity.auth.nova.password", "the-nova-identity"),
    ("cyborg", "endpoints.identity.auth.placement.password", "the-placement-identity"),
    ("grafana", "endpoints.monitoring.auth.user.password", "the-prometheus-admin"),
    ("ldap", "openldap.password", "the-ldap-admin"),
    ("rabbitmq", "endpoints.oslo_messaging.auth.user.password", "the-rabbitmq-admin"),
    ("rally", "conf.rally.keystone_authtoken.memcache_secret_key", "the-memcached-secret_key"),
];

/// A release whose database server is independent of the cloud's database, and the beginning of the paths of the
/// server's passwords. The server and the cloud's database have different passwords, so [`SHARED`] does not apply to
/// these paths.
const INDEPENDENT: (&str, &str) = ("mariadb-cluster", "endpoints.oslo_db.auth.");

/// Default passwords of charts. osdpl does not replace these passwords. Each entry has the release, the path and the
/// reason why osdpl keeps the password. `*` stands for any release or, in a path, for any single key.
const IDLE: &[(&str, &str, &str)] = &[
    ("*", "endpoints.oci_image_registry.auth.*.password", "disabled until its user sets a password"),
    ("gnocchi", "endpoints.oslo_db_postgresql.auth.*.password", "its index is in MariaDB"),
    ("trove", "endpoints.identity.auth.*.password", "the entries are for other services, and no template reads them"),
];

/// A credential that the clouds of this test do not use. Nova needs it only if Nova has a Ceph user of its own, and in
/// these clouds Nova has none.
const OTHERWISE: &str = "the-nova-rbd_instances_secret_uuid";

/// Returns the sets of mutually exclusive services. The catalogue has a cross-check for each set, with the level
/// `error` and the condition `true`. So this cross-check refuses every cloud that has the services together.
fn exclusive(catalog: &Catalog) -> Vec<BTreeSet<&str>> {
    let is_refused = |rule: &&Rule| rule.level == Level::Error && rule.when.source() == "true";
    let services = |rule: &Rule| rule.releases.iter().filter_map(|name| Some(catalog.release(name)?.0)).collect();
    let sets = catalog.cross_checks.rules.iter().filter(is_refused).map(services);
    sets.filter(|set: &BTreeSet<&str>| set.len() > 1).collect()
}

/// The name of the cloud without Ceph. This cloud stores its data on `PersistentVolumeClaim`s.
const ON_CLAIMS: &str = "on claims";

/// The settings of a test cloud. The cloud has all services, but only one of each set of mutually exclusive services.
struct Kind {
    /// The cloud's name in the messages of failed tests.
    name: &'static str,
    /// From each set of mutually exclusive services, the cloud has the service with this index, or the last service if
    /// the set is smaller.
    choice: usize,
    presets: Value,
    features: Value,
}

impl Kind {
    /// Returns a cloud in which every service that supports Ceph uses Ceph.
    fn on_ceph(choice: usize) -> Self {
        let features =
            json!({"storage": {"backend": "ceph", "ceph": {"mode": "external", "secret": {"name": "ceph"}}}});
        Self { name: "on Ceph", choice, presets: json!(["compute", "storage", "ha"]), features }
    }

    /// Returns a cloud on Ceph with the network backend OVN. Each service that can have a RabbitMQ of its own has one.
    fn on_ovn(catalog: &Catalog, choice: usize) -> Self {
        let brokers = catalog.services["rabbitmq"].releases.keys();
        let dedicated: Vec<_> = brokers.filter_map(|release| release.strip_prefix("rabbitmq-")).collect();
        let mut kind = Self { name: "with brokers of their own", ..Self::on_ceph(choice) };
        kind.features["network"] = json!({"backend": "ovn"});
        kind.features["messaging"] = json!({"dedicated": dedicated});
        kind
    }

    /// Returns a cloud without Ceph, and with a Secret for pulling images.
    fn on_claims() -> Self {
        let secret = json!({"name": "registry", "key": "password"});
        let puller = json!({"host": "r.example.org", "username": "puller", "passwordSecret": secret});
        let features = json!({"storage": {"backend": "pvc"}, "imageRegistry": puller});
        Self { name: ON_CLAIMS, choice: 0, presets: json!(["compute"]), features }
    }

    /// Returns clouds that together contain every service and every credential.
    fn all(catalog: &Catalog) -> Vec<Self> {
        let most = exclusive(catalog).iter().map(BTreeSet::len).max().unwrap_or(1);
        let on_ceph = (0..most).map(Self::on_ceph);
        on_ceph.chain([Self::on_ovn(catalog, most - 1), Self::on_claims()]).collect()
    }

    /// Returns a spec with every service of the catalogue, but with only one service of each set of mutually exclusive
    /// services.
    fn spec(&self, catalog: &Catalog, release: &str) -> Value {
        let mut services: BTreeSet<&str> = catalog.services.keys().map(String::as_str).collect();
        for set in exclusive(catalog) {
            let chosen = set.iter().nth(self.choice.min(set.len() - 1)).copied();
            services.retain(|name| !set.contains(name) || Some(*name) == chosen);
        }
        let mut features = self.features.clone();
        if features["storage"]["backend"] == "ceph" && services.contains("ceph_rgw") {
            features["storage"]["ceph"]["objectStore"] = json!({});
        }
        let gateway = json!({"name": "public", "namespace": "gateways"});
        features["publicEndpoints"] = json!({"enabled": true, "gateway": gateway});
        features["compute"] = json!({"coldMigration": {"enabled": true}});
        let services: Values = services.into_iter().map(|name| (name.to_owned(), json!({"enabled": true}))).collect();
        json!({
            "openstackRelease": release, "presets": self.presets, "publicDomain": "cloud.example.org", "services": services,
            "features": features,
        })
    }
}

/// Resolves a cloud, once with credentials such as `the-mariadb-root`, and once with the placeholders that commands use
/// without a cluster. Checks that neither result has errors, and returns the first.
fn everything(catalog: &Catalog, release: &str, kind: &Kind) -> Desired {
    let spec = kind.spec(catalog, release);
    let desired = resolved(catalog, &spec);
    let typed = serde_json::from_value(spec).unwrap();
    let selection = select("cloud", "openstack", &typed, catalog);
    let resolved = Input::of_spec(&typed, catalog).resolve(&selection, &placeholder::facts(catalog, &selection));
    for result in [&desired, &resolved] {
        assert_eq!(refusals(result), Vec::<String>::new(), "{release} {}", kind.name);
    }
    desired
}

/// Adds to `found` the paths of all keys of a chart's values that have a default. `tree` is the catalogue's key tree of
/// the chart.
fn leaves(tree: &KeyTree, above: &values::Path, found: &mut Vec<values::Path>) {
    match tree {
        KeyTree::Map(below) => below.iter().for_each(|(key, tree)| leaves(tree, &above.child(key), found)),
        leaf => found.extend(leaf.has_default().then(|| above.clone())),
    }
}

/// Whether a path has the form `endpoints.ENDPOINT.auth.USER.password`.
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

/// Returns a message for each path at which a release lacks a credential. Such a path still has upstream's default
/// password, or lacks the credential that [`SHARED`] or [`REPEATED`] requires.
fn missing(catalog: &Catalog, name: &str, release: &DesiredRelease) -> Vec<String> {
    let mut known = Vec::new();
    leaves(catalog.keys().get(&release.chart).unwrap(), &values::Path::root(), &mut known);
    let text = |path: &values::Path| values::get(&release.values, path).and_then(Value::as_str).unwrap_or_default();
    let own = known.iter().filter(|path| is_password(path) && !is_idle(name, path) && !text(path).starts_with("the-"));
    let own = own.map(|path| format!("{name}: {path} is still upstream's default"));
    let listed = |path: &str| known.contains(&values::Path::parse(path).unwrap());
    let independent = |path: &str| name == INDEPENDENT.0 && path.starts_with(INDEPENDENT.1);
    let idle = |path: &str| is_idle(name, &values::Path::parse(path).unwrap());
    let shared = SHARED.iter().filter(|(path, _)| listed(path) && !idle(path) && !independent(path));
    let repeated = REPEATED.iter().filter(|(release, _, _)| *release == name).map(|(_, path, owner)| (path, owner));
    let wanted = shared.map(|(path, owner)| (path, owner)).chain(repeated);
    let other = wanted.filter(|(path, owner)| at(&release.values, path) != Some(&json!(owner)));
    own.chain(other.map(|(path, owner)| format!("{name}: {path} is not {owner}"))).collect()
}

#[test]
fn each_credential_is_set_at_every_chart_path() {
    let catalog = shipped();
    for kind in Kind::all(&catalog) {
        let desired = everything(&catalog, "2026.1", &kind);
        assert!(desired.releases.len() >= 35, "{}", desired.releases.len());
        let missing: Vec<_> =
            desired.releases.iter().flat_map(|(name, release)| missing(&catalog, name, release)).collect();
        assert!(missing.is_empty(), "{missing:#?}");
    }
}

#[test]
fn every_credential_reaches_a_suitable_cloud() {
    let catalog = shipped();
    let kinds = Kind::all(&catalog);
    let clouds: Vec<Desired> = kinds.iter().map(|kind| everything(&catalog, "2026.1", kind)).collect();
    let releases = || clouds.iter().flat_map(|desired| desired.releases.values());
    let deployed: BTreeSet<&str> = releases().map(|release| release.service.as_str()).collect();
    assert_eq!(deployed, catalog.services.keys().map(String::as_str).collect());
    let texts: Vec<String> = releases().map(|release| json!(release.values).to_string()).collect();
    let stands = |owner: &String| texts.iter().any(|text| text.contains(owner.as_str()));
    for (service, entry) in &catalog.services {
        let lost: Vec<_> = entry.credentials.keys().map(|name| format!("the-{service}-{name}")).collect();
        let lost: Vec<_> = lost.iter().filter(|owner| !stands(owner) && *owner != OTHERWISE).collect();
        assert!(lost.is_empty(), "a release must have each generated credential, but no release has {lost:?}");
    }
}

#[test]
fn rendered_clouds_cover_every_release() {
    let catalog = shipped();
    let known: BTreeSet<&String> = catalog.services.values().flat_map(|service| service.releases.keys()).collect();
    for release in catalog.openstack.keys() {
        let clouds = rendered::clouds(&catalog).into_iter().filter(|(of, _, _)| *of == release);
        let wanted: BTreeSet<String> = clouds.flat_map(|(_, _, desired)| desired.releases.into_keys()).collect();
        let left: Vec<_> = known.iter().filter(|name| !wanted.contains(**name)).collect();
        assert!(left.is_empty(), "{release}: no test cloud has {left:?}; enable what these releases need in a cloud");
    }
}

#[test]
fn shared_secrets_are_equal_in_both_releases() {
    let catalog = shipped();
    let desired = everything(&catalog, "2026.1", &Kind::on_ceph(0));
    let text = |release: &str, path: &str| {
        let found = at(&desired.releases[release].values, path).and_then(Value::as_str);
        found.unwrap_or_else(|| panic!("{release} has no text at {path}")).to_owned()
    };
    // Nova recognizes metadata requests from Neutron's proxies by this secret, so both releases must have the same
    // secret.
    let nova = text("nova", "conf.nova.neutron.metadata_proxy_shared_secret");
    for agent in ["ovn_agent", "ovn_metadata_agent", "metadata_agent"] {
        let path = format!("conf.{agent}.DEFAULT.metadata_proxy_shared_secret");
        assert_eq!(
            text("neutron", &path),
            nova,
            "neutron and nova must have the same secret for metadata requests; neutron has it at {path}"
        );
    }
    // Ceilometer logs in as the broker's administrator, so its URLs must contain the administrator's password.
    let administrator = text("rabbitmq", "endpoints.oslo_messaging.auth.user.password");
    let path = "conf.ceilometer.notification.messaging_urls.values";
    let urls = at(&desired.releases["ceilometer"].values, path).and_then(Value::as_array).unwrap();
    let begin = format!("rabbit://rabbitmq:{administrator}@");
    let other: Vec<_> = urls.iter().filter(|url| !url.as_str().unwrap().starts_with(&begin)).collect();
    assert!(
        urls.len() == 7 && other.is_empty(),
        "ceilometer: {path} must contain 7 URLs that begin with {begin}, but contains {urls:?}"
    );
}
