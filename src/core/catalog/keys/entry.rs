//! The notation of key trees: types, names of list entries, and markers.

use serde::Deserialize;
use serde_json::Value;

/// The marker of a key that templates read and `values.yaml` does not have.
pub const READ_MARKER: &str = "read";

/// The map key which states that any other key may be read.
pub const ANY_KEY: &str = "*";

/// The type of a chart's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeyType {
    /// A map that is empty in the chart, so that it takes any keys.
    Map,
    /// A list.
    List,
    /// A string.
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Null.
    Null,
}

/// The prefix of a default that is a short string.
pub const TEXT_PREFIX: char = '=';

/// The maximum length of a string in a tree, in characters.
const MAX_LENGTH: usize = 60;

/// Whether a string is short enough for a tree, as settings are and scripts are not.
pub fn is_short(text: &str) -> bool {
    text.chars().count() <= MAX_LENGTH && !text.contains('\n')
}

/// Returns the name of a list entry in a tree and in messages: a short one is written out, as JSON if it is not a
/// string; a long one is described by its size.
pub fn entry_name(entry: &Value) -> String {
    let text = entry.as_str().map_or_else(|| entry.to_string(), str::to_owned);
    if is_short(&text) { text } else { entry_shape(entry) }
}

/// Describes a list entry without its content.
pub fn entry_shape(entry: &Value) -> String {
    match entry {
        Value::Object(map) => format!("a map of {}", map.keys().map(String::as_str).collect::<Vec<_>>().join(", ")),
        Value::Array(list) => format!("a list of {}", list.len()),
        _ => format!("a text of {} characters", entry.as_str().unwrap_or_default().chars().count()),
    }
}

impl KeyType {
    /// Returns the name used in `values/keys`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::List => "list",
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Null => "null",
        }
    }

    /// Returns the type of a value.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Object(_) => Self::Map,
            Value::Array(_) => Self::List,
            Value::String(_) => Self::String,
            Value::Number(_) => Self::Number,
            Value::Bool(_) => Self::Boolean,
            Value::Null => Self::Null,
        }
    }
}
