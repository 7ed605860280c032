//! Selects the services of the test clouds in `all_services`: all services of the catalogue, except for services that
//! this module excludes. The module states the reason for each excluded service.

use std::collections::BTreeSet;
use std::path::Path;

use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::{Selection, select};
use osdpl_core::placeholder;
use osdpl_lint::Input;

use super::other_projects::{INSTALLABLE, NOT_INSTALLABLE};
use super::{CLOUDS, CloudSettings, shipped};

/// The services of upstream's charts that no test cloud contains, each with the reason.
const EXCLUDED: [(&str, &str); 6] = [
    ("ceph_adapter_rook", "the service would write the same Secrets and ConfigMaps for Ceph clients as the operator"),
    ("ceph_client", "the service would install a second Ceph cluster"),
    ("ceph_mon", "the service would install a second Ceph cluster"),
    ("ceph_osd", "the service would install a second Ceph cluster"),
    ("ceph_provisioners", "the service would install a second Ceph cluster"),
    ("mariadb_cluster", "the service's chart uses an API that current releases of mariadb-operator no longer have"),
];

/// Whether all charts of a service come from other projects than OpenStack-Helm. `other_projects.rs` lists these
/// services and tests the installable ones.
fn is_foreign_project(catalog: &Catalog, service: &str) -> bool {
    let releases = &catalog.services[service].releases;
    releases.values().all(|release| catalog.lock.get(&release.chart).is_some_and(|pin| pin.repository.is_some()))
}

/// Whether the test clouds leave out this service, because it is in `EXCLUDED` or comes from another project.
pub(super) fn is_excluded(catalog: &Catalog, service: &str) -> bool {
    EXCLUDED.iter().any(|(name, _)| *name == service) || is_foreign_project(catalog, service)
}

/// Returns the services in `services` for which the operator needs additional rights. The folder `rbac/` of osdpl's
/// chart contains these rights. The chart grants them only if its value `rbac.services` names the service.
pub(super) fn granted(services: &BTreeSet<String>) -> Vec<String> {
    let rights = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/osdpl/rbac");
    services.iter().filter(|service| rights.join(format!("{service}.yaml")).is_file()).cloned().collect()
}

fn spec(settings: &CloudSettings, catalog: &Catalog) -> OpenStackDeploymentSpec {
    serde_json::from_value(settings.spec(catalog)).unwrap()
}

/// Returns the services and releases that the spec of a test cloud selects from the catalogue.
pub(super) fn selection(settings: &CloudSettings, catalog: &Catalog) -> Selection {
    select("cloud", "openstack", &spec(settings, catalog), catalog)
}

#[test]
fn every_service_is_included_or_excluded_with_a_reason() {
    let catalog = shipped();
    let desired = CLOUDS.iter().flat_map(|settings| selection(settings, &catalog).releases.into_keys());
    let desired: BTreeSet<String> = desired.filter_map(|name| Some(catalog.release(&name)?.0.to_owned())).collect();
    let other_projects: Vec<&str> =
        INSTALLABLE.into_iter().chain(NOT_INSTALLABLE).map(|(service, _)| service).collect();
    for service in catalog.services.keys() {
        let (is_desired, is_foreign_project) = (desired.contains(service), is_foreign_project(&catalog, service));
        let is_listed = EXCLUDED.iter().any(|(name, _)| name == service);
        let count = usize::from(is_desired) + usize::from(is_foreign_project) + usize::from(is_listed);
        assert_eq!(
            count, 1,
            "{service}: exactly one must be true: in a test cloud {is_desired}, \
             of another project {is_foreign_project}, in EXCLUDED {is_listed}"
        );
        assert_eq!(
            is_foreign_project,
            other_projects.contains(&service.as_str()),
            "{service}: tests/operator/all_services/other_projects.rs must list exactly the services of other projects"
        );
    }
    let known = |name: &&str| catalog.services.contains_key(*name);
    assert!(
        EXCLUDED.iter().map(|(name, _)| name).chain(&other_projects).all(known),
        "EXCLUDED, INSTALLABLE and NOT_INSTALLABLE must name only services of the catalogue"
    );
}

#[test]
fn every_openstack_release_has_a_valid_cloud() {
    let catalog = shipped();
    let releases: Vec<&str> = CLOUDS.iter().map(|settings| settings.openstack).collect();
    assert_eq!(releases, catalog.openstack.keys().collect::<Vec<_>>());
    for settings in &CLOUDS {
        let (spec, selection) = (spec(settings, &catalog), selection(settings, &catalog));
        let facts = placeholder::facts(&catalog, &selection);
        let desired = Input::of_spec(&spec, &catalog).resolve(&selection, &facts);
        let refused: Vec<_> = desired.findings.iter().filter(|finding| finding.level == Level::Error).collect();
        assert!(refused.is_empty(), "{}: {refused:?}", settings.openstack);
    }
}
