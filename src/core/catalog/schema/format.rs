//! Formats values and limits for messages about schema violations.

use serde_json::{Map, Value};

/// The maximum length of a value that a message quotes, in characters.
pub(super) const SHOWN: usize = 80;

/// The maximum number of keys that a message lists. If a value is not a map although the schema expects one, the
/// message lists the keys in the schema. If the schema has more keys than this number, the message lists none.
pub(super) const KEYS: usize = 12;

pub(super) fn number(schema: &Value) -> String {
    let kind = if schema["type"] == "number" { "a number" } else { "a whole number" };
    let (least, most) = (&schema["minimum"], &schema["maximum"]);
    match (least.is_null(), most.is_null()) {
        (true, true) => kind.to_owned(),
        (false, false) => format!("{kind} from {} to {}", format_bound(least), format_bound(most)),
        (false, true) => format!("{kind}, {} at least", format_bound(least)),
        (true, false) => format!("{kind}, {} at most", format_bound(most)),
    }
}

pub(super) fn range(least: &Value, most: &Value) -> String {
    match (least.is_null(), most.is_null()) {
        (false, false) => format!("{least} to {most}"),
        (false, true) => format!("{least} or more"),
        _ => format!("{most} at most"),
    }
}

/// Formats a limit from a schema, such as `maximum`. The schemas of Rust types contain whole numbers as `1.0`, and the
/// function returns `1` for them.
fn format_bound(bound: &Value) -> String {
    bound.as_f64().map_or_else(|| bound.to_string(), |bound| bound.to_string())
}

pub(super) fn list(values: &[Value]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

pub(super) fn names(map: &Map<String, Value>) -> String {
    map.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Returns a value as JSON for a message. For a list, a map, and a string that is long or has several lines, returns
/// the words `this value` instead.
pub(super) fn quote(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() > SHOWN || text.contains('\n') => "this value".to_owned(),
        Value::Array(_) | Value::Object(_) => "this value".to_owned(),
        _ => value.to_string(),
    }
}
