//! The notation in the files of key trees: types, defaults, list entries, and the markers `read` and `*`.
//!
//! A key tree is a file in `values/keys/`. It contains the keys that a chart's `values.yaml` sets or the chart's
//! templates read.

use osdpl_values::plain_text;
use serde::Deserialize;
use serde_json::Value;

/// The word that a key tree contains for a key that the chart's templates read, but for which `values.yaml` contains no
/// default.
pub const READ_MARKER: &str = "read";

/// The key in a key tree that stands for every key of a map. A map in the key tree has this key if the chart's
/// templates may read any key of the map.
pub const ANY_KEY: &str = "*";

/// The type of the default that a chart has for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeyType {
    /// The default is an empty map in `values.yaml`. Users may set any keys in the map.
    Map,
    /// The default is a list.
    List,
    /// The default is a string.
    String,
    /// The default is a number.
    Number,
    /// The default is `true` or `false`.
    Boolean,
    /// The default is null.
    Null,
}

/// The prefix of a default that is a short string. It distinguishes the string from a type: in a key tree, `=map` is
/// the string `map`, and `map` is the type.
pub const TEXT_PREFIX: char = '=';

/// The maximum length, in characters, of a default or list entry that a key tree stores. Only references to container
/// images may be longer.
const MAX_LENGTH: usize = 60;

/// Whether a string is short enough for a key tree to store it: it is a single line, and not longer than `MAX_LENGTH`.
pub fn is_short(text: &str) -> bool {
    text.chars().count() <= MAX_LENGTH && !text.contains('\n')
}

/// Returns the name by which key trees and messages refer to an entry of a list.
///
/// The name of a short entry is the entry itself, as JSON if it is not a string. The name of a long entry describes the
/// entry's keys or length.
pub fn entry_name(entry: &Value) -> String {
    let text = plain_text(entry);
    if is_short(&text) { text } else { entry_shape(entry) }
}

/// Describes an entry of a list by its keys or its size, without its values.
pub fn entry_shape(entry: &Value) -> String {
    match entry {
        Value::Object(map) => format!("a map of {}", map.keys().map(String::as_str).collect::<Vec<_>>().join(", ")),
        Value::Array(list) => format!("a list of {}", list.len()),
        _ => format!("a string of {} characters", entry.as_str().unwrap_or_default().chars().count()),
    }
}

impl KeyType {
    /// Returns the name of the type, as key trees write it.
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
