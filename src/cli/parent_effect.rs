//! Finds out whether a parent key of a path keeps helm from using the chart's default at this path.

use serde::Serialize;
use serde_json::Value;

use osdpl_values::{Path, Values, get};

/// How a parent key keeps helm from using the chart's default at a path for which helm gets no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ParentEffect {
    /// A parent key is null, which removes every default below it.
    Removed,
    /// A parent key has a value that is not a map, which hides every default below it.
    Hidden,
}

/// Returns how a parent key keeps helm from using the chart's default at a path; `None` if the default applies.
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
