//! TLS inside of the cluster: each service that speaks to what asks for a certificate shows one, or is refused with it.

use osdpl::catalog::{Catalog, Level, Service};
use osdpl::desired::{Desired, Known, known};
use osdpl::values::Path;
use serde_json::{Value, json};

use crate::clouds::{at, catalogue, kit, resolved};

/// Databases themselves, of which one is the cloud's and the other is apart from it.
const DATABASES: [&str; 2] = ["mariadb", "mariadb-cluster"];

/// Charts in which Keystone's administrator is for a backup elsewhere.
const BACKED_UP: [&str; 5] =
    ["mariadb", "mariadb-backup", "mariadb-cluster", "postgresql", "prometheus-mysql-exporter"];

/// Every release whose chart has a default at `path`, with its service.
fn having(catalog: &Catalog, path: &str) -> Vec<(String, String)> {
    let path = Path::parse(path).unwrap();
    let has = |chart: &str| matches!(known(catalog, chart, &path), Some(Known::Has(_)));
    let of = |(service, entry): (&String, &Service)| -> Vec<(String, String)> {
        let releases = entry.releases.iter().filter(|(name, release)| **name == release.chart && has(&release.chart));
        releases.map(|(name, _)| (service.clone(), name.clone())).collect()
    };
    catalog.services.iter().flat_map(of).collect()
}

/// A cloud with this service and TLS as it is said here.
fn with(catalog: &Catalog, service: &str, tls: &Value) -> Desired {
    let mut tls = tls.clone();
    tls["issuer"] = json!({"name": "authority"});
    resolved(catalog, &kit(&json!({"services": {service: {"enabled": true}}, "features": {"tls": tls}})))
}

fn is_refused(desired: &Desired, field: &str, service: &str) -> bool {
    let refusals = desired.findings.iter().filter(|finding| finding.level == Level::Error && finding.field == field);
    refusals.map(|finding| &finding.message).any(|message| message.contains(service))
}

#[test]
fn whoever_logs_in_as_root_shows_the_database_a_certificate_or_is_refused() {
    let catalog = catalogue();
    let switches = ["manifests.certificates", "tls.oslo_db", "extraObjects.tls_db_init"];
    let all = having(&catalog, "endpoints.oslo_db.auth.admin");
    assert!(all.len() > 25, "{all:?}");
    for (service, release) in all.iter().filter(|(_, release)| !DATABASES.contains(&release.as_str())) {
        let desired = with(&catalog, service, &json!({"database": true}));
        let shows = |path: &&str| desired.releases.get(release).is_some_and(|made| at(&made.values, path).is_some());
        let shows = switches.iter().any(shows);
        assert!(shows || is_refused(&desired, "spec.features.tls.database", service), "{release}");
    }
}

#[test]
fn whoever_asks_keystone_knows_its_authority_or_is_refused() {
    let catalog = catalogue();
    let all = having(&catalog, "endpoints.identity.scheme");
    assert!(all.len() > 25, "{all:?}");
    for (service, release) in all.iter().filter(|(_, release)| !BACKED_UP.contains(&release.as_str())) {
        let desired = with(&catalog, service, &json!({"internal": {"enabled": true}}));
        let cacert = desired.releases.get(release).map(|made| at(&made.values, "endpoints.identity.auth.admin.cacert"));
        let knows = cacert.flatten().is_some();
        assert!(knows || is_refused(&desired, "spec.features.tls.internal", service), "{release}");
    }
}
