//! Reports keys whose value is null, if the API server drops or refuses the key.
//!
//! Most often such a key has no value because the user has commented out the lines below it.

use serde_json::Value;

use osdpl_core::catalog::schema::field_path;
use osdpl_core::finding::Finding;

/// Removes each key whose value is a null that the API server drops or refuses. Returns a finding about each removed
/// key.
///
/// The function keeps two kinds of nulls:
/// * nulls in free-form values, because helm reads such a null as "remove the chart's default",
/// * nulls in lists, because the schema check reports such nulls.
pub(super) fn remove_nulls(schema: &Value, object: &mut Value) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(spec) = object.get_mut("spec") {
        walk(&schema["properties"]["spec"], spec, "spec", &mut found);
    }
    found
}

fn walk(schema: &Value, value: &mut Value, field: &str, found: &mut Vec<Finding>) {
    match value {
        Value::Object(map) => {
            let known = schema["properties"].as_object();
            let entries = Some(&schema["additionalProperties"]).filter(|entries| entries.is_object());
            map.retain(|key, value| {
                let Some(schema) = known.and_then(|known| known.get(key)).or(entries) else { return true };
                let field = field_path(field, key);
                if value.is_null() {
                    let message =
                        "the value is null: the API server drops or refuses the key; write a value, or remove the key";
                    found.push(Finding::error("schema", field, message));
                    return false;
                }
                walk(schema, value, &field, found);
                true
            });
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                walk(&schema["items"], item, &format!("{field}[{index}]"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
