//! A chart's key tree: the keys that its `values.yaml` has, with its short defaults and the types of all others, and the keys that its templates
//! read beside those.
//!
//! Written to `values/keys/<chart>.json` and read by the catalogue ([`crate::catalog::KeyTree`]), so that values can be checked where no chart
//! is at hand: a map is a map of its keys, a list that has entries is a list of their names, numbers and booleans stand for themselves, a short text stands after `=` where it is no secret, any other leaf is the name of its type, `map` is a map that is empty by default, and `read` a key that templates
//! read and that has no default; `*` stands for any key of a map that is read whole. JSON, because no hand writes it, and reading as much YAML would
//! be most of what a command computes.

use std::cmp::Reverse;

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use super::reads::Reads;
use crate::catalog::{ANY_KEY, KeyType, READ, TEXT, entry_name, is_short};
use crate::scrub::secretive;
use crate::values::Path;

/// The text of `values/keys/<chart>.json`: sorted, one key a line, so that two of them differ where the charts do.
///
/// # Errors
/// When it is no JSON, which a tree of values always is.
pub fn to_json(defaults: &Value, reads: &Reads) -> serde_json::Result<String> {
    let mut tree = known(defaults, &Path::root());
    if !tree.is_object() {
        tree = Value::Object(Map::new());
    }
    // The deepest first: a map that is read key by key is known by its keys.
    let mut sorted: Vec<_> = reads.iter().collect();
    sorted.sort_by_key(|(path, _)| Reverse(path.len()));
    for (path, is_whole) in sorted {
        add(&mut tree, path, *is_whole);
    }
    let mut text = Vec::new();
    tree.serialize(&mut Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b" ")))?;
    text.push(b'\n');
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The tree as a plain value. The defaults of secrets are nobody's business.
fn known(value: &Value, path: &Path) -> Value {
    match value {
        Value::Object(map) if !map.is_empty() => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), known(value, &path.child(key)))).collect())
        }
        Value::Bool(_) | Value::Number(_) if !secretive(path, value) => value.clone(),
        Value::String(text) if (is_short(text) || is_image(path)) && !secretive(path, value) => {
            Value::from(format!("{TEXT}{text}"))
        }
        Value::Array(list) if !list.is_empty() => list.iter().map(entry_name).collect(),
        leaf => Value::from(KeyType::of(leaf).name()),
    }
}

/// What `spec.images` rewrites is known whole.
fn is_image(path: &Path) -> bool {
    matches!(path.keys(), [images, tags, _] if images == "images" && tags == "tags")
}

/// Adds a path that is read. Below a default that is no map, or an empty one, everything is known already.
fn add(tree: &mut Value, path: &[String], is_whole: bool) {
    let Value::Object(map) = tree else { return };
    match path {
        [] if is_whole => {
            map.entry(ANY_KEY).or_insert_with(|| READ.into());
        }
        [] => {}
        [last] if !map.contains_key(last) => {
            map.insert(last.clone(), READ.into());
        }
        [first, below @ ..] => {
            add(map.entry(first.clone()).or_insert_with(|| Value::Object(Map::new())), below, is_whole);
        }
    }
}
