//! Finds parent keys that prevent the chart's default from applying.

use serde::Serialize;
use serde_json::Value;

use osdpl_values::{Path, Values, get};

/// The effect of a parent key on a path that helm gets no value for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ParentEffect {
    /// The parent is null and removes everything below.
    Removed,
    /// The parent is not a map and hides everything below.
    Hidden,
}

/// Returns the effect of a parent key on a path without a value.
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
