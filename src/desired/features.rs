//! Features: defaults, then the presets' wishes, then the spec; checked against each feature's schema.

use serde_json::{Map, Value};

use super::Finding;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::{Catalog, Level, SecretField, did_you_mean};
use crate::values::{Values, merge};

/// The features as they hold.
pub fn merged(spec: &OpenStackDeploymentSpec, catalog: &Catalog, findings: &mut Vec<Finding>) -> Values {
    let mut features: Values =
        catalog.features.iter().map(|(name, feature)| (name.clone(), feature.default.clone())).collect();
    for preset in spec.presets.iter().filter_map(|name| catalog.presets.get(name)) {
        merge(&mut features, preset.features.clone());
    }
    for (name, wanted) in &spec.features {
        let field = format!("spec.features.{name}");
        if let Some(feature) = catalog.features.get(name) {
            let before = findings.len();
            validate(&feature.schema, wanted, &field, findings);
            if findings.len() == before {
                merge(&mut features, Map::from_iter([(name.clone(), wanted.clone())]));
            }
        } else {
            let hint = did_you_mean(name, catalog.features.keys().map(String::as_str));
            let known = catalog.features.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            findings.push(refused(&field, format!("there is no feature {name:?}{hint}; there are {known}")));
        }
    }
    features
}

/// The keys of Secrets that the features of a spec name, wherever they come from; none of a feature that is refused.
pub fn secrets(spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> Vec<SecretField> {
    catalog.secrets(&merged(spec, catalog, &mut Vec::new()))
}

fn refused(field: &str, message: String) -> Finding {
    Finding { level: Level::Error, field: field.to_owned(), message }
}

/// Judges a value by the part of JSON schema that CRDs have in common with us: type, enum, properties, items, bounds, required.
fn validate(schema: &Value, value: &Value, field: &str, findings: &mut Vec<Finding>) {
    let kind = schema["type"].as_str().unwrap_or("any");
    let fits = match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => true,
    };
    if !fits {
        findings.push(refused(field, format!("must be of type {kind}; correct it")));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        let list = allowed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        findings.push(refused(field, format!("{value} is not one of {list}; choose one of them")));
    }
    if let Some(text) = value.as_str() {
        let length = text.chars().count() as u64;
        if schema["maxLength"].as_u64().is_some_and(|most| length > most)
            || schema["minLength"].as_u64().is_some_and(|least| length < least)
        {
            findings.push(refused(
                field,
                format!("has {length} characters, which is out of bounds; see `kubectl explain osdpl.{field}`"),
            ));
        }
    }
    if let (Some(text), Some(pattern)) = (value.as_str(), schema["pattern"].as_str())
        && !crate::expr::matches(text, pattern)
    {
        findings.push(refused(field, format!("{text:?} does not match {pattern}; correct it")));
    }
    if let Some(number) = value.as_f64() {
        let below = schema["minimum"].as_f64().is_some_and(|least| number < least);
        if below || schema["maximum"].as_f64().is_some_and(|most| number > most) {
            findings.push(refused(field, format!("{value} is out of bounds; see `kubectl explain osdpl.{field}`")));
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        validate(&schema["items"], item, &format!("{field}[{index}]"), findings);
    }
    if let Some(map) = value.as_object() {
        properties(schema, map, field, findings);
    }
}

fn properties(schema: &Value, map: &Values, field: &str, findings: &mut Vec<Finding>) {
    let none = Map::new();
    let known = schema["properties"].as_object().unwrap_or(&none);
    let free = &schema["additionalProperties"];
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(name) {
            findings.push(refused(&format!("{field}.{name}"), "is required; set it".into()));
        }
    }
    for (key, value) in map {
        let field = format!("{field}.{key}");
        if let Some(schema) = known.get(key) {
            validate(schema, value, &field, findings);
        } else if free.is_object() {
            validate(free, value, &field, findings);
        } else if schema["x-kubernetes-preserve-unknown-fields"] != true {
            let hint = did_you_mean(key, known.keys().map(String::as_str));
            let list = known.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            findings.push(refused(&field, format!("is unknown{hint}; there are {list}")));
        }
    }
}
