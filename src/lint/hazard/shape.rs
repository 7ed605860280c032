//! Checks whether values have the kind of those that they replace.

use serde_json::Value;

use super::TYPE_CHANGED;
use super::tally::Warning;
use osdpl_core::catalog::{KeyTree, KeyType};
use osdpl_values::Path;

/// The number of names in a message.
const NAMED: usize = 5;

/// Reports a `value` of another kind than `holds`, the value below, or than the chart's default.
pub fn changed(path: &Path, value: &Value, holds: Option<&Value>, tree: Option<&KeyTree>) -> Option<Warning> {
    let known = tree.and_then(|tree| tree.find(path.keys()));
    let before = holds.map(KeyType::of).or_else(|| known?.key_type())?;
    if before == KeyType::Number && path.keys().first().is_some_and(|key| key != "conf") && is_word(value) {
        // The message omits the value, which may come from a Secret.
        let message = format!("is a text where {} a number; write a number", whose(holds));
        return Some(Warning { kind: TYPE_CHANGED, message });
    }
    let after = KeyType::of(value);
    let is_file = path.keys().first().is_some_and(|key| key == "conf");
    if is_file && is_multi_option(value) || !differ(before, after, is_file) {
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
        return Some(Warning { kind: if keys.is_empty() { TYPE_CHANGED } else { "hidden-key" }, message });
    }
    let hint = match (before, value) {
        (KeyType::Boolean, Value::String(_)) => ": in a template every text but an empty one is true",
        (KeyType::String, Value::Bool(_)) => ": YAML reads yes, no, on and off as booleans",
        _ => "",
    };
    let message = format!("is a {} where {whose} a {}{hint}; write a {}", after.name(), before.name(), before.name());
    Some(Warning { kind: TYPE_CHANGED, message })
}

/// Reports a null that removes a map of the chart: helm drops it as a whole. Sections of configuration files may be
/// removed.
pub fn removed(path: &Path, tree: &KeyTree) -> Option<Warning> {
    let keys = path.keys();
    let KeyTree::Map(map) = tree.find(keys)? else { return None };
    if keys[0] == "conf" && keys.len() > 2 {
        return None;
    }
    let names: Vec<String> =
        map.iter().filter(|(_, tree)| tree.has_default()).map(|(key, _)| key.to_string()).collect();
    let message = format!(
        "removes a whole map of the chart, with {}, and templates that read a key in it fail; remove single keys, or set them",
        few(&names)
    );
    Some(Warning { kind: "null-map", message })
}

fn whose(holds: Option<&Value>) -> &'static str {
    if holds.is_some() { "the layers below give" } else { "the chart has" }
}

/// Whether the value is a text that does not start with a number: `25%` is fine for numbers of pods, and an empty text
/// means unset.
fn is_word(value: &Value) -> bool {
    value.as_str().is_some_and(|text| {
        !text.is_empty() && !text.trim_start_matches('-').starts_with(|first: char| first.is_ascii_digit())
    })
}

/// Whether two kinds differ in more than notation. All settings of configuration files end up as text.
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

/// Whether the value has the charts' form of a repeated or list option: `{type: multistring, values: [...]}`
/// (helm-toolkit's `to_oslo_conf`).
fn is_multi_option(value: &Value) -> bool {
    value.get("type").is_some() && value.get("values").is_some()
}

/// Lists the first few names.
pub fn few(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let first = names[..names.len() - more].join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}
