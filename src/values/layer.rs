//! Merges layers of values, and finds the provenance of a value: which layer sets the value, and which values of lower
//! layers this layer overrides.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::{Path, Values, get, merge, set};
use crate::CollectSorted;

/// The origin of a layer of values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A field of a file in the catalogue, such as `releases.nova.values` in `values/services/nova.yaml`.
    File {
        /// The path of the file below the catalogue's root, such as `values/services/nova.yaml`.
        file: String,
        /// The field that contains the values, such as `releases.nova.values`.
        field: String,
    },
    /// A field of the custom resource, such as `spec.services.nova.releases.nova.values`.
    Field(String),
    /// A key of an object that the custom resource names, such as `Secret openstack/nova-values, key values.yaml`.
    Object(String),
    /// Values that osdpl derived from the spec. The text describes what osdpl derived, and why.
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
    /// The origin of the values.
    pub origin: Origin,
    /// The values of the layer. Expressions are already replaced by their results.
    pub values: Values,
    /// The paths in the list `unset` of the spec or of a catalogue file, each with its index in that list. After the
    /// merge of `values`, [`merge_layer`] sets these paths to null, so that helm removes the chart's defaults there.
    pub unset: Vec<(usize, Path)>,
    /// The paths of values that osdpl must never show. If a path leads to a map, osdpl hides all values in the map.
    pub secret: Vec<Path>,
    /// The paths in `secret` whose values a user wrote in plain text in the spec.
    pub plain_text: Vec<Path>,
}

impl Layer {
    /// Creates a layer with these values, without secret paths and without `unset` paths.
    pub fn new(origin: Origin, values: Values) -> Self {
        Self { origin, values, unset: Vec::new(), secret: Vec::new(), plain_text: Vec::new() }
    }

    /// Whether the layer has no effect: it sets no values, and has no `unset` paths.
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

/// Merges layers like [`merge_layers`], but moves their values into the result instead of copying them.
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

/// Returns the paths whose final values osdpl must not show.
///
/// The result contains each path that any layer marks as secret, even if a higher layer overrides the value at the
/// path. There is one exception: a mark in a layer from a Secret or ConfigMap that the spec names does not count if a
/// higher layer overrides the value.
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

/// Returns all paths that any layer marks as secret.
///
/// osdpl hides all these paths in the values of earlier revisions of the release, because it does not know from which
/// layers an earlier revision was made.
pub fn marked_paths(layers: &[Layer]) -> Vec<Path> {
    let all: BTreeSet<&Path> = layers.iter().flat_map(|layer| &layer.secret).collect_set();
    all.into_iter().cloned().collect()
}

/// The value that one layer sets at a path.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerValue<'a> {
    /// The origin of the layer.
    pub origin: &'a Origin,
    /// The value that the layer sets at the path. `None` if the layer sets a parent of the path to a scalar, list or
    /// null. In this case, the merge drops the values that lower layers set at the path.
    pub value: Option<Value>,
    /// Whether osdpl must not show the value.
    pub secret: bool,
}

/// Returns the value that each layer sets at `path`, the highest layer first.
///
/// The first result is the final value of the release, unless it is a map: the merge combines the maps of all layers.
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
