//! What someone's feature says of its values: a schema that says what it seems to, and a default that it lets through.

use serde_json::Value;

use super::super::did_you_mean;
use super::super::schema::{Nulls, below, faults};
use crate::expr;

/// The words of schemas that values are judged by, or that only describe, as `title` and a `default` within do: what is filled in where nobody says
/// anything is the feature's own. Whatever begins with `x-` is for Kubernetes, or a mark of ours.
const WORDS: [&str; 22] = [
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

/// The types of values.
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// What is wrong with the schema, and, where nothing is, with the default.
pub(super) fn problems(schema: &Value, default: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    look(schema, "schema", &mut wrong);
    if wrong.is_empty() {
        let faults = faults(schema, default, "default", Nulls::Dropped);
        let said = |field: String| {
            format!("{field}: the feature's own schema does not let this through; correct the default, or the schema")
        };
        wrong.extend(faults.into_iter().map(|fault| said(fault.field)));
    }
    wrong
}

fn look(schema: &Value, place: &str, wrong: &mut Vec<String>) {
    let Some(map) = schema.as_object() else {
        wrong.push(format!("{place}: this is no schema; write a map such as {{type: string}}"));
        return;
    };
    for word in map.keys().filter(|word| !WORDS.contains(&word.as_str()) && !word.starts_with("x-")) {
        let hint = did_you_mean(word, WORDS);
        wrong.push(format!(
            "{}: no value is judged by this word{hint}; there are {}",
            below(place, word),
            WORDS.join(", ")
        ));
    }
    if let Some(kind) = map.get("type").filter(|kind| kind.as_str().is_none_or(|kind| !TYPES.contains(&kind))) {
        let hint = did_you_mean(kind.as_str().unwrap_or_default(), TYPES);
        wrong.push(format!("{place}.type: {kind} is no type{hint}; there are {}", TYPES.join(", ")));
    }
    if let Some(pattern) = map.get("pattern") {
        let problem = pattern.as_str().map_or(Some("it is no text".to_owned()), expr::pattern_problem);
        wrong.extend(
            problem.map(|problem| format!("{place}.pattern: this is no regular expression: {problem}; correct it")),
        );
    }
    match map.get("properties") {
        None => {}
        Some(Value::Object(all)) => {
            let place = format!("{place}.properties");
            all.iter().for_each(|(name, schema)| look(schema, &below(&place, name), wrong));
        }
        Some(_) => wrong.push(format!("{place}.properties: this is no map; write each property with its schema")),
    }
    for word in ["items", "additionalProperties"] {
        if let Some(schema) = map.get(word).filter(|schema| !(schema.is_boolean() && word != "items")) {
            look(schema, &below(place, word), wrong);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::catalog::Catalog;
    use crate::catalog::tests::files;

    /// What is said of a feature with this schema, default and message of a check.
    fn told(schema: &str, default: &str, message: &str) -> String {
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
    fn a_schema_that_judges_nothing_and_a_default_that_it_refuses_are_told() {
        let sound = "{type: object, title: Colours, externalDocs: {url: 'https://colours.example.org'}, properties: {name: {type: string, default: red, pattern: '^[a-z]+$'}, sizes: {type: array, items: {type: integer}}}}";
        assert_eq!(told(sound, "{name: red, sizes: [1]}", "x"), "");
        for (schema, default, expected) in [
            ("{type: objekt}", "{}", "schema.type: \"objekt\" is no type, did you mean \"object\"?; there are array"),
            (
                "{type: object, propertys: {}}",
                "{}",
                "schema.propertys: no value is judged by this word, did you mean \"properties\"?; there are ",
            ),
            (
                "{type: object, properties: {name: {type: string, pattern: '(['}}}",
                "{}",
                "schema.properties.name.pattern: this is no regular expression: ",
            ),
            ("{type: object, properties: [name]}", "{}", "schema.properties: this is no map; write each property"),
            ("{type: array, items: string}", "[]", "schema.items: this is no schema; write a map"),
            (sound, "{nmae: red}", "default.nmae: the feature's own schema does not let this through; correct"),
            (sound, "{sizes: [one]}", "default.sizes[0]: the feature's own schema does not let this through; correct"),
            (sound, "[]", "default: the feature's own schema does not let this through; correct"),
        ] {
            let said = told(schema, default, "x");
            assert!(said.starts_with(&format!("values/features/colour.yaml: {expected}")), "{said}");
        }
    }

    #[test]
    fn what_a_check_says_is_looked_at_before_anybody_reads_it() {
        for (message, expected) in [
            ("${nonsense(} it", "`nonsense(` is not a valid CEL expression"),
            ("${feature.colour}", "`feature.colour` uses `feature`, which does not exist"),
            ("${credentials.store.admin}", "checks[0].message: `credentials.store.admin` asks for a secret"),
            ("${facts.store.id}", "checks[0].message: `facts.store.id` asks for facts"),
        ] {
            let said = told("{type: object}", "{}", message);
            assert!(said.contains(expected), "{said}");
        }
    }
}
