//! Finds out whether helm ignores the chart's default at a path because of the value of a parent key.

use serde::Serialize;
use serde_json::Value;

use osdpl_values::{Path, Values, get};

/// Why helm ignores the chart's default at a path, although osdpl passes no value for exactly this path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ParentEffect {
    /// A parent key is null, so helm removes every default below the key.
    Removed,
    /// The value of a parent key is not a map, so it hides every default below the key.
    Hidden,
}

/// Returns why helm ignores the chart's default at `path` if osdpl passes the values `all`; `None` if no parent key
/// hides or removes the default.
pub(crate) fn parent_effect(all: &Values, path: &Path) -> Option<ParentEffect> {
    (1..path.keys().len()).find_map(|length| {
        let parent: Path = path.keys()[..length].iter().cloned().collect();
        match get(all, &parent)? {
            Value::Null => Some(ParentEffect::Removed),
            Value::Object(_) => None,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Some(ParentEffect::Hidden),
        }
    })
}
