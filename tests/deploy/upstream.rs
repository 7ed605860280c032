//! Every release of the catalogue whose chart is at hand (`CHARTS`: upstream's; else the stand-ins): both helms render it for each `OpenStack`
//! release, the same each time, nothing that upstream ships as a secret is left in it, and each credential stands wherever charts repeat it.

use std::collections::BTreeSet;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::Program;
use osdpl::catalog::{Catalog, KeyTree};
use osdpl::desired::{Desired, DesiredRelease};
use osdpl::values::{self, Values};
use serde_json::{Value, json};

use crate::clouds::{at, resolved};
use crate::render::{found, helm};
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

/// What upstream's values ship as secrets, beside words that are one where they follow the name of one.
const LITERAL: [&str; 11] = [
    ":password@",
    "supersecret",
    "chiave_segreta",
    "CHANGE_ME",
    "openstack-cookie",
    "SOMELONGSECRETKEY",
    "psql_exp_pass",
    "changeme",
    "not-secure-passphrase",
    "457eb676-33da-42ec-9a8c-9293d545c337",
    "aCtmgbcUqYUy_HNVg5BDXCaeJgJQzHJXwqbXr0Nmb2o",
];

/// Charts that no value keeps from rendering otherwise each time: random names of Roles, and a map in any order.
const RESTLESS: [&str; 2] = ["ceph-adapter-rook", "nagios"];

/// A cloud with everything in the catalogue.
fn everything(catalog: &Catalog, release: &str, storage: &Value) -> Desired {
    let services: Values = catalog.services.keys().map(|name| (name.clone(), json!({"enabled": true}))).collect();
    let presets = if storage["backend"] == "ceph" { json!(["compute", "storage", "ha"]) } else { json!(["compute"]) };
    let gateway = json!({"name": "public", "namespace": "gateways"});
    let puller = json!({"host": "r.example.org", "username": "puller", "passwordSecret": {"name": "registry", "key": "password"}});
    let mut spec = json!({
        "openstackRelease": release, "presets": presets, "publicDomain": "cloud.example.org", "services": services,
        "features": {
            "storage": storage, "publicEndpoints": {"enabled": true, "gateway": gateway}, "compute": {"coldMigration": {"enabled": true}},
        },
    });
    if storage["backend"] != "ceph" {
        spec["features"]["imageRegistry"] = puller;
    }
    resolved(catalog, &spec)
}

/// A Ceph for all that can use one.
fn ceph() -> Value {
    json!({"backend": "ceph", "ceph": {"mode": "external", "secret": {"name": "ceph"}, "objectStore": {}}})
}

/// One release's values, to be rendered.
struct Piece {
    cloud: String,
    name: String,
    chart: String,
    values: String,
    twice: bool,
}

/// Each chart at hand with each of the values that it gets: on Ceph for each `OpenStack` release, without one for the newest, on which the others
/// differ in images alone. What is random is so for all: the first of each is rendered twice.
fn pieces() -> Vec<Piece> {
    let catalog = shipped();
    let newest = catalog.openstack.keys().max().cloned().unwrap();
    let on_ceph = catalog.openstack.keys().map(|release| (release, ceph()));
    let clouds = on_ceph.chain([(&newest, json!({"backend": "pvc"}))]);
    let (mut seen, mut names) = (BTreeSet::new(), BTreeSet::new());
    let mut pieces = Vec::new();
    for (release, storage) in clouds {
        for (name, wanted) in everything(&catalog, release, &storage).releases {
            let values = serde_json::to_string(&wanted.values).unwrap();
            if found(&wanted.chart).is_ok() && seen.insert((name.clone(), values.clone())) {
                let cloud = format!("{release} on {}", storage["backend"].as_str().unwrap());
                let twice = names.insert(name.clone());
                pieces.push(Piece { cloud, name, chart: wanted.chart, values, twice });
            }
        }
    }
    pieces
}

/// What is wrong with a release as helm renders it.
fn faults(piece: &Piece) -> Vec<String> {
    let chart = found(&piece.chart).unwrap();
    // A version of Kubernetes that the charts of other projects take.
    let arguments = ["template", &piece.name, chart.to_str().unwrap(), "--namespace", "openstack"];
    let arguments = [&arguments[..], &["--kube-version", "1.34.0", "--values", "-"]].concat();
    let place = format!("{} ({})", piece.name, piece.cloud);
    let render = |which: Program| helm(which, &arguments, &piece.values);
    let mut faults = Vec::new();
    match render(Program::Helm4) {
        Err(complaint) => faults.push(format!("{place}: helm 4: {complaint}")),
        Ok(manifest) => {
            let is_compared = piece.twice && !RESTLESS.contains(&piece.chart.as_str());
            if is_compared && render(Program::Helm4).as_ref() != Ok(&manifest) {
                faults.push(format!("{place}: two renders differ; pin what is random in its values"));
            }
            faults.extend(leaks(&manifest).into_iter().map(|leak| format!("{place}: everybody knows {leak}")));
        }
    }
    faults.extend(render(Program::Helm3).err().map(|complaint| format!("{place}: helm 3: {complaint}")));
    faults
}

/// The secrets of upstream's in a manifest, below base64 too, each with what stands around it.
fn leaks(manifest: &str) -> BTreeSet<String> {
    let is_base64 = |character: char| character.is_ascii_alphanumeric() || "+/=".contains(character);
    let tokens = manifest.split(|character| !is_base64(character)).filter(|token| token.len() >= 8);
    let decoded = tokens.filter_map(|token| String::from_utf8(STANDARD.decode(token).ok()?).ok());
    let texts = decoded.chain([manifest.to_owned()]);
    texts.flat_map(|text| text.lines().filter(|line| is_known(line)).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Whether a line holds a secret of upstream's: one of the literal ones, or a word after the name of a secret.
fn is_known(line: &str) -> bool {
    let bare = |text: &str| text.trim().trim_matches(['"', '\'', ',']).to_owned();
    let word = |text: &str| ["password", "insecure", "changeme"].contains(&text);
    let is_secret = |key: &str| ["pass", "secret", "token", "_key"].iter().any(|part| key.contains(part));
    let assigned = line.split_once(['=', ':']).is_some_and(|(key, value)| {
        let (key, value) = (bare(key).to_lowercase(), bare(value));
        let decoded = STANDARD.decode(&value).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let is_type = key.ends_with("auth_type");
        (is_secret(&key) && word(&value)) || (!is_type && decoded.is_some_and(|decoded| word(&decoded)))
    });
    assigned || LITERAL.iter().any(|literal| line.contains(literal))
}

#[test]
fn every_chart_at_hand_renders_with_both_helms_the_same_each_time_and_keeps_nothing_that_everybody_knows() {
    let pieces = pieces();
    let releases: BTreeSet<_> = pieces.iter().map(|piece| &piece.name).collect();
    assert!(releases.len() >= 14, "charts of {releases:?} alone are at hand");
    let (queue, faults) = (Mutex::new(pieces.iter()), Mutex::new(Vec::new()));
    let next = || queue.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(piece) = next() {
                    faults.lock().unwrap().extend(self::faults(piece));
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{faults:#?}");
}

/// The paths of every leaf.
fn leaves(tree: &KeyTree, above: &values::Path, found: &mut Vec<values::Path>) {
    match tree {
        KeyTree::Leaf(_) => found.push(above.clone()),
        KeyTree::Read => {}
        KeyTree::Map(below) => below.iter().for_each(|(key, tree)| leaves(tree, &above.child(key), found)),
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
    for (storage, least) in [(ceph(), 35), (json!({"backend": "pvc"}), 35)] {
        let desired = everything(&catalog, "2026.1", &storage);
        assert!(desired.releases.len() >= least, "{}", desired.releases.len());
        let missing: Vec<_> =
            desired.releases.iter().flat_map(|(name, release)| missing(&catalog, name, release)).collect();
        assert!(missing.is_empty(), "{missing:#?}");
    }
}

#[test]
fn every_credential_reaches_the_cloud_that_has_everything() {
    let catalog = shipped();
    let desired = everything(&catalog, "2026.1", &ceph());
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
fn what_everybody_knows_is_found_below_base64_too_and_a_type_of_login_is_none() {
    let encoded = |text: &str| STANDARD.encode(text);
    let bad = [
        "  password: password".to_owned(),
        "OS_PASSWORD=password".to_owned(),
        format!("  OS_PASSWORD: {}", encoded("password")),
        format!("  nova.conf: {}", encoded("[database]\nconnection = mysql+pymysql://nova:password@mariadb/nova\n")),
        format!("  octavia.conf: {}", encoded("[health_manager]\nheartbeat_key = insecure\n")),
        "  api_token: chiave_segreta".to_owned(),
    ];
    for line in bad {
        assert_eq!(leaks(&line).len(), 1, "{line}");
    }
    let good = [
        "auth_type = password".to_owned(),
        format!("  OS_AUTH_TYPE: {}", encoded("password")),
        format!("  nova.conf: {}", encoded("[keystone_authtoken]\nauth_type = password\n")),
        "  password: the-nova-identity".to_owned(),
    ];
    for line in good {
        assert_eq!(leaks(&line), BTreeSet::new(), "{line}");
    }
}
