//! Converts the JSON schema of a feature to a list of the feature's fields, and the list to a Markdown table.

use osdpl_values::plain_text;
use serde::Serialize;
use serde_json::Value;

use super::table::{code, summary_table};

/// One field of a feature, according to the feature's JSON schema.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Field {
    /// The path below `spec.features.<feature>`, such as `a.b`; empty for the feature itself. `a[].b` is a field of the
    /// items of the list `a`, and `a.*` stands for every value of the map `a`.
    pub path: String,
    /// The type with its bounds, or the allowed values.
    #[serde(rename = "type")]
    pub kind: String,
    /// The description of the field in the schema.
    pub meaning: String,
    /// Whether the field must be set wherever its parent is set.
    pub required: bool,
}

/// Returns every field that a schema describes. Each field comes after its parent.
pub(crate) fn fields(schema: &Value) -> Vec<Field> {
    let mut found = Vec::new();
    walk(schema, "", false, &mut found);
    found
}

fn walk(schema: &Value, path: &str, required: bool, found: &mut Vec<Field>) {
    let meaning = schema["description"].as_str().unwrap_or_default().to_owned();
    // If the feature has properties, the table has a row for each property, and none for the feature itself.
    if !(path.is_empty() && schema["properties"].is_object()) {
        found.push(Field { path: path.to_owned(), kind: kind(schema), meaning, required });
    }
    collect_children(schema, path, found);
}

/// Appends the fields below a parent field to `found`. `schema` is the parent's schema, and `path` is the parent's
/// path.
fn collect_children(schema: &Value, path: &str, found: &mut Vec<Field>) {
    let names: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        walk(below, &path, names.contains(&name.as_str()), found);
    }
    for (step, below) in [("[]", &schema["items"]), (".*", &schema["additionalProperties"])] {
        // In the table of fields, the items of a list, or the values of a map, have a row if their schema has a
        // description. Without a description, only their properties have rows.
        let path = format!("{path}{step}");
        let path = path.trim_start_matches('.');
        if below["description"].is_string() {
            walk(below, path, false, found);
        } else if below["properties"].is_object() {
            collect_children(below, path, found);
        }
    }
}

fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(plain_text).collect();
        return values.join(" \u{b7} ");
    }
    let own = schema["type"].as_str().unwrap_or("any");
    let of = |below: &Value| below["type"].is_string().then(|| kind(below));
    match own {
        "array" => of(&schema["items"]).map_or_else(|| "list".into(), |of| format!("list of {of}")),
        "object" => of(&schema["additionalProperties"]).map_or_else(|| "map".into(), |of| format!("map of {of}")),
        "integer" | "number" => {
            let bound = |name: &str| schema[name].as_f64().map(|bound| bound.to_string());
            match (bound("minimum"), bound("maximum")) {
                (Some(least), Some(most)) => format!("{own}, {least} to {most}"),
                (Some(least), None) => format!("{own}, at least {least}"),
                (None, Some(most)) => format!("{own}, at most {most}"),
                (None, None) => own.to_owned(),
            }
        }
        _ => own.to_owned(),
    }
}

/// Formats the fields as a table. The table has the first sentence of each description; longer descriptions follow
/// below the table.
pub(crate) fn fields_table(fields: &[Field]) -> String {
    let rows = fields.iter().map(|field| {
        let required = if field.required { " (required)" } else { "" };
        [code(&field.path), format!("{}{required}", field.kind), field.meaning.clone()]
    });
    summary_table(["field", "type", "meaning"], &rows.collect::<Vec<_>>())
}
