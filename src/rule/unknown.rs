//! Keys that no chart knows, each by itself where it stands.

use super::{Cloud, Judged};
use crate::desired::{self, by_node};
use crate::hazard::Spot;
use crate::values::{Layer, Origin, Path};

/// Every such key; what is removed in vain is told as such.
pub(super) fn judge(cloud: &Cloud<'_>) -> Vec<Judged> {
    let mut found = Vec::new();
    for (name, layers) in cloud.layers.iter().chain(cloud.partial).filter(|(name, _)| cloud.tree(name).is_some()) {
        let chart = cloud.catalog.release(name).map_or("", |(_, release)| release.chart.as_str());
        let of_nodes = by_node(cloud.spec, name);
        let of_nodes = of_nodes.iter().map(|(_, layer)| (Spot::of_field(layer.origin.to_string()), layer));
        let own = layers.iter().filter_map(|layer| Some((cloud.spot(&layer.origin)?, layer)));
        for (spot, layer) in own.chain(of_nodes) {
            for (path, finding) in desired::unknown_keys(layer, chart, cloud.catalog) {
                let judged = unknown_key(&spot, layer, &path, finding);
                // One for all charts that take it; what someone added says something to each by itself.
                let is_of_one = matches!(layer.origin, Origin::File { .. });
                let is_same =
                    |known: &Judged| known.field == judged.field && (!is_of_one || known.message == judged.message);
                if !found.iter().any(is_same) {
                    found.push(judged);
                }
            }
        }
    }
    found
}

/// An unknown key at its place: the user's own field, or the one that takes in what someone added to the catalogue.
fn unknown_key(spot: &Spot, layer: &Layer, path: &Path, finding: desired::Finding) -> Judged {
    if let Some(stands) = spot.stands() {
        return Judged::warning("unknown-key", spot.field.clone(), format!("{stands}: {}", finding.message));
    }
    let at = layer.unset.iter().position(|unset| unset == path);
    let spot = at.map_or_else(|| spot.at(path), |index| spot.unset(index, path));
    Judged { field: spot.field, ..Judged::of("unknown-key", finding) }
}
