//! Warns if the type of an override differs from the type of the value that it replaces.

use serde_json::Value;

use super::warnings::Warning;
use super::{HIDDEN_KEY, TYPE_CHANGED};
use osdpl_core::catalog::{KeyTree, KeyType};
use osdpl_values::Path;
/// The maximum number of keys or entries that a message names.
const NAMED: usize = 5;

/// Reports a value whose type differs from the type of the value that it replaces.
///
/// `replaced` is the value of the lower layers at the same path; `None` if `value` replaces the chart's default.
pub(super) fn check_type(
    path: &Path,
    value: &Value,
    replaced: Option<&Value>,
    chart_keys: Option<&KeyTree>,
) -> Option<Warning> {
    let chart_value = chart_keys.and_then(|keys| keys.find(path.keys()));
    let before = replaced.map(KeyType::of).or_else(|| chart_value?.key_type())?;
    let source = if replaced.is_some() { "the layers below give" } else { "the chart has" };
    let is_file = path.keys().first().is_some_and(|key| key == "conf");
    if before == KeyType::Number && !is_file && is_word(value) {
        // The message leaves out the value, which may come from a Secret.
        let message = format!("is a string where {source} a number; write a number");
        return Some(Warning { kind: TYPE_CHANGED, message });
    }
    let after = KeyType::of(value);
    if is_file && is_multi_option(value) || !differ(before, after, is_file) {
        return None;
    }
    if before == KeyType::Map {
        let keys: Vec<String> = match (replaced, chart_value) {
            (Some(Value::Object(map)), _) => map.keys().cloned().collect(),
            (_, Some(KeyTree::Map(_))) => default_keys(chart_value),
            _ => Vec::new(),
        };
        let hidden =
            if keys.is_empty() { String::new() } else { format!(", and hides its keys {}", join_first(&keys)) };
        let message = format!("is a {} where {source} a map{hidden}; write a map", after.name());
        return Some(Warning { kind: if keys.is_empty() { TYPE_CHANGED } else { HIDDEN_KEY }, message });
    }
    let hint = match (before, value) {
        (KeyType::Boolean, Value::String(_)) => ": templates treat every string except an empty one as true",
        (KeyType::String, Value::Bool(_)) => ": YAML reads yes, no, on and off as booleans",
        _ => "",
    };
    let message = format!("is a {} where {source} a {}{hint}; write a {}", after.name(), before.name(), before.name());
    Some(Warning { kind: TYPE_CHANGED, message })
}

/// Reports a null that removes a map of the chart's defaults with all its keys.
///
/// The function accepts a null that removes a section of a configuration file (below `conf`).
pub(super) fn check_removed_map(path: &Path, chart_keys: &KeyTree) -> Option<Warning> {
    let keys = path.keys();
    let map = chart_keys.find(keys).filter(|tree| matches!(tree, KeyTree::Map(_)))?;
    if keys[0] == "conf" && keys.len() > 2 {
        return None;
    }
    let message = format!(
        "removes a whole map of the chart, including its keys {}: templates that read these keys fail; remove or set single keys instead",
        join_first(&default_keys(Some(map)))
    );
    Some(Warning { kind: "null-map", message })
}

/// Returns those keys of a map for which the chart has a default.
fn default_keys(map: Option<&KeyTree>) -> Vec<String> {
    let Some(KeyTree::Map(map)) = map else { return Vec::new() };
    map.iter().filter(|(_, tree)| tree.has_default()).map(|(key, _)| key.to_string()).collect()
}

/// Whether the value is a string that can't replace a number: a non-empty string that does not begin with a digit, or
/// with a minus sign and a digit.
///
/// Other strings may replace a number: `25%` is a share of the pods, and an empty string means no value.
fn is_word(value: &Value) -> bool {
    value.as_str().is_some_and(|text| {
        !text.is_empty() && !text.trim_start_matches('-').starts_with(|first: char| first.is_ascii_digit())
    })
}

/// Whether a value of the type `after` has the wrong type if it replaces a value of the type `before`.
///
/// In configuration files (`is_file`), booleans, numbers and strings all become text. So values of these three types
/// may replace each other.
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

/// Whether the value is a map that stands for one option of a configuration file (helm-toolkit's `to_oslo_conf`).
///
/// Such a map has the form `{type: multistring, values: [...]}`. For the type `multistring`, the template writes one
/// line for each value. For the type `csv`, the template writes one line with all values, separated by commas.
fn is_multi_option(value: &Value) -> bool {
    value.get("type").is_some() && value.get("values").is_some()
}

/// Joins the first [`NAMED`] names for a message, and adds the number of names that it leaves out.
pub(super) fn join_first(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let first = names[..names.len() - more].join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}
