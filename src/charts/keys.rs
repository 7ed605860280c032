//! A chart's key tree, made from its `values.yaml`: the keys and the types of their defaults, without the defaults.
//!
//! Written to `values/keys/<chart>.json` and read by the catalogue ([`KeyTree`]), so that values can be checked where no chart
//! is at hand: a map is a map of its keys, a leaf is the name of its type, and `map` is a map that is empty by default. JSON, because no hand
//! writes it, and reading as much YAML would be most of what a command computes.

use serde::Serialize;

use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

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

/// The text of `values/keys/<chart>.json`: sorted, one key a line, so that two of them differ where the charts do.
///
/// # Errors
/// When it is no JSON, which a tree of values always is.
pub fn to_json(defaults: &Value) -> serde_json::Result<String> {
    let mut text = Vec::new();
    types(defaults).serialize(&mut Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b" ")))?;
    text.push(b'\n');
    Ok(String::from_utf8_lossy(&text).into_owned())
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
