//! The services of the whole clouds: all of the catalogue, except for those listed here with the reason.

use std::collections::BTreeSet;
use std::path::Path;

use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::{Selection, select};
use osdpl_core::placeholder;
use osdpl_lint::rule;

use super::others::{OTHERS, UNANSWERED};
use super::{WHOLE, Whole, shipped};

/// Services of upstream's charts that no cloud here has, with the reason.
const EXCLUDED: [(&str, &str); 6] = [
    ("ceph_adapter_rook", "it would write the objects that the operator writes for the Ceph that is described"),
    ("ceph_client", "a Ceph that the cloud would run itself, and it has another"),
    ("ceph_mon", "a Ceph that the cloud would run itself, and it has another"),
    ("ceph_osd", "a Ceph that the cloud would run itself, and it has another"),
    ("ceph_provisioners", "a Ceph that the cloud would run itself, and it has another"),
    ("mariadb_cluster", "mariadb-operator's releases of today have no such kind"),
];

/// Whether all releases of a service come from another project than `OpenStack-Helm`: such services have a test of
/// their own.
fn is_foreign_project(catalog: &Catalog, service: &str) -> bool {
    let releases = &catalog.services[service].releases;
    releases.values().all(|release| catalog.lock.get(&release.chart).is_some_and(|pin| pin.repository.is_some()))
}

/// Whether the whole clouds exclude a service.
pub(super) fn is_excluded(catalog: &Catalog, service: &str) -> bool {
    EXCLUDED.iter().any(|(name, _)| *name == service) || is_foreign_project(catalog, service)
}

/// Returns the services whose rights the operator's chart ships but does not grant by default.
pub(super) fn granted(services: &BTreeSet<String>) -> Vec<String> {
    let rights = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/osdpl/rbac");
    services.iter().filter(|service| rights.join(format!("{service}.yaml")).is_file()).cloned().collect()
}

fn spec(whole: &Whole, catalog: &Catalog) -> OpenStackDeploymentSpec {
    serde_json::from_value(whole.spec(catalog)).unwrap()
}

/// Returns the selection for a whole cloud.
pub(super) fn selection(whole: &Whole, catalog: &Catalog) -> Selection {
    select("cloud", "openstack", &spec(whole, catalog), catalog)
}

#[test]
fn every_service_is_included_or_excluded_with_a_reason() {
    let catalog = shipped();
    let wanted = WHOLE.iter().flat_map(|whole| selection(whole, &catalog).releases.into_keys());
    let wanted: BTreeSet<String> = wanted.filter_map(|name| Some(catalog.release(&name)?.0.to_owned())).collect();
    let alone: Vec<&str> = OTHERS.into_iter().chain(UNANSWERED).map(|(service, _)| service).collect();
    for service in catalog.services.keys() {
        let (is_wanted, is_foreign_project) = (wanted.contains(service), is_foreign_project(&catalog, service));
        let is_named = EXCLUDED.iter().any(|(name, _)| name == service);
        let places = usize::from(is_wanted) + usize::from(is_foreign_project) + usize::from(is_named);
        assert_eq!(
            places, 1,
            "{service}: in a whole cloud {is_wanted}, of others {is_foreign_project}, named {is_named}"
        );
        assert_eq!(
            is_foreign_project,
            alone.contains(&service.as_str()),
            "{service}: tests/operator/whole/others.rs names it so"
        );
    }
    let known = |name: &&str| catalog.services.contains_key(*name);
    assert!(EXCLUDED.iter().map(|(name, _)| name).chain(&alone).all(known), "a name here is no service's");
}

#[test]
fn every_openstack_release_has_a_valid_whole_cloud() {
    let catalog = shipped();
    let releases: Vec<&str> = WHOLE.iter().map(|whole| whole.openstack).collect();
    assert_eq!(releases, catalog.openstack.keys().collect::<Vec<_>>());
    for whole in &WHOLE {
        let (spec, selection) = (spec(whole, &catalog), selection(whole, &catalog));
        let facts = placeholder::facts(&catalog, &selection);
        let desired = rule::resolve(&spec, &catalog, &selection, &facts);
        let refused: Vec<_> = desired.findings.iter().filter(|finding| finding.level == Level::Error).collect();
        assert!(refused.is_empty(), "{}: {refused:?}", whole.openstack);
    }
}
