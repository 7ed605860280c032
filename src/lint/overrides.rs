//! Warns about overrides that most likely do not have the intended effect.
//!
//! Pure module. These warnings never refuse a resource. The module checks the user's layers (`spec.common`,
//! `spec.services`, objects of `valuesFrom`, and `spec.nodes.overrides`) and additions to the catalogue, but not the
//! catalogue's own layers.

mod couplings;
mod layer;
mod option_value;
mod options;
mod types;
mod warnings;

pub use options::{OptionProblem, find_option_problems};

use osdpl_core::desired::{OVERRIDES, list_node_layers};
use osdpl_core::finding::Finding;
use osdpl_values::{Layer, Origin};

use crate::cloud::Cloud;
use warnings::Warnings;

/// The kind of warning about a value whose type differs from the type of the value that it replaces.
pub(crate) const TYPE_CHANGED: &str = "type-changed";
/// The kind of warning about a value that replaces a map, and so hides the map's keys.
const HIDDEN_KEY: &str = "hidden-key";
/// The kind of warning about a value that the service can't read.
const OPTION_VALUE: &str = "option-value";

/// The kinds of warnings, each with a sentence that states what must hold, not what is wrong. A finding of the kind
/// reports the opposite of the sentence. For example, the sentence of `no-effect` says that an override changes a
/// value, and a finding of the kind `no-effect` reports an override that does not change the value.
pub(crate) const KINDS: [(&str, &str); 11] = [
    ("no-effect", "An override changes the value that the chart or a lower layer sets."),
    ("preset-repeated", "An override does not repeat a value that a preset of the spec sets."),
    ("list-replaced", "A list repeats the entries of the list that it replaces, because helm does not merge lists."),
    (TYPE_CHANGED, "An override has the same type as the value that it replaces."),
    ("null-map", "A null or `unset` does not remove a map whose keys the chart's templates read."),
    ("null-nothing", "A null or `unset` removes a key that the chart or a lower layer has."),
    ("contradiction", "A value that must be the same in several charts is the same in all of them."),
    (HIDDEN_KEY, "An override that replaces a map is also a map, because another value would hide the map's keys."),
    (options::UNKNOWN_OPTION, "The service has the option in the OpenStack release of the cloud."),
    (OPTION_VALUE, "The service can read the value of an option."),
    (options::DEPRECATED_OPTION, "The service does not deprecate the option."),
];

/// Returns all warnings about the overrides of a cloud.
pub(crate) fn check(cloud: &Cloud<'_>) -> Vec<Finding> {
    let (mut warnings, search) = (Warnings::default(), options::Search::default());
    // Skip releases without a layer that this check covers, so that osdpl does not load the keys of their charts for
    // nothing.
    let has_checked_layer =
        |layers: &Vec<Layer>| layers.iter().any(|layer| cloud.layer_location(&layer.origin).is_some());
    for (name, layers) in cloud.layers.iter().chain(cloud.partial).filter(|(_, layers)| has_checked_layer(layers)) {
        let release = layer::Release { name, layers, chart_keys: cloud.chart_keys(name), cloud };
        layer::check(&release, &mut warnings);
        options::check(cloud, name, layers, &search, &mut warnings);
    }
    for (name, layers) in cloud.layers {
        check_node_overrides(cloud, name, layers, &search, &mut warnings);
    }
    let mut found = warnings.findings();
    found.extend(couplings::check(cloud));
    found.sort();
    found.dedup();
    found
}

/// Checks the values that each entry of `spec.nodes.overrides` sets for a release.
///
/// The function checks each entry alone, as the highest layer of the release.
fn check_node_overrides(
    cloud: &Cloud<'_>,
    name: &str,
    layers: &[Layer],
    search: &options::Search,
    warnings: &mut Warnings,
) {
    let entries: Vec<Layer> = list_node_layers(cloud.spec, name).into_iter().map(|(_, layer)| layer).collect();
    if entries.is_empty() {
        return;
    }
    // `layers` contains one layer that combines all entries of `spec.nodes.overrides`. Leave out this layer, because
    // the loop below adds each entry as a separate layer.
    let is_for_all_nodes = |layer: &&Layer| layer.origin != Origin::Field(OVERRIDES.into());
    let mut layers: Vec<Layer> = layers.iter().filter(is_for_all_nodes).cloned().collect();
    for entry in &entries {
        layers.push(entry.clone());
        let release = layer::Release { name, layers: &layers, chart_keys: cloud.chart_keys(name), cloud };
        layer::check_node_layer(&release, &entries, warnings);
        layers.pop();
    }
    options::check_node_layers(cloud, name, &entries, search, warnings);
}

#[cfg(test)]
mod tests;
