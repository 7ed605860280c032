//! A chart's key tree: the keys that its `values.yaml` has, with its short defaults and the types of all others, and the keys that its templates
//! read beside those.
//!
//! Written to `values/keys/<chart>.json` and read by the catalogue ([`osdpl_core::catalog::KeyTree`]), so that values can be checked where no chart
//! is at hand: a map is a map of its keys, a list that has entries is a list of their names, numbers and booleans stand for themselves, a short text stands after `=` where it is no secret, any other leaf is the name of its type, `map` is a map that is empty by default, and `read` a key that templates
//! read and that has no default; `*` stands for any key of a map that is read whole. JSON, because no hand writes it, and reading as much YAML would
//! be most of what a command computes.

use std::cmp::Reverse;

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use super::reads::Reads;
use osdpl_core::catalog::{ANY_KEY, KeyType, READ, TEXT, entry_name, entry_shape, is_short};
use osdpl_core::scrub::secretive;
use osdpl_values::Path;

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
        Value::String(text) if is_image(path) || is_short(text) && !secretive(path, value) => {
            Value::from(format!("{TEXT}{text}"))
        }
        Value::Array(list) if !list.is_empty() => list.iter().map(|item| entry(item, path)).collect(),
        leaf => Value::from(KeyType::of(leaf).name()),
    }
}

/// What `spec.images` rewrites is known whole, and is no secret, though it be that of a Job for credentials.
fn is_image(path: &Path) -> bool {
    matches!(path.keys(), [images, tags, _] if images == "images" && tags == "tags")
}

/// An entry of a list, without what it says where that is secret; that a key far above only sounds like a secret is no reason.
fn entry(item: &Value, path: &Path) -> String {
    let own = path.keys().last().map(|key| Path::root().child(key)).unwrap_or_default();
    match item {
        _ if !secretive(&own, item) => entry_name(item),
        Value::Object(_) => entry_shape(item),
        // Not even how long it is.
        _ => KeyType::of(item).name().to_owned(),
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_secret_is_by_default_is_not_written_down_in_a_list_either() {
        let defaults = json!({
            "auth": {"tmpurlkey": "hunter2", "access_key": "hunter2", "region": "x"},
            "users": [{"name": "x", "password": "hunter2"}, {"name": "y"}],
            "passwords": ["hunter2"],
            "token": {"methods": ["password", "token"]},
            "script": ["--password=hunter2"],
        });
        let text = to_json(&defaults, &Reads::default()).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
        let tree: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(tree["auth"], json!({"tmpurlkey": "string", "access_key": "string", "region": "=x"}));
        assert_eq!(tree["users"], json!(["a map of name, password", "{\"name\":\"y\"}"]));
        assert_eq!(tree["token"]["methods"], json!(["password", "token"]));
        assert_eq!(tree["script"], json!(["string"]));
    }
}
