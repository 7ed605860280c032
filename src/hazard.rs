//! Hazards: overrides that are carried out and most likely do not do what they are meant for.
//!
//! Pure room. A hazard is a warning and no more. Only what the user wrote is judged ([`crate::values::Origin::Field`] of `spec.common` and `spec.services`, and
//! [`crate::values::Origin::Object`]); that the catalogue's own layers are without hazards is for its tests to say.

mod cloud;
mod couplings;
mod layer;
mod shape;
mod tally;

pub use cloud::{Cloud, place};

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

/// The kinds of hazard, each with a line for people.
pub const KINDS: [(&str, &str); 8] = [
    ("no-effect", "An override changes something."),
    ("preset-repeated", "An override does not repeat what a preset of the spec sets."),
    ("list-replaced", "A list that replaces another loses none of its entries: helm merges maps, never lists."),
    ("type-changed", "An override has the type that the chart, or the layer below, has."),
    ("null-map", "A null or `unset` takes away no map of the chart's whose keys its templates read."),
    ("null-nothing", "A null or `unset` removes something that is there."),
    ("contradiction", "What several charts must be told alike is told alike."),
    ("hidden-key", "A value does not hide the keys of a map below it."),
];

/// Every hazard of a cloud.
pub fn hazards(cloud: &Cloud<'_>) -> Vec<Hazard> {
    let mut tally = tally::Tally::default();
    // The keys of a chart are read for those alone that the user says something of.
    let users = |layers: &&Vec<crate::values::Layer>| layers.iter().any(|layer| place(&layer.origin).is_some());
    for (name, layers) in cloud.layers.iter().chain(cloud.partial).filter(|(_, layers)| users(layers)) {
        let release = layer::Release { name, layers, tree: cloud.tree(name), cloud };
        layer::judge(&release, &mut tally);
    }
    let mut found = tally.hazards();
    found.extend(couplings::judge(cloud));
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests;
