//! A chart's key tree, made from its `values.yaml`: the keys and the types of their defaults, without the defaults.
//!
//! Written to `values/keys/<chart>.yaml` and read by the catalogue ([`KeyTree`]), so that values can be checked where no chart
//! is at hand: a map is a map of its keys, a leaf is the name of its type, and `map` is a map that is empty by default.

use serde_json::Value;

use crate::catalog::{KeyTree, KeyType};

/// The tree of a chart's default values.
pub fn tree(defaults: &Value) -> KeyTree {
    match defaults {
        Value::Object(map) if !map.is_empty() => {
            KeyTree::map(map.iter().map(|(key, value)| (key.as_str().into(), tree(value))))
        }
        leaf => KeyTree::Leaf(KeyType::of(leaf)),
    }
}

/// The text of `values/keys/<chart>.yaml`: sorted, one key a line, so that two of them differ where the charts do.
pub fn to_yaml(defaults: &Value) -> String {
    crate::yaml::write(&types(defaults))
}

/// The tree as a plain value: every leaf is the name of its type.
fn types(value: &Value) -> Value {
    match value {
        Value::Object(map) if !map.is_empty() => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), types(value))).collect())
        }
        leaf => Value::from(KeyType::of(leaf).name()),
    }
}
