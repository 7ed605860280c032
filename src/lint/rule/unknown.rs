//! Reports values whose keys do not exist in the chart.

use std::collections::BTreeSet;

use super::Cloud;
use crate::hazard::Location;
use osdpl_core::desired::{self, is_reported_per_release, list_node_layers};
use osdpl_core::finding::Finding;
use osdpl_values::{Layer, Path};

/// Returns all unknown keys, including those in `unset`.
pub(super) fn check(cloud: &Cloud<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut reported = BTreeSet::new();
    for (name, layers) in cloud.layers.iter().chain(cloud.partial).filter(|(name, _)| cloud.tree(name).is_some()) {
        let chart = cloud.catalog.release(name).map_or("", |(_, release)| release.chart.as_str());
        let of_nodes = list_node_layers(cloud.spec, name);
        let of_nodes = of_nodes.iter().map(|(_, layer)| (Location::of_field(layer.origin.to_string()), layer));
        let own = layers.iter().filter_map(|layer| Some((cloud.spot(&layer.origin)?, layer)));
        for (spot, layer) in own.chain(of_nodes) {
            // One finding covers all charts that get the value.
            let is_reported =
                |path: &Path| !is_reported_per_release(layer) && reported.contains(&place(&spot, layer, path));
            for (path, finding) in desired::find_unknown_keys(layer, chart, cloud.catalog, is_reported) {
                let judged = unknown_key(&spot, layer, &path, finding);
                if reported.insert(judged.location.field.clone())
                    || is_reported_per_release(layer) && !found.contains(&judged)
                {
                    found.push(judged);
                }
            }
        }
    }
    found
}

/// Returns the finding for an unknown key: at the user's own field, or at the one that includes what was added to the
/// catalogue.
fn unknown_key(spot: &Location, layer: &Layer, path: &Path, finding: Finding) -> Finding {
    if let Some(location) = spot.stands() {
        return Finding::warning("unknown-key", spot.field.clone(), format!("{location}: {}", finding.message));
    }
    Finding { rule: "unknown-key", ..finding.at_field(place(spot, layer, path)) }
}

/// Returns the user's own field.
fn place(spot: &Location, layer: &Layer, path: &Path) -> String {
    let removal = layer.unset.iter().find(|(_, unset)| unset == path);
    removal.map_or_else(|| spot.at(path), |(index, _)| spot.unset(*index, path)).field
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
        assert_eq!(SEARCHES.get() - before, 20, "one for each");
    }
}
