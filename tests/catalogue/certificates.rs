//! Checks TLS inside the cluster: each client of a server that requires client certificates has a certificate, or osdpl
//! refuses the cloud.

use std::collections::BTreeSet;

use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, Level, Service};
use osdpl_core::desired::{Certificate, Desired, KeyState, classify_key, select};
use osdpl_values::{Path, leaves};
use serde_json::{Value, json};

use crate::clouds::{at, base_spec, catalogue, refusals, resolved};

/// The releases that run database servers: the cloud's database, and a Galera cluster that the cloud does not use. The
/// test skips them, because a server needs no client certificate.
const DATABASES: [&str; 2] = ["mariadb", "mariadb-cluster"];

/// Charts whose pods do not log in to this cloud's Keystone, although their values contain an account of Keystone's
/// administrator. So the pods need not trust this cloud's CA. The pods of `prometheus-mysql-exporter` log in to no
/// Keystone. The pods of the other charts store backups in another cloud, and log in to that cloud's Keystone.
const BACKED_UP: [&str; 5] =
    ["mariadb", "mariadb-backup", "mariadb-cluster", "postgresql", "prometheus-mysql-exporter"];

/// Returns the releases whose chart has a default at `path`, as pairs of the service's name and the release's name.
fn having(catalog: &Catalog, path: &str) -> Vec<(String, String)> {
    let path = Path::parse(path).unwrap();
    let has = |chart: &str| matches!(classify_key(catalog, chart, &path), Some(KeyState::Has(_)));
    let of = |(service, entry): (&String, &Service)| -> Vec<(String, String)> {
        let releases = entry.releases.iter().filter(|(name, release)| **name == release.chart && has(&release.chart));
        releases.map(|(name, _)| (service.clone(), name.clone())).collect()
    };
    catalog.services.iter().flat_map(of).collect()
}

/// Resolves a cloud with this service, and with these settings of the feature `tls` and an issuer.
fn with(catalog: &Catalog, service: &str, tls: &Value) -> Desired {
    let mut tls = tls.clone();
    tls["issuer"] = json!({"name": "authority"});
    resolved(catalog, &base_spec(&json!({"services": {service: {"enabled": true}}, "features": {"tls": tls}})))
}

fn is_refused(desired: &Desired, field: &str, service: &str) -> bool {
    let refusals =
        desired.findings.iter().filter(|finding| finding.level == Level::Error && finding.location.field == field);
    refusals.map(|finding| &finding.message).any(|message| message.contains(service))
}

#[test]
fn database_root_clients_have_a_certificate() {
    let catalog = catalogue();
    let switches = ["manifests.certificates", "tls.oslo_db", "extraObjects.tls_db_init"];
    let all = having(catalog, "endpoints.oslo_db.auth.admin");
    assert!(all.len() > 25, "{all:?}");
    for (service, release) in all.iter().filter(|(_, release)| !DATABASES.contains(&release.as_str())) {
        let desired = with(catalog, service, &json!({"database": true}));
        let shows = |path: &&str| desired.releases.get(release).is_some_and(|made| at(&made.values, path).is_some());
        let shows = switches.iter().any(shows);
        assert!(shows || is_refused(&desired, "spec.features.tls.database", service), "{release}");
    }
}

#[test]
fn keystone_clients_trust_the_ca() {
    let catalog = catalogue();
    let all = having(catalog, "endpoints.identity.scheme");
    assert!(all.len() > 25, "{all:?}");
    for (service, release) in all.iter().filter(|(_, release)| !BACKED_UP.contains(&release.as_str())) {
        let desired = with(catalog, service, &json!({"internal": {"enabled": true}}));
        let cacert = desired.releases.get(release).map(|made| at(&made.values, "endpoints.identity.auth.admin.cacert"));
        let knows = cacert.flatten().is_some();
        assert!(knows || is_refused(&desired, "spec.features.tls.internal", service), "{release}");
    }
}

/// Returns the specs of three clouds in which the user provides certificates: for the database and the broker, for the
/// broker only, and for the database only.
fn given() -> Vec<Value> {
    let kinds = [("manila", true, true), ("blazar", false, true), ("manila", true, false)];
    let kinds = kinds.map(|(more, database, messaging)| {
        let tls = json!({"given": true, "database": database, "messaging": messaging});
        let features = json!({"tls": tls, "messaging": {"dedicated": ["nova", "barbican"]}});
        let names = ["barbican", "octavia", "designate", "mariadb_backup", "prometheus_mysql_exporter", more];
        let services = names.map(|name| (name.to_owned(), json!({"enabled": true}))).into_iter();
        let services = services.collect::<serde_json::Map<_, _>>();
        base_spec(&json!({"features": features, "services": services}))
    });
    kinds.into()
}

/// Returns the certificates that osdpl verifies before it installs a cloud with this spec. Each certificate is in a
/// Secret.
fn certificates_of(catalog: &Catalog, spec: &Value) -> Vec<Certificate> {
    let spec: OpenStackDeploymentSpec = serde_json::from_value(spec.clone()).unwrap();
    select("cloud", "openstack", &spec, catalog).certificates
}

/// Returns the names of the certificate Secrets that the releases mount. A release mounts a Secret if the release's
/// values contain the Secret's name, or if a switch in the values makes the chart mount the Secret.
fn mounted_certificates(desired: &Desired) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (name, release) in &desired.releases {
        let shows = |path: &str| at(&release.values, path) == Some(&json!(true));
        if shows("tls.oslo_db") || shows("tls.oslo_messaging") {
            names.insert(format!("{name}-client"));
        }
        let is_image = |path: &Path| path.to_string().starts_with("images.");
        for (_, value) in leaves(&release.values).into_iter().filter(|(path, _)| !is_image(path)) {
            let text = value.to_string();
            let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').map(str::to_owned);
            names.extend(words.filter(|word| word.ends_with("-client") || word.ends_with("-tls-direct")));
        }
    }
    names
}

#[test]
fn checks_exactly_the_mounted_provided_certificates() {
    let catalog = catalogue();
    for spec in given() {
        let desired = resolved(catalog, &spec);
        assert_eq!(refusals(&desired), Vec::<String>::new(), "{spec}");
        let taken = certificates_of(catalog, &spec);
        let checked: BTreeSet<_> = taken.iter().map(|certificate| certificate.name.clone()).collect();
        assert_eq!(checked, mounted_certificates(&desired), "{spec}");
        for certificate in &taken {
            let server = certificate.name.strip_suffix("-tls-direct");
            let hosts = server.map_or(Vec::new(), |server| {
                ["", ".openstack", ".openstack.svc.cluster.local"].map(|end| format!("{server}{end}")).into()
            });
            assert_eq!(certificate.hosts, hosts, "{}", certificate.name);
            assert!(
                certificate.user_provided && certificate.keys.key.is_some() && certificate.keys.authority.is_some()
            );
        }
    }
}

/// No chart may request a certificate that the user provides: cert-manager would overwrite the user's Secret.
#[test]
fn provided_certificates_are_not_issued() {
    let catalog = catalogue();
    let no_issuer = json!({"group": "given.osdpl.dev", "kind": "Given", "name": "given"});
    for mut spec in given() {
        // Test each cloud without and with an issuer. The issuer must not issue certificates that the user provides.
        for issuer in [Value::Null, json!({"name": "authority"})] {
            spec["features"]["tls"]["issuer"] = issuer;
            for (name, release) in &resolved(catalog, &spec).releases {
                let values = Value::Object(release.values.clone()).to_string();
                assert!(!values.contains("\"Certificate\"") && !values.contains("authority"), "{name}: {values}");
                for endpoint in ["oslo_db", "oslo_messaging"] {
                    let path = format!("endpoints.{endpoint}.host_fqdn_override.default.tls.issuerRef");
                    let issuer_ref = at(&release.values, &path);
                    assert!(issuer_ref.is_none_or(|issuer| *issuer == no_issuer), "{name}: {issuer_ref:?}");
                }
            }
        }
    }
}

#[test]
fn issues_api_certificates_next_to_provided_ones() {
    let catalog = catalogue();
    let tls = json!({"given": true, "database": true, "issuer": {"name": "authority"}, "internal": {"enabled": true}});
    let desired = resolved(catalog, &base_spec(&json!({"features": {"tls": tls}})));
    assert_eq!(refusals(&desired), Vec::<String>::new());
    let issuer = at(&desired.releases["glance"].values, "extraObjects.tls_glance_api.spec.issuerRef");
    assert_eq!(issuer, Some(&json!({"name": "authority", "kind": "ClusterIssuer"})));
}
