//! Works with the values of helm charts: merging, YAML, CEL expressions and digests. Pure crate (no I/O).
//!
//! Merging combines maps, and replaces lists and scalars. It keeps a null that a layer sets, because this null makes
//! helm remove the chart's default (`pkg/chart/common/util/coalesce.go`). Layers must be merged one by one, from low to
//! high: if a key is a map in some layers and a scalar in others, another order gives another result.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start programs, read files and look at the clock"))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(unreachable_pub)]

mod canonical;
mod coalesce;
mod collect;
pub mod expr;
mod layer;
mod nesting;
mod path;
mod text;
pub mod yaml;

pub use canonical::{Digest, canonical, canonical_map, digest, sha256};
pub use coalesce::{coalesce, normalize_numbers, remove_nulls};
pub use collect::CollectSorted;
pub use layer::{
    Layer, LayerValue, Origin, marked_paths, merge_layer, merge_layers, merge_owned_layers, secret_paths, trace,
};
pub use nesting::json_too_deep;
pub use path::{Path, PathError};
pub use text::{plain_text, print_large_number};

use serde_json::{Map, Value};

/// A map of values, such as the content of a chart's `values.yaml`.
pub type Values = Map<String, Value>;

/// Merges `over` into `base` by helm's rules: combines maps, and replaces other values of `base` with those of `over`.
/// The result keeps the nulls in `over`.
pub fn merge(base: &mut Values, over: Values) {
    if base.is_empty() {
        *base = over;
        return;
    }
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge(below, above),
            (Some(below), value) => *below = value,
            (None, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Returns the value at `path`; `None` if `values` has no value there.
pub fn get<'a>(values: &'a Values, path: &Path) -> Option<&'a Value> {
    let (last, parents) = path.keys().split_last()?;
    let mut map = values;
    for key in parents {
        map = map.get(key)?.as_object()?;
    }
    map.get(last)
}

/// Sets the value at `path`, and creates missing maps above it.
///
/// If a parent of the path is not a map, a map replaces this parent.
pub fn set(values: &mut Values, path: &Path, value: Value) {
    let Some((last, parents)) = path.keys().split_last() else { return };
    let mut map = values;
    for key in parents {
        let slot = map.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
        if !slot.is_object() {
            *slot = Value::Object(Map::new());
        }
        let Value::Object(next) = slot else { return };
        map = next;
    }
    map.insert(last.clone(), value);
}

/// Removes the value at a path. Then removes each parent map of the value that has become empty.
pub fn remove(values: &mut Values, path: &Path) {
    remove_below(values, path.keys());
}

fn remove_below(values: &mut Values, keys: &[String]) {
    let Some((key, below)) = keys.split_first() else { return };
    if below.is_empty() {
        values.remove(key);
    } else if let Some(map) = values.get_mut(key).and_then(Value::as_object_mut) {
        remove_below(map, below);
        if map.is_empty() {
            values.remove(key);
        }
    }
}

/// Returns every leaf (scalar, list, null or empty map) with its path, sorted by path.
pub fn leaves(values: &Values) -> Vec<(Path, &Value)> {
    leaves_with_key(values, |_| true)
}

/// Returns the leaves with their paths, sorted by path. Leaves out a leaf if `has_key` rejects the last key of its
/// path.
pub fn leaves_with_key(values: &Values, has_key: impl Fn(&str) -> bool) -> Vec<(Path, &Value)> {
    type Found<'a> = Vec<(Path, &'a Value)>;
    fn walk<'a>(map: &'a Values, above: &mut Vec<&'a str>, has_key: &impl Fn(&str) -> bool, found: &mut Found<'a>) {
        for (key, value) in map {
            above.push(key);
            match value {
                Value::Object(map) if !map.is_empty() => walk(map, above, has_key, found),
                leaf if has_key(key) => found.push((above.iter().copied().collect(), leaf)),
                _ => {}
            }
            above.pop();
        }
    }
    let mut found = Vec::new();
    walk(values, &mut Vec::new(), &has_key, &mut found);
    found
}

/// Returns the sorted paths of all leaves that differ between the values `before` and `after`.
pub fn changed_paths(before: &Values, after: &Values) -> Vec<Path> {
    let paths: std::collections::BTreeSet<Path> =
        leaves(before).into_iter().chain(leaves(after)).map(|(path, _)| path).collect_set();
    paths.into_iter().filter(|path| get(before, path) != get(after, path)).collect()
}

#[cfg(test)]
mod tests;
