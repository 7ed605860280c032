//! Reports keys that a user or an addition to the catalogue sets (`values`) or removes (`unset`), but that the chart of
//! the release does not have.

use std::collections::BTreeSet;

use crate::cloud::Cloud;
use crate::cloud::Location;
use osdpl_core::desired::{self, is_reported_per_release, list_node_layers};
use osdpl_core::finding::Finding;
use osdpl_values::{Layer, Path};

/// Returns a finding for each key that a user or an addition to the catalogue sets or removes, but that the release's
/// chart does not have.
pub(super) fn check(cloud: &Cloud<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut reported = BTreeSet::new();
    for (name, layers) in cloud.layers.iter().chain(cloud.partial).filter(|(name, _)| cloud.knows_chart_keys(name)) {
        let chart = cloud.catalog.release(name).map_or("", |(_, release)| release.chart.as_str());
        let of_nodes = list_node_layers(cloud.spec, name);
        let of_nodes = of_nodes.iter().map(|(_, layer)| (Location::of_field(layer.origin.to_string()), layer));
        let own = layers.iter().filter_map(|layer| Some((cloud.layer_location(&layer.origin)?, layer)));
        for (location, layer) in own.chain(of_nodes) {
            // If the same key is unknown in several charts, report the key only once. But report a key in an addition
            // for each release, because an addition can set different values for each release.
            let is_reported =
                |path: &Path| !is_reported_per_release(layer) && reported.contains(&field(&location, layer, path));
            for (path, finding) in desired::find_unknown_keys(layer, chart, cloud.catalog, is_reported) {
                let finding = unknown_key(&location, layer, &path, finding);
                if reported.insert(finding.field().to_owned())
                    || is_reported_per_release(layer) && !found.contains(&finding)
                {
                    found.push(finding);
                }
            }
        }
    }
    found
}

/// Returns the finding about an unknown key.
///
/// The finding names the field of the user's value. If an addition to the catalogue sets the value, the finding names
/// the field of the spec that selects the addition.
fn unknown_key(location: &Location, layer: &Layer, path: &Path, finding: Finding) -> Finding {
    if let Some(addition) = location.addition() {
        return Finding::warning("unknown-key", location.field.clone(), format!("{addition}: {}", finding.text()));
    }
    Finding { rule: "unknown-key", ..finding.at_field(field(location, layer, path)) }
}

/// Returns the field of the spec in which the user wrote the key at `path`: an entry of `unset`, or a key in `values`.
fn field(location: &Location, layer: &Layer, path: &Path) -> String {
    let unset = layer.unset.iter().find(|(_, unset)| unset == path);
    unset.map_or_else(|| location.child(path), |(index, _)| location.unset_entry(*index, path)).field
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use osdpl_core::catalog::{Catalog, SEARCHES};
    use osdpl_core::desired::{Facts, select};
    use osdpl_core::testing::files;

    #[test]
    fn searches_similar_names_once_per_finding() {
        let keys = [("values/keys/store.yaml", "{auth: {admin: string}, size: string}")];
        let catalog = Catalog::load(&files(&keys)).unwrap();
        let values = (0..20).map(|number| (format!("nothing{number}"), json!(1)));
        let values: serde_json::Map<_, _> = values.chain([("size".to_owned(), json!("1Gi"))]).collect();
        let spec = json!({"openstackRelease": "2026.1", "presets": ["small"], "common": {"values": values}});
        let spec = serde_json::from_value(spec).unwrap();
        let selection = select("cloud", "openstack", &spec, &catalog);
        let before = SEARCHES.get();
        let desired = crate::Input::of_spec(&spec, &catalog).resolve(&selection, &Facts::default());
        let found =
            desired.findings.iter().filter(|finding| finding.location.field.starts_with("spec.common.values.nothing"));
        assert_eq!(found.count(), 20, "{:?}", desired.findings);
        assert_eq!(SEARCHES.get() - before, 20, "osdpl searches for similar names only once per finding");
    }
}
