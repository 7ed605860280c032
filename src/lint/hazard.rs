//! Hazards: overrides that are carried out and most likely do not do what they are meant for.
//!
//! Pure room. A hazard is a warning and no more. Judged is what the user wrote (`spec.common`, `spec.services`, what `valuesFrom` names, and
//! `spec.nodes.overrides`) and what someone added to the catalogue; that the catalogue's own layers are without hazards is for its tests to say.

mod cloud;
mod couplings;
mod layer;
mod shape;
mod tally;

pub use cloud::{Cloud, Spot, place, taken_by};

use osdpl_core::desired::{OVERRIDES, by_node};
use osdpl_values::{Layer, Origin};

/// Something that most likely is not meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hazard {
    /// Which kind: one of [`KINDS`].
    pub kind: &'static str,
    /// The field of the resource.
    pub field: String,
    /// What is lost or contradicted, and what to do.
    pub message: String,
}

/// The kind of a value of another type than what it replaces.
pub const TYPE_CHANGED: &str = "type-changed";

/// The kinds of hazard, each with a line for people.
pub const KINDS: [(&str, &str); 8] = [
    ("no-effect", "An override changes something."),
    ("preset-repeated", "An override does not repeat what a preset of the spec sets."),
    ("list-replaced", "A list that replaces another loses none of its entries: helm merges maps, never lists."),
    (TYPE_CHANGED, "An override has the type that the chart, or the layer below, has."),
    ("null-map", "A null or `unset` takes away no map of the chart's whose keys its templates read."),
    ("null-nothing", "A null or `unset` removes something that is there."),
    ("contradiction", "What several charts must be told alike is told alike."),
    ("hidden-key", "A value does not hide the keys of a map below it."),
];

/// The kinds that say of a value that nothing comes of it: where something does somewhere, they say nothing.
const IDLE: [&str; 3] = ["no-effect", "preset-repeated", "null-nothing"];

/// Every hazard of a cloud.
pub fn hazards(cloud: &Cloud<'_>) -> Vec<Hazard> {
    let mut tally = tally::Tally::default();
    // The keys of a chart are read for those alone that somebody says something of.
    let is_judged = |layers: &&Vec<Layer>| layers.iter().any(|layer| cloud.spot(&layer.origin).is_some());
    for (name, layers) in cloud.layers.iter().chain(cloud.partial).filter(|(_, layers)| is_judged(layers)) {
        let release = layer::Release { name, layers, tree: cloud.tree(name), cloud };
        layer::judge(&release, &mut tally);
    }
    for (name, layers) in cloud.layers {
        of_nodes(cloud, name, layers, &mut tally);
    }
    let mut found = tally.hazards();
    found.extend(couplings::judge(cloud));
    found.sort();
    found.dedup();
    found
}

/// What the values for some nodes do to a release: each entry by itself over all that holds on every node.
fn of_nodes(cloud: &Cloud<'_>, name: &str, layers: &[Layer], tally: &mut tally::Tally) {
    let entries: Vec<Layer> = by_node(cloud.spec, name).into_iter().map(|(_, layer)| layer).collect();
    if entries.is_empty() {
        return;
    }
    // There they stand in the form of the chart, all at once.
    let is_every_nodes = |layer: &&Layer| layer.origin != Origin::Field(OVERRIDES.into());
    let mut layers: Vec<Layer> = layers.iter().filter(is_every_nodes).cloned().collect();
    for entry in &entries {
        layers.push(entry.clone());
        let release = layer::Release { name, layers: &layers, tree: cloud.tree(name), cloud };
        layer::judge_last(&release, &entries, tally);
        layers.pop();
    }
}

#[cfg(test)]
mod tests;
