//! The words of a tree of keys: types, names of entries, and what stands for what.

use serde::Deserialize;
use serde_json::Value;

/// How a tree writes a key that templates read and `values.yaml` does not have.
pub const READ: &str = "read";

/// The key, in a map, that says of all others that they may be read.
pub const ANY_KEY: &str = "*";

/// What a chart's default is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeyType {
    /// A map that is empty in the chart: free-form.
    Map,
    /// A list.
    List,
    /// A text.
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Nothing.
    Null,
}

/// What a tree writes before a default that is a short text.
pub const TEXT: char = '=';

/// The longest text that a tree holds, in characters.
const LONGEST: usize = 60;

/// Whether a text is short enough for a tree: values are, scripts are not.
pub fn is_short(text: &str) -> bool {
    text.chars().count() <= LONGEST && !text.contains('\n')
}

/// What an entry of a list is called in a tree, and for people: a short one by itself, as JSON where it is no text, a long one by its size.
pub fn entry_name(entry: &Value) -> String {
    let text = entry.as_str().map_or_else(|| entry.to_string(), str::to_owned);
    if is_short(&text) { text } else { entry_shape(entry) }
}

/// What an entry of a list is called without what it says.
pub fn entry_shape(entry: &Value) -> String {
    match entry {
        Value::Object(map) => format!("a map of {}", map.keys().map(String::as_str).collect::<Vec<_>>().join(", ")),
        Value::Array(list) => format!("a list of {}", list.len()),
        _ => format!("a text of {} characters", entry.as_str().unwrap_or_default().chars().count()),
    }
}

impl KeyType {
    /// As it is written in `values/keys`.
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

    /// The type of a value.
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
