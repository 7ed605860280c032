//! Nulls that were lost on the way: client-side `kubectl apply` strips them from custom resources in silence, but its annotation shows them.

use serde_json::Value;

use super::Finding;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::Level;
use osdpl_values::Path;

/// A warning for each null in a `values` map of the annotation `last-applied-configuration` that the spec does not have.
pub fn lost_nulls(last_applied: &str, spec: &OpenStackDeploymentSpec) -> Vec<Finding> {
    let Ok(applied) = serde_json::from_str::<Value>(last_applied) else { return Vec::new() };
    let Ok(stands) = serde_json::to_value(spec) else { return Vec::new() };
    let mut lost = Vec::new();
    walk(&applied["spec"], Some(&stands), &Path::root().child("spec"), &mut lost);
    lost.into_iter().map(|path| warning(&path)).collect()
}

fn walk(applied: &Value, stands: Option<&Value>, path: &Path, lost: &mut Vec<Path>) {
    match (applied, stands) {
        (Value::Null, None) if path.keys().iter().any(|key| key == "values") => lost.push(path.clone()),
        (Value::Object(applied), stands) => {
            for (key, value) in applied {
                walk(value, stands.and_then(|stands| stands.get(key)), &path.child(key), lost);
            }
        }
        (Value::Array(applied), stands) => {
            for (index, value) in applied.iter().enumerate() {
                let at = path
                    .keys()
                    .split_last()
                    .map(|(last, above)| above.iter().cloned().chain([format!("{last}[{index}]")]).collect());
                walk(value, stands.and_then(|stands| stands.get(index)), &at.unwrap_or_default(), lost);
            }
        }
        _ => {}
    }
}

fn warning(path: &Path) -> Finding {
    let keys = path.keys();
    let at = keys.iter().position(|key| key == "values").map_or(keys.len(), |at| at + 1);
    let below: Path = keys[at..].iter().cloned().collect();
    Finding {
        level: Level::Warning,
        field: path.to_string(),
        message: format!(
            "the null was stripped by client-side `kubectl apply`, so the chart's default stays; use `kubectl apply --server-side`, or add {below} to `unset` beside `values`"
        ),
    }
}
