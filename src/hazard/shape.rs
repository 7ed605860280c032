//! Values of another kind than what they replace.

use serde_json::Value;

use super::tally::Said;
use crate::catalog::{KeyTree, KeyType};
use crate::values::Path;

/// How many entries of a list are named.
const NAMED: usize = 5;

/// Whether `value` is of another kind than `holds`, the value below, or than the chart's own default.
pub fn changed(path: &Path, value: &Value, holds: Option<&Value>, tree: Option<&KeyTree>) -> Option<Said> {
    let known = tree.and_then(|tree| tree.find(path.keys()));
    let before = match (holds, known) {
        (Some(holds), _) => KeyType::of(holds),
        (None, Some(KeyTree::Map(_))) => KeyType::Map,
        (None, Some(KeyTree::Leaf(kind))) => *kind,
        (None, None | Some(KeyTree::Read)) => return None,
    };
    let after = KeyType::of(value);
    let is_file = path.keys().first().is_some_and(|key| key == "conf");
    if is_file && is_many(value) || !differ(before, after, is_file) {
        return None;
    }
    let whose = if holds.is_some() { "the layers below give" } else { "the chart has" };
    if before == KeyType::Map {
        let keys: Vec<String> = match (holds, known) {
            (Some(Value::Object(map)), _) => map.keys().cloned().collect(),
            (_, Some(KeyTree::Map(map))) => {
                map.iter().filter(|(_, tree)| tree.has_default()).map(|(key, _)| key.to_string()).collect()
            }
            _ => Vec::new(),
        };
        let keys: Vec<Value> = keys.into_iter().map(Value::from).collect();
        let lost = if keys.is_empty() {
            String::new()
        } else {
            format!(", and hides its keys {}", few(&keys.iter().collect::<Vec<_>>()))
        };
        let message = format!("is a {} where {whose} a map{lost}; write a map", after.name());
        return Some(Said { kind: if keys.is_empty() { "type-changed" } else { "hidden-key" }, message });
    }
    let hint = match (before, value) {
        (KeyType::Boolean, Value::String(_)) => ": in a template every text but an empty one is true",
        (KeyType::String, Value::Bool(_)) => ": YAML reads yes, no, on and off as booleans",
        _ => "",
    };
    let message = format!("is a {} where {whose} a {}{hint}; write a {}", after.name(), before.name(), before.name());
    Some(Said { kind: "type-changed", message })
}

/// Whether one kind of value in place of another is a change of more than writing. A file's settings end as text, whatever they are.
fn differ(before: KeyType, after: KeyType, is_file: bool) -> bool {
    use KeyType::{Boolean, List, Map, Null, Number, String};
    match (before, after) {
        (Null, _) | (_, Null) | (Map, Map) | (List, List) | (Boolean, Boolean) | (String | Number, String | Number) => {
            false
        }
        (Boolean, String | Number) | (String | Number, Boolean) => !is_file,
        (Map | List, _) | (_, Map | List) => true,
    }
}

/// How charts write an option of a file that stands there more than once, or a list of one: `{type: multistring, values: [...]}` (helm-toolkit's
/// `to_oslo_conf`).
fn is_many(value: &Value) -> bool {
    value.get("type").is_some() && value.get("values").is_some()
}

/// Some values for people.
pub fn few(values: &[&Value]) -> String {
    let word = |value: &&Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let names: Vec<String> = values.iter().take(NAMED).map(word).collect();
    let more = values.len().saturating_sub(NAMED);
    if more == 0 { names.join(", ") } else { format!("{} and {more} more", names.join(", ")) }
}
