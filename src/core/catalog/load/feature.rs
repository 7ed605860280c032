//! Checks the schema and the default of a feature that a user added to the catalogue.

use serde_json::Value;

use super::super::did_you_mean;
use super::super::schema::{Nulls, field_path, validate};
use osdpl_values::expr;

/// The keywords that a feature's schema may contain. Keywords that begin with `x-` (extensions of Kubernetes and of
/// osdpl) are allowed, too.
///
/// `title`, `description`, `example` and `externalDocs` only document the schema. `nullable` and `default` have no
/// effect in the schema: the default of a feature is in the field `default` of the feature's file.
const KEYWORDS: [&str; 22] = [
    "additionalProperties",
    "default",
    "description",
    "enum",
    "example",
    "externalDocs",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
];

/// The values that `type` may have in a feature's schema.
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Returns the errors of a feature's schema. If the schema is valid, returns an error for each value in the feature's
/// default that violates the schema.
pub(super) fn problems(schema: &Value, default: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    check_schema(schema, "schema", &mut wrong);
    if wrong.is_empty() {
        let faults = validate(schema, default, "default", Nulls::Dropped);
        let error = |field: String| {
            format!("{field}: the feature's own schema does not allow this; correct the default or the schema")
        };
        wrong.extend(faults.into_iter().map(|fault| error(fault.field)));
    }
    wrong
}

fn check_schema(schema: &Value, location: &str, wrong: &mut Vec<String>) {
    let Some(map) = schema.as_object() else {
        wrong.push(format!("{location}: this is not a schema; write a map such as {{type: string}}"));
        return;
    };
    for keyword in map.keys().filter(|keyword| !KEYWORDS.contains(&keyword.as_str()) && !keyword.starts_with("x-")) {
        let hint = did_you_mean(keyword, KEYWORDS);
        wrong.push(format!(
            "{}: this keyword is not supported{hint}; choose from {}",
            field_path(location, keyword),
            KEYWORDS.join(", ")
        ));
    }
    if let Some(kind) = map.get("type").filter(|kind| kind.as_str().is_none_or(|kind| !TYPES.contains(&kind))) {
        let hint = did_you_mean(kind.as_str().unwrap_or_default(), TYPES);
        wrong.push(format!("{location}.type: {kind} is not a type{hint}; choose from {}", TYPES.join(", ")));
    }
    if let Some(pattern) = map.get("pattern") {
        let problem = pattern.as_str().map_or(Some("it is not a string".to_owned()), expr::pattern_error);
        wrong.extend(problem.map(|problem| {
            format!("{location}.pattern: this is not a valid regular expression: {problem}; correct it")
        }));
    }
    match map.get("properties") {
        None => {}
        Some(Value::Object(all)) => {
            let location = format!("{location}.properties");
            all.iter().for_each(|(name, schema)| check_schema(schema, &field_path(&location, name), wrong));
        }
        Some(_) => wrong.push(format!("{location}.properties: this is not a map; write each property with its schema")),
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(schema) = map.get(keyword).filter(|schema| !(schema.is_boolean() && keyword != "items")) {
            check_schema(schema, &field_path(location, keyword), wrong);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::catalog::Catalog;
    use crate::testing::files;

    /// Loads a catalogue that consists of one feature with this schema, default and check message, and returns the
    /// errors.
    fn load_errors(schema: &str, default: &str, message: &str) -> String {
        let text = format!(
            "feature: colour\ndescription: x\nschema: {schema}\ndefault: {default}\n\
             checks: [{{when: 'true', level: error, field: spec.features.colour, message: '{message}'}}]\n"
        );
        Catalog::load(&files(&[("values/features/colour.yaml", &text)]))
            .err()
            .map(|errors| errors.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn rejects_invalid_schemas_and_defaults() {
        let sound = "{type: object, title: Colours, externalDocs: {url: 'https://colours.example.org'}, properties: {name: {type: string, default: red, pattern: '^[a-z]+$'}, sizes: {type: array, items: {type: integer}}}}";
        assert_eq!(load_errors(sound, "{name: red, sizes: [1]}", "x"), "");
        for (schema, default, expected) in [
            (
                "{type: objekt}",
                "{}",
                "schema.type: \"objekt\" is not a type (did you mean \"object\"?); choose from array",
            ),
            (
                "{type: object, propertys: {}}",
                "{}",
                "schema.propertys: this keyword is not supported (did you mean \"properties\"?); choose from ",
            ),
            (
                "{type: object, properties: {name: {type: string, pattern: '(['}}}",
                "{}",
                "schema.properties.name.pattern: this is not a valid regular expression: ",
            ),
            ("{type: object, properties: [name]}", "{}", "schema.properties: this is not a map; write each property"),
            ("{type: array, items: string}", "[]", "schema.items: this is not a schema; write a map"),
            (sound, "{nmae: red}", "default.nmae: the feature's own schema does not allow this; correct"),
            (sound, "{sizes: [one]}", "default.sizes[0]: the feature's own schema does not allow this; correct"),
            (sound, "[]", "default: the feature's own schema does not allow this; correct"),
        ] {
            let error = load_errors(schema, default, "x");
            assert!(error.starts_with(&format!("values/features/colour.yaml: {expected}")), "{error}");
        }
    }

    #[test]
    fn rejects_invalid_check_messages() {
        for (message, expected) in [
            ("${nonsense(} it", "`nonsense(` is not a valid CEL expression"),
            ("${feature.colour}", "`feature.colour` uses `feature`, which does not exist"),
            ("${credentials.store.admin}", "checks[0].message: `credentials.store.admin` reads a secret"),
            ("${facts.store.id}", "checks[0].message: `facts.store.id` reads facts"),
        ] {
            let error = load_errors("{type: object}", "{}", message);
            assert!(error.contains(expected), "{error}");
        }
    }
}
