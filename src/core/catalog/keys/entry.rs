//! The notation of key trees in `values/keys/`: names of types, names of list entries, and markers.

use serde::Deserialize;
use serde_json::Value;

/// The word in a key tree for a key without a default in `values.yaml` that the chart's templates read.
pub const READ_MARKER: &str = "read";

/// The key that a key tree adds to a map if the chart's templates may read any key of the map.
pub const ANY_KEY: &str = "*";

/// The type of the default that a chart has for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeyType {
    /// An empty map in `values.yaml`. Users may set any keys in it.
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

/// The character that a key tree puts before a default that is a short string, to distinguish it from the name of a
/// type.
pub const TEXT_PREFIX: char = '=';

/// The maximum length of a default that is stored in a tree, in characters.
const MAX_LENGTH: usize = 60;

/// Whether a string is short enough to be stored in a tree. Scripts and configuration files are not.
pub fn is_short(text: &str) -> bool {
    text.chars().count() <= MAX_LENGTH && !text.contains('\n')
}

/// Returns the name of a list entry in key trees and in messages.
///
/// The name of a short entry is the entry itself (as JSON if it is not a string). The name of a long one describes its
/// size.
pub fn entry_name(entry: &Value) -> String {
    let text = entry.as_str().map_or_else(|| entry.to_string(), str::to_owned);
    if is_short(&text) { text } else { entry_shape(entry) }
}

/// Describes a list entry by its keys or its size, without its content.
pub fn entry_shape(entry: &Value) -> String {
    match entry {
        Value::Object(map) => format!("a map of {}", map.keys().map(String::as_str).collect::<Vec<_>>().join(", ")),
        Value::Array(list) => format!("a list of {}", list.len()),
        _ => format!("a text of {} characters", entry.as_str().unwrap_or_default().chars().count()),
    }
}

impl KeyType {
    /// Returns the name of the type in `values/keys/`.
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
