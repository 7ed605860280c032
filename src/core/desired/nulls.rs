//! Finds nulls that a user wrote into `values` of a manifest, but that the OpenStackDeployment in the API server lacks.
//!
//! Client-side `kubectl apply` silently removes nulls from custom resources, although a null in `values` removes a
//! default value of a chart. The annotation `last-applied-configuration` still has the nulls, so osdpl compares it with
//! the spec.

use serde_json::Value;

use super::Finding;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::Level;
use osdpl_values::Path;

/// Returns a warning for each null that is in a `values` map of the annotation `last-applied-configuration` but not in
/// the spec.
pub fn find_lost_nulls(last_applied: &str, spec: &OpenStackDeploymentSpec) -> Vec<Finding> {
    let Ok(applied) = serde_json::from_str::<Value>(last_applied) else { return Vec::new() };
    let Ok(stored) = serde_json::to_value(spec) else { return Vec::new() };
    let mut lost = Vec::new();
    walk(&applied["spec"], Some(&stored), &Path::root().child("spec"), &mut lost);
    lost.into_iter().map(|path| warning(&path)).collect()
}

fn walk(applied: &Value, stored: Option<&Value>, path: &Path, lost: &mut Vec<Path>) {
    match (applied, stored) {
        (Value::Null, None) if path.keys().iter().any(|key| key == "values") => lost.push(path.clone()),
        (Value::Object(applied), stored) => {
            for (key, value) in applied {
                walk(value, stored.and_then(|stored| stored.get(key)), &path.child(key), lost);
            }
        }
        (Value::Array(applied), stored) => {
            for (index, value) in applied.iter().enumerate() {
                let item = path
                    .keys()
                    .split_last()
                    .map(|(last, above)| above.iter().cloned().chain([format!("{last}[{index}]")]).collect());
                walk(value, stored.and_then(|stored| stored.get(index)), &item.unwrap_or_default(), lost);
            }
        }
        _ => {}
    }
}

fn warning(path: &Path) -> Finding {
    let keys = path.keys();
    let start = keys.iter().position(|key| key == "values").map_or(keys.len(), |position| position + 1);
    let below: Path = keys[start..].iter().cloned().collect();
    Finding::new(
        Level::Warning,
        path.to_string(),
        format!(
            "client-side `kubectl apply` removed the null, so the chart's default stays; use `kubectl apply --server-side`, or add {below} to `unset` beside `values`"
        ),
    )
}
