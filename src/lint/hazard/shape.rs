//! Values of another kind than what they replace.

use serde_json::Value;

use super::TYPE_CHANGED;
use super::tally::Said;
use osdpl_core::catalog::{KeyTree, KeyType};
use osdpl_values::Path;

/// How many entries of a list are named.
const NAMED: usize = 5;

/// Whether `value` is of another kind than `holds`, the value below, or than the chart's own default.
pub fn changed(path: &Path, value: &Value, holds: Option<&Value>, tree: Option<&KeyTree>) -> Option<Said> {
    let known = tree.and_then(|tree| tree.find(path.keys()));
    let before = holds.map(KeyType::of).or_else(|| known?.kind())?;
    if before == KeyType::Number && path.keys().first().is_some_and(|key| key != "conf") && is_word(value) {
        // The value itself may come out of a Secret.
        let message = format!("is a text where {} a number; write a number", whose(holds));
        return Some(Said { kind: TYPE_CHANGED, message });
    }
    let after = KeyType::of(value);
    let is_file = path.keys().first().is_some_and(|key| key == "conf");
    if is_file && is_many(value) || !differ(before, after, is_file) {
        return None;
    }
    let whose = whose(holds);
    if before == KeyType::Map {
        let keys: Vec<String> = match (holds, known) {
            (Some(Value::Object(map)), _) => map.keys().cloned().collect(),
            (_, Some(KeyTree::Map(map))) => {
                map.iter().filter(|(_, tree)| tree.has_default()).map(|(key, _)| key.to_string()).collect()
            }
            _ => Vec::new(),
        };
        let lost = if keys.is_empty() { String::new() } else { format!(", and hides its keys {}", few(&keys)) };
        let message = format!("is a {} where {whose} a map{lost}; write a map", after.name());
        return Some(Said { kind: if keys.is_empty() { TYPE_CHANGED } else { "hidden-key" }, message });
    }
    let hint = match (before, value) {
        (KeyType::Boolean, Value::String(_)) => ": in a template every text but an empty one is true",
        (KeyType::String, Value::Bool(_)) => ": YAML reads yes, no, on and off as booleans",
        _ => "",
    };
    let message = format!("is a {} where {whose} a {}{hint}; write a {}", after.name(), before.name(), before.name());
    Some(Said { kind: TYPE_CHANGED, message })
}

/// What a null takes away, where that is a map of the chart's: helm drops it whole. Sections of files are the user's to drop.
pub fn removed(path: &Path, tree: &KeyTree) -> Option<Said> {
    let keys = path.keys();
    let KeyTree::Map(map) = tree.find(keys)? else { return None };
    if keys[0] == "conf" && keys.len() > 2 {
        return None;
    }
    let names: Vec<String> =
        map.iter().filter(|(_, tree)| tree.has_default()).map(|(key, _)| key.to_string()).collect();
    let message = format!(
        "takes a whole map of the chart's away, with {}, and a template that reads a key in it fails; remove single keys, or set them",
        few(&names)
    );
    Some(Said { kind: "null-map", message })
}

fn whose(holds: Option<&Value>) -> &'static str {
    if holds.is_some() { "the layers below give" } else { "the chart has" }
}

/// Whether it is a text that is no number, nor begins as one: `25%` is as good as one where pods are counted, and an empty one is none at all.
fn is_word(value: &Value) -> bool {
    value.as_str().is_some_and(|text| {
        !text.is_empty() && !text.trim_start_matches('-').starts_with(|first: char| first.is_ascii_digit())
    })
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

/// Some names for people.
pub fn few(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let first = names[..names.len() - more].join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}
