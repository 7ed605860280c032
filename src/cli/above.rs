//! Why not even the chart's default holds at a path.

use serde::Serialize;
use serde_json::Value;

use osdpl_values::{Path, Values, get};

/// What helm is given above a path at which it is given nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Above {
    /// Null: everything below is taken away.
    Removed,
    /// Something that is no map, and has nothing below.
    Hidden,
}

/// What stands above a path that has no value.
pub fn above(all: &Values, path: &Path) -> Option<Above> {
    (1..path.keys().len()).find_map(|length| {
        let above: Path = path.keys()[..length].iter().cloned().collect();
        match get(all, &above)? {
            Value::Null => Some(Above::Removed),
            Value::Object(_) => None,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Some(Above::Hidden),
        }
    })
}
