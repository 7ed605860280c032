//! Checks that `osdpl adopt` detects the presets and features with which a running cloud was created, and writes a spec
//! that keeps every setting of this cloud.

use std::collections::BTreeMap;
use std::path::Path;

use osdpl_core::adopt::{
    CephDeclaration, CephState, CloudInventory, Description, IdentifiedReleases, InstalledRelease, find_ceph_uses,
    identify_releases,
};
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::ceph::example;
use osdpl_core::desired::{Desired, Facts, Selection};
use osdpl_core::observed::ComparisonResult;
use osdpl_core::placeholder;
use osdpl_core::release::{Chart, RevisionSource};
use osdpl_values::Values;
use serde::Deserialize;
use serde_json::Value;

use crate::clouds::{catalogue, resolved_installed};

/// A cloud, and the expected content of the spec that `osdpl adopt` writes for it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    cloud: String,
    spec: Value,
    /// The baseline of the cloud's releases; 0 for a cloud that another tool installed.
    #[serde(default)]
    baseline: u32,
    /// The presets and features that the spec written by `osdpl adopt` must contain.
    found: Value,
    /// The paths of the values that the spec written by `osdpl adopt` must override, by release.
    #[serde(default)]
    own: BTreeMap<String, Vec<String>>,
}

fn rows() -> Vec<Row> {
    osdpl_values::yaml::parse("adopted.yaml", include_str!("adopted.yaml")).unwrap()
}

/// Returns the default values of the chart in `tests/charts`; empty if `tests/charts` does not have the chart.
fn defaults(chart: &str) -> Values {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/charts/{chart}/values.yaml"));
    let text = std::fs::read_to_string(file).unwrap_or_else(|_| "{}".into());
    osdpl_values::yaml::parse("values.yaml", &text).unwrap()
}

/// Returns the releases of a cloud as helm would record them if they were installed.
fn recorded(catalog: &Catalog, desired: &Desired) -> Vec<InstalledRelease> {
    let found = desired.releases.values().map(|release| {
        let version = catalog.lock.get(&release.chart).map(|pin| pin.version.clone()).unwrap_or_default();
        let chart = Chart { name: release.chart.clone(), version, app_version: String::new() };
        let defaults = defaults(&release.chart);
        let source = RevisionSource { config: release.values.clone(), chart, defaults, fingerprint: String::new() };
        InstalledRelease::new(release.key.clone(), 1, source)
    });
    found.collect()
}

/// Returns a declaration of the Ceph that the releases use, with the keys and monitors of [`example`]; `None` if the
/// releases use no Ceph.
fn storage(known: &IdentifiedReleases<'_>) -> Option<CephDeclaration> {
    let uses = find_ceph_uses(known)?;
    let ceph = example();
    let mounted = uses.consumers.iter().filter(|(_, own)| own.keyring.is_some());
    let keys = mounted.map(|(consumer, _)| (*consumer, ceph.users[consumer].key.reveal().to_owned())).collect();
    let configuration = format!("[global]\nfsid = {}\nmon_host = {}\n", ceph.fsid.as_deref().unwrap(), ceph.monitors);
    let answers = CephState { configuration: Some(configuration), keys, ..CephState::default() };
    let names = known.releases.keys().map(String::as_str);
    Some(
        uses.storage(&answers, "openstack", "cloud-adopted-ceph", names)
            .unwrap_or_else(|lacking| panic!("{lacking:?}")),
    )
}

fn described(catalog: &Catalog, found: &[InstalledRelease], spec: &Value) -> Description {
    let known = identify_releases(found, catalog);
    assert!(known.unknown.is_empty(), "{:?}", known.unknown);
    // Declare a Ceph only if the cloud's spec declares one. The values of the releases do not show whether a cloud uses
    // Ceph, because the default values of the charts contain settings for Ceph, too.
    let storage = spec["features"]["storage"]["ceph"].is_object().then(|| storage(&known)).flatten();
    let provide_facts = |selection: &Selection| -> Facts { placeholder::facts(catalog, selection) };
    CloudInventory::new("openstack", "cloud", &known, catalog, &provide_facts).with_storage(storage.as_ref()).describe()
}

/// Returns the paths of the values that the spec written by `osdpl adopt` overrides, by release. A path that the spec
/// unsets begins with `-`.
fn own(description: &Description) -> BTreeMap<String, Vec<String>> {
    let releases = description.spec.services.values().flat_map(|service| &service.releases);
    let paths = releases.map(|(name, own)| {
        let set = osdpl_values::leaves(&own.overrides.values).into_iter().map(|(path, _)| path.to_string());
        (name.clone(), set.chain(own.overrides.unset.iter().map(|path| format!("-{path}"))).collect::<Vec<_>>())
    });
    paths.filter(|(_, paths)| !paths.is_empty()).collect()
}

fn check(catalog: &Catalog, row: &Row) {
    let cloud = &row.cloud;
    let desired = resolved_installed(catalog, &row.spec, row.baseline);
    let found = recorded(catalog, &desired);
    let description = described(catalog, &found, &row.spec);
    let names = |releases: &mut dyn Iterator<Item = &String>| releases.cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&mut description.wanted.keys()),
        names(&mut desired.releases.keys()),
        "{cloud}: the spec from `osdpl adopt` must install exactly the running releases"
    );
    assert_eq!(description.installs, [""; 0], "{cloud}");
    for name in desired.releases.keys() {
        let result = description.compared.get(name).map(|compared| &compared.result);
        assert_eq!(result, Some(&ComparisonResult::Same), "{cloud}: {name}");
    }
    let errors = description.findings.iter().filter(|finding| finding.level == Level::Error);
    assert_eq!(errors.map(ToString::to_string).collect::<Vec<_>>(), [""; 0], "{cloud}");
    let spec = serde_json::to_value(&description.spec).unwrap();
    let field_of = |field: &str| spec.get(field).cloned().unwrap_or_default();
    assert_eq!(description.spec.openstack_release, row.spec["openstackRelease"], "{cloud}");
    for (field, value) in row.found.as_object().unwrap() {
        assert_eq!(&field_of(field), value, "{cloud}: {field}");
    }
    assert_eq!(own(&description), row.own, "{cloud}");
}

#[test]
fn description_of_each_cloud_changes_nothing() {
    let catalog = catalogue();
    let rows = rows();
    std::thread::scope(|scope| {
        let checks: Vec<_> = rows.iter().map(|row| scope.spawn(|| check(catalog, row))).collect();
        for check in checks {
            check.join().unwrap();
        }
    });
}
