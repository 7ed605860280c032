//! Layers of values, the fold over them, and provenance: which layer a value came from and which it shadows.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::{Path, Values, get, merge, set};

/// Where a layer was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A file of the catalogue and what in it: `values/services/nova.yaml`, `releases.nova.values`.
    File {
        /// The file's path below the catalogue's root.
        file: String,
        /// The field in the file.
        field: String,
    },
    /// A field of the custom resource: `spec.services.nova.releases.nova.values`.
    Field(String),
    /// An object that the custom resource names: `Secret openstack/nova-values, key values.yaml`.
    Object(String),
    /// Made by the operator from the spec: what and why.
    Derived(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, field } => write!(formatter, "{file} ({field})"),
            Self::Field(text) | Self::Object(text) | Self::Derived(text) => formatter.write_str(text),
        }
    }
}

/// One layer of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Where it was written.
    pub origin: Origin,
    /// Its values, expressions already evaluated.
    pub values: Values,
    /// Paths set to null after the values, each with its place in the list that was written.
    pub unset: Vec<(usize, Path)>,
    /// Paths whose value must never be shown; a path covers all below it.
    pub secret: Vec<Path>,
    /// Those of them that hold what someone has written in clear, and no credential of the operator's.
    pub clear: Vec<Path>,
}

impl Layer {
    /// A layer without secrets and removals.
    pub fn new(origin: Origin, values: Values) -> Self {
        Self { origin, values, unset: Vec::new(), secret: Vec::new(), clear: Vec::new() }
    }

    /// Whether the layer says nothing.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.unset.is_empty()
    }
}

/// Folds layers, low to high, into final values.
pub fn fold<'a>(layers: impl IntoIterator<Item = &'a Layer>) -> Values {
    let mut values = Values::new();
    layers.into_iter().for_each(|layer| lay(&mut values, layer.values.clone(), &layer.unset));
    values
}

/// [`fold`] of layers that nobody looks at any more.
pub fn fold_up(layers: impl IntoIterator<Item = Layer>) -> Values {
    let mut values = Values::new();
    layers.into_iter().for_each(|layer| lay(&mut values, layer.values, &layer.unset));
    values
}

/// Lays the values of one layer over others, and what it sets to null over those.
pub fn lay(values: &mut Values, over: Values, unset: &[(usize, Path)]) {
    merge(values, over);
    for (_, path) in unset {
        set(values, path, Value::Null);
    }
}

/// The paths whose final value must not be shown. What comes out of an object that the user names is theirs to write over in clear; what the catalogue has for a
/// secret is one whoever says it.
pub fn secret(layers: &[Layer]) -> Vec<Path> {
    let is_over = |(place, own): (usize, &Layer), path: &Path| {
        let is_map = get(&own.values, path).is_some_and(Value::is_object);
        let replaces = |value: &Value| !is_map || !value.is_object();
        matches!(own.origin, Origin::Object(_))
            && layers[place + 1..].iter().any(|later| get(&later.values, path).is_some_and(replaces))
    };
    let all =
        layers.iter().enumerate().flat_map(|(place, layer)| layer.secret.iter().map(move |path| (place, layer, path)));
    all.filter(|(place, layer, path)| !is_over((*place, *layer), path)).map(|(_, _, path)| path.clone()).collect()
}

/// The paths that any layer marks: of what was given before, nobody knows which layer it came from.
pub fn marked(layers: &[Layer]) -> Vec<Path> {
    let all: BTreeSet<&Path> = layers.iter().flat_map(|layer| &layer.secret).collect();
    all.into_iter().cloned().collect()
}

/// What one layer says of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace<'a> {
    /// Where the layer was written.
    pub origin: &'a Origin,
    /// What it sets there; `None` where a value above the path hides all below.
    pub value: Option<Value>,
    /// Whether the value must not be shown.
    pub secret: bool,
}

/// What each layer says of `path`, highest first: the first wins, or is merged over the rest where all are maps.
pub fn trace<'a>(layers: &'a [Layer], path: &Path) -> Vec<Trace<'a>> {
    let said = |layer: &'a Layer| {
        let secret = layer.secret.iter().any(|hidden| hidden.covers(path) || path.covers(hidden));
        if layer.unset.iter().any(|(_, unset)| unset.covers(path)) {
            return Some(Trace { origin: &layer.origin, value: Some(Value::Null), secret });
        }
        if let Some(value) = get(&layer.values, path) {
            return Some(Trace { origin: &layer.origin, value: Some(value.clone()), secret });
        }
        let hides = (1..path.keys().len()).any(|length| {
            let above: Path = path.keys()[..length].iter().cloned().collect();
            get(&layer.values, &above).is_some_and(|value| !value.is_object())
        });
        hides.then_some(Trace { origin: &layer.origin, value: None, secret })
    };
    layers.iter().rev().filter_map(said).collect()
}
