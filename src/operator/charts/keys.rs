//! Creates the key tree of a chart. The tree contains all keys of the chart's `values.yaml`, and the keys that only the
//! chart's templates read.
//!
//! osdpl writes the tree to `values/keys/<chart>.json`. The catalogue reads this file
//! ([`osdpl_core::catalog::KeyTree`]), so that osdpl can check values without the chart. The file contains:
//!
//! - for a map with entries: a map with the same keys
//! - for a list with entries: a list with a string for each entry, namely the entry itself if it is short and not
//!   secret, else a description of the entry
//! - for a number, a boolean or a short string: the default itself (a string with the prefix `=`), unless it is secret
//! - for the name of an image (`images.tags.*`): the name with the prefix `=`, even if it is long
//! - for any other default: the name of its type, such as `map` for an empty map
//! - for a key that templates read, but that has no default: the string `read`
//! - for a map that templates read as a whole: besides its keys, the key `*`, which stands for any key
//!
//! The files are JSON, because nobody edits them by hand, and parsing them as YAML would take most of a command's run
//! time.

use std::cmp::Reverse;

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use super::reads::Reads;
use osdpl_core::catalog::{ANY_KEY, KeyType, READ_MARKER, TEXT_PREFIX, entry_name, entry_shape, is_short};
use osdpl_core::scrub::is_secret_value;
use osdpl_values::Path;

/// Returns the text of `values/keys/<chart>.json`, sorted and with one key per line, so that two versions are easy to
/// compare.
///
/// # Errors
/// Returns an error if the tree cannot be written as JSON, which does not happen for a tree of values.
pub fn to_json(defaults: &Value, reads: &Reads) -> serde_json::Result<String> {
    let mut tree = describe(defaults, &Path::root());
    if !tree.is_object() {
        tree = Value::Object(Map::new());
    }
    // Add the deepest paths first: if the tree got an entry for `a` first, `a.b` could not be added below this entry.
    let mut sorted: Vec<_> = reads.iter().collect();
    sorted.sort_by_key(|(path, _)| Reverse(path.len()));
    for (path, is_whole) in sorted {
        add_read(&mut tree, path, *is_whole);
    }
    let mut text = Vec::new();
    tree.serialize(&mut Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b" ")))?;
    text.push(b'\n');
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Converts a default value of a chart, with all values below it, to a key tree. For a secret default, the tree
/// contains only the name of the default's type.
fn describe(value: &Value, path: &Path) -> Value {
    match value {
        Value::Object(map) if !map.is_empty() => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), describe(value, &path.child(key)))).collect())
        }
        Value::Bool(_) | Value::Number(_) if !is_secret_value(path, value) => value.clone(),
        Value::String(text) if is_image(path) || is_short(text) && !is_secret_value(path, value) => {
            Value::from(format!("{TEXT_PREFIX}{text}"))
        }
        Value::Array(list) if !list.is_empty() => list.iter().map(|item| describe_entry(item, path)).collect(),
        leaf => Value::from(KeyType::of(leaf).name()),
    }
}

/// Whether the value at this path is the name of an image.
///
/// osdpl needs the whole name of an image to apply `spec.images`. So the tree contains the name even if the name is
/// long, or the key looks like the key of a secret.
fn is_image(path: &Path) -> bool {
    matches!(path.keys(), [images, tags, _] if images == "images" && tags == "tags")
}

/// Returns the text with which a key tree describes an entry of a list. For a secret entry, the text names only the
/// keys or the type of the entry.
///
/// Of the keys in the list's path, only the last key can make the entry secret. For example, the entries of
/// `token.methods` are not secret, although `token` is the name of a secret.
fn describe_entry(item: &Value, path: &Path) -> String {
    let last_key = path.keys().last().map(|key| Path::root().child(key)).unwrap_or_default();
    match item {
        _ if !is_secret_value(&last_key, item) => entry_name(item),
        Value::Object(_) => entry_shape(item),
        // Do not use `entry_shape`, which shows the length of a string: even the length of a secret is secret.
        _ => KeyType::of(item).name().to_owned(),
    }
}

/// Adds `path`, which templates read, to the tree. Skips a path such as `a.b` if the default of `a` is not a map.
///
/// If templates read the value at `path` as a whole (`is_whole`), and its default is a map with entries, the function
/// adds the key `*` to this map.
fn add_read(tree: &mut Value, path: &[String], is_whole: bool) {
    let Value::Object(map) = tree else { return };
    match path {
        [] if is_whole => {
            map.entry(ANY_KEY).or_insert_with(|| READ_MARKER.into());
        }
        [] => {}
        [last] if !map.contains_key(last) => {
            map.insert(last.clone(), READ_MARKER.into());
        }
        [first, rest @ ..] => {
            add_read(map.entry(first.clone()).or_insert_with(|| Value::Object(Map::new())), rest, is_whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn omits_secret_defaults_in_maps_and_lists() {
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
