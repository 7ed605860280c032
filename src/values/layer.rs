//! Layers of values, their merge, and provenance: which layer sets a value, and which layers it overrides.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::{Path, Values, get, merge, set};

/// Where a layer of values comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A field of a file in the catalogue: `values/services/nova.yaml`, `releases.nova.values`.
    File {
        /// The path of the file below the catalogue's root.
        file: String,
        /// The field of the file that contains the values: `releases.nova.values`.
        field: String,
    },
    /// A field of the custom resource: `spec.services.nova.releases.nova.values`.
    Field(String),
    /// A key of an object that the custom resource names: `Secret openstack/nova-values, key values.yaml`.
    Object(String),
    /// Derived by osdpl from the spec. Contains a description of what was derived and why.
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
    /// Where the values come from.
    pub origin: Origin,
    /// The values of the layer. Their expressions are already evaluated.
    pub values: Values,
    /// The paths that the user removes: they are set to null after the values are merged. Each has its index in the
    /// user's list.
    pub unset: Vec<(usize, Path)>,
    /// The paths of values that must never be shown. A path covers all values below it.
    pub secret: Vec<Path>,
    /// The paths in `secret` whose values a user wrote in plain text in the spec.
    pub plain_text: Vec<Path>,
}

impl Layer {
    /// Creates a layer without secret paths and without removals.
    pub fn new(origin: Origin, values: Values) -> Self {
        Self { origin, values, unset: Vec::new(), secret: Vec::new(), plain_text: Vec::new() }
    }

    /// Whether the layer sets and removes nothing.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.unset.is_empty()
    }
}

/// Merges layers, from low to high, into the final values of a release.
pub fn merge_layers<'a>(layers: impl IntoIterator<Item = &'a Layer>) -> Values {
    let mut values = Values::new();
    layers.into_iter().for_each(|layer| merge_layer(&mut values, layer.values.clone(), &layer.unset));
    values
}

/// Does the same as [`merge_layers`], but consumes the layers.
pub fn merge_owned_layers(layers: impl IntoIterator<Item = Layer>) -> Values {
    let mut values = Values::new();
    layers.into_iter().for_each(|layer| merge_layer(&mut values, layer.values, &layer.unset));
    values
}

/// Merges the values of one layer into `values`, then sets the `unset` paths to null.
pub fn merge_layer(values: &mut Values, over: Values, unset: &[(usize, Path)]) {
    merge(values, over);
    for (_, path) in unset {
        set(values, path, Value::Null);
    }
}

/// Returns the paths whose final values must not be shown.
///
/// A value from a Secret that the spec names may be shown if a later layer overrides it with plain text. A path that
/// the catalogue marks as secret stays secret, whichever layer sets it.
pub fn secret_paths(layers: &[Layer]) -> Vec<Path> {
    let is_overridden = |(index, own): (usize, &Layer), path: &Path| {
        let is_map = get(&own.values, path).is_some_and(Value::is_object);
        let replaces = |value: &Value| !is_map || !value.is_object();
        matches!(own.origin, Origin::Object(_))
            && layers[index + 1..].iter().any(|later| get(&later.values, path).is_some_and(replaces))
    };
    let all =
        layers.iter().enumerate().flat_map(|(index, layer)| layer.secret.iter().map(move |path| (index, layer, path)));
    all.filter(|(index, layer, path)| !is_overridden((*index, *layer), path)).map(|(_, _, path)| path.clone()).collect()
}

/// Returns all paths that any layer marks as secret. osdpl hides the values at these paths in earlier revisions, too:
/// it does not know the layers of those revisions.
pub fn marked_paths(layers: &[Layer]) -> Vec<Path> {
    let all: BTreeSet<&Path> = layers.iter().flat_map(|layer| &layer.secret).collect();
    all.into_iter().cloned().collect()
}

/// The value that one layer gives a path.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerValue<'a> {
    /// Where the layer comes from.
    pub origin: &'a Origin,
    /// The value that the layer sets; `None` if it hides lower layers by setting a parent of the path to something that
    /// is no map.
    pub value: Option<Value>,
    /// Whether the value must not be shown.
    pub secret: bool,
}

/// Returns the value that each layer gives `path`, the highest layer first.
///
/// The first value wins, except that maps are merged.
pub fn trace<'a>(layers: &'a [Layer], path: &Path) -> Vec<LayerValue<'a>> {
    let layer_value = |layer: &'a Layer| {
        let secret = layer.secret.iter().any(|hidden| hidden.covers(path) || path.covers(hidden));
        if layer.unset.iter().any(|(_, unset)| unset.covers(path)) {
            return Some(LayerValue { origin: &layer.origin, value: Some(Value::Null), secret });
        }
        if let Some(value) = get(&layer.values, path) {
            return Some(LayerValue { origin: &layer.origin, value: Some(value.clone()), secret });
        }
        let hides = (1..path.keys().len()).any(|length| {
            let above: Path = path.keys()[..length].iter().cloned().collect();
            get(&layer.values, &above).is_some_and(|value| !value.is_object())
        });
        hides.then_some(LayerValue { origin: &layer.origin, value: None, secret })
    };
    layers.iter().rev().filter_map(layer_value).collect()
}
