//! The fields with which the settings of a feature reference a key of a Secret.
//!
//! A feature's schema marks each such field with the keyword [`MARK`]. The field is an object with the strings `name`
//! and `key`. For the settings of features, the operator reads only the Secrets that marked fields name.

use serde_json::Value;

use super::Feature;

/// The keyword that marks a field of a feature's schema as a reference to a key of a Secret. osdpl removes the keyword
/// from the CRD, because the API server does not know the keyword.
pub(crate) const MARK: &str = "x-osdpl-secret";

/// A field of the spec that references a key of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretField {
    /// The path of the field, such as `spec.features.identity.ldap[0].passwordSecret`.
    pub field: String,
    /// The name of the Secret that the field references.
    pub name: String,
    /// The key of the Secret's data that the field references.
    pub key: String,
}

/// Returns the fields with which a feature's settings reference a key of a Secret. `value` contains the settings. Skips
/// a field if its `name` or `key` is missing.
pub(crate) fn secrets(feature: &str, schema: &Value, value: &Value) -> Vec<SecretField> {
    let mut found = Vec::new();
    walk(schema, value, &format!("spec.features.{feature}"), &mut found);
    found
}

fn walk(schema: &Value, value: &Value, field: &str, found: &mut Vec<SecretField>) {
    if schema[MARK] == true {
        if let (Some(name), Some(key)) = (value["name"].as_str(), value["key"].as_str()) {
            found.push(SecretField { field: field.to_owned(), name: name.to_owned(), key: key.to_owned() });
        }
        return;
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        walk(&schema["items"], item, &format!("{field}[{index}]"), found);
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        let known = schema["properties"].get(key).unwrap_or(&schema["additionalProperties"]);
        walk(known, value, &format!("{field}.{key}"), found);
    }
}

/// Returns an error for each wrong use of [`MARK`] in a feature's schema. Only an object with the required strings
/// `name` and `key` may have the mark.
pub(super) fn check(feature: &Feature) -> Vec<String> {
    let mut wrong = Vec::new();
    if feature.schema.contains_text(MARK) {
        check_marks(&feature.schema.read(), "schema", &mut wrong);
    }
    wrong
}

fn check_marks(schema: &Value, location: &str, wrong: &mut Vec<String>) {
    if !schema[MARK].is_null() {
        let is_needed = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
        let is_text = |name: &str| schema["properties"][name]["type"] == "string" && is_needed(name);
        if schema[MARK] != true || schema["type"] != "object" || !is_text("name") || !is_text("key") {
            wrong.push(format!(
                "{location}: {MARK} may only mark an object whose properties name and key are required strings; change the schema or remove the mark"
            ));
        }
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        check_marks(below, &format!("{location}.properties.{name}"), wrong);
    }
    for below in ["items", "additionalProperties"] {
        if schema[below].is_object() {
            check_marks(&schema[below], &format!("{location}.{below}"), wrong);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reference() -> Value {
        let text = json!({"type": "string"});
        json!({"type": "object", MARK: true, "required": ["name", "key"], "properties": {"name": text, "key": text}})
    }

    #[test]
    fn finds_references_only_at_marks() {
        let mut plain = reference();
        plain.as_object_mut().unwrap().remove(MARK);
        let schema = json!({"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"password": reference()}}},
            "map": {"type": "object", "additionalProperties": reference()},
            "plain": plain,
        }});
        let value = json!({
            "list": [{}, {"password": {"name": "a", "key": "b"}}, {"password": "a"}],
            "map": {"x": {"name": "c", "key": "d"}, "y": {"name": "c"}},
            "plain": {"name": "e", "key": "f"},
        });
        let found: Vec<String> = secrets("colour", &schema, &value)
            .into_iter()
            .map(|secret| format!("{} {}/{}", secret.field, secret.name, secret.key))
            .collect();
        assert_eq!(found, ["spec.features.colour.list[1].password a/b", "spec.features.colour.map.x c/d"]);
    }

    #[test]
    fn rejects_marks_on_other_types() {
        let mut wrong = Vec::new();
        let schema = json!({"properties": {"good": reference(), "list": {"items": {"type": "string", MARK: true}}}});
        check_marks(&schema, "schema", &mut wrong);
        assert_eq!(
            wrong,
            [
                "schema.properties.list.items: x-osdpl-secret may only mark an object whose properties name and key are required strings; change the schema or remove the mark"
            ]
        );
    }
}
