//! Lint warnings about overrides that most likely do not do what they are meant for.
//!
//! Pure module. Hazards never refuse a resource. Checked are the user's layers (`spec.common`, `spec.services`, objects
//! of `valuesFrom`, and `spec.nodes.overrides`) and additions to the catalogue. Tests of the catalogue check that its
//! own layers have no hazards.

mod cloud;
mod couplings;
mod layer;
mod shape;
mod tally;

pub use cloud::{Cloud, Location, including_field, user_field};

use osdpl_core::desired::{OVERRIDES, list_node_layers};
use osdpl_core::finding::Finding;
use osdpl_values::{Layer, Origin};

/// The kind for a value whose type differs from that of the value it replaces.
pub const TYPE_CHANGED: &str = "type-changed";

/// All kinds with their descriptions.
pub const KINDS: [(&str, &str); 8] = [
    ("no-effect", "An override changes something."),
    ("preset-repeated", "An override does not repeat what a preset of the spec sets."),
    ("list-replaced", "A list that replaces another keeps all its entries: helm merges maps, never lists."),
    (TYPE_CHANGED, "An override has the type that the chart, or the layer below, has."),
    ("null-map", "A null or `unset` does not remove a map whose keys the chart's templates read."),
    ("null-nothing", "A null or `unset` removes something that is there."),
    ("contradiction", "Values that several charts must agree on are equal."),
    ("hidden-key", "A value does not hide the keys of a map below it."),
];

/// The kinds for values without effect: they are not reported if the value has an effect in any release.
const IDLE: [&str; 3] = ["no-effect", "preset-repeated", "null-nothing"];

/// Returns all hazards of a cloud.
pub fn lint_warnings(cloud: &Cloud<'_>) -> Vec<Finding> {
    let mut tally = tally::Tally::default();
    // The keys of a chart are only loaded if there are layers to check.
    let is_checked = |layers: &&Vec<Layer>| layers.iter().any(|layer| cloud.spot(&layer.origin).is_some());
    for (name, layers) in cloud.layers.iter().chain(cloud.partial).filter(|(_, layers)| is_checked(layers)) {
        let release = layer::Release { name, layers, tree: cloud.tree(name), cloud };
        layer::check(&release, &mut tally);
    }
    for (name, layers) in cloud.layers {
        check_node_overrides(cloud, name, layers, &mut tally);
    }
    let mut found = tally.hazards();
    found.extend(couplings::check(cloud));
    found.sort();
    found.dedup();
    found
}

/// Checks the values for some nodes: each entry by itself on top of the layers for all nodes.
fn check_node_overrides(cloud: &Cloud<'_>, name: &str, layers: &[Layer], tally: &mut tally::Tally) {
    let entries: Vec<Layer> = list_node_layers(cloud.spec, name).into_iter().map(|(_, layer)| layer).collect();
    if entries.is_empty() {
        return;
    }
    // That layer holds all entries at once, in the form of the chart.
    let is_every_nodes = |layer: &&Layer| layer.origin != Origin::Field(OVERRIDES.into());
    let mut layers: Vec<Layer> = layers.iter().filter(is_every_nodes).cloned().collect();
    for entry in &entries {
        layers.push(entry.clone());
        let release = layer::Release { name, layers: &layers, tree: cloud.tree(name), cloud };
        layer::check_last(&release, &entries, tally);
        layers.pop();
    }
}

#[cfg(test)]
mod tests;
