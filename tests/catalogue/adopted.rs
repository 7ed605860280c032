//! A cloud that runs is described by the presets and features of the shipped catalogue that made it.

use osdpl::adopt::{Cloud, Found, known};
use osdpl::api::OpenStackDeploymentSpec;
use osdpl::desired::{Facts, Selection};
use osdpl::release::{Chart, Source};
use osdpl::rule::made_up;
use osdpl::values::Values;
use serde_json::json;

use crate::clouds::{catalogue, resolved};

#[test]
fn presets_and_features_are_found_again_in_the_values_that_they_set() {
    let catalog = catalogue();
    let features = json!({"network": {"backend": "ovn"}});
    let spec = json!({"openstackRelease": "2026.1", "presets": ["core"], "region": "R2", "features": features});
    let desired = resolved(&catalog, &spec);
    let found = desired.releases.values().map(|release| {
        let version = catalog.lock[&release.chart].version.clone();
        let chart = Chart { name: release.chart.clone(), version, app_version: String::new() };
        let source = Source { config: release.values.clone(), chart, defaults: Values::new(), imprint: String::new() };
        Found::new(release.key.clone(), 1, source)
    });
    let found: Vec<Found> = found.collect();
    let known = known(&found, &catalog);
    let invent = |selection: &Selection| -> Facts { made_up(&catalog, selection) };
    let described: OpenStackDeploymentSpec =
        Cloud::new(("cloud", "openstack"), &known, &catalog, &invent).describe().spec;
    assert_eq!(described.presets, ["core"]);
    assert_eq!((described.region.as_deref(), described.openstack_release.as_str()), (Some("R2"), "2026.1"));
    assert_eq!(described.features.get("network"), Some(&features["network"]));
}
