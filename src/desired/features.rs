//! Features: defaults, then the presets' wishes, then the spec; checked against each feature's schema.

use serde_json::{Map, Value};

use super::Finding;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::schema::{Fault, Nulls, Problem, faults};
use crate::catalog::{Catalog, Level, SecretField, did_you_mean};
use crate::scrub::Scrubber;
use crate::values::{Values, merge};

/// The features as they hold.
pub fn merged(spec: &OpenStackDeploymentSpec, catalog: &Catalog, findings: &mut Vec<Finding>) -> Values {
    let mut features: Values =
        catalog.features.iter().map(|(name, feature)| (name.clone(), feature.default.clone())).collect();
    for preset in spec.presets.iter().filter_map(|name| catalog.presets.get(name)) {
        merge(&mut features, &preset.features);
    }
    for (name, wanted) in &spec.features {
        let field = format!("spec.features.{name}");
        if let Some(feature) = catalog.features.get(name) {
            let before = findings.len();
            validate(&feature.schema, wanted, &field, findings);
            if findings.len() == before {
                merge(&mut features, &Map::from_iter([(name.clone(), wanted.clone())]));
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

/// What a feature's schema has against a value, in our words.
fn validate(schema: &Value, value: &Value, field: &str, findings: &mut Vec<Finding>) {
    let told = faults(schema, value, field, Nulls::Kept);
    let of_pattern =
        |field: &str| told.iter().any(|fault| fault.field == field && matches!(fault.problem, Problem::Pattern(_)));
    // What does not have the shape at all need not be counted as well.
    let is_counted = |fault: &&Fault<'_>| matches!(fault.problem, Problem::Longer(_) | Problem::Shorter(_));
    let told = told.iter().filter(|fault| !(is_counted(fault) && of_pattern(&fault.field)));
    findings.extend(told.map(|fault| {
        let message = said(fault, described(schema, &fault.explained, field));
        refused(&fault.field, without_login(&message))
    }));
}

/// The message without the password of an address that stands in it.
fn without_login(message: &str) -> String {
    let clean = Scrubber::default().scrub(message);
    if clean == message { clean } else { format!("{clean}; no user and no password may stand in it") }
}

/// What the schema says that a field is for.
fn described<'a>(schema: &'a Value, explained: &str, above: &str) -> Option<&'a str> {
    let names = explained.strip_prefix(above)?.split('.').filter(|name| !name.is_empty());
    // Items and entries are not among the names; what is said of a list is said of them.
    let inner = |mut schema: &'a Value| {
        let mut said = schema["description"].as_str();
        while let Some(below) = ["items", "additionalProperties"].iter().find_map(|word| schema.get(word)) {
            if !below.is_object() {
                break;
            }
            schema = below;
            said = schema["description"].as_str().or(said);
        }
        (schema, said)
    };
    let at = names.fold(inner(schema), |(schema, _), name| inner(&schema["properties"][name]));
    at.1
}

fn said(Fault { explained, value, problem, .. }: &Fault<'_>, described: Option<&str>) -> String {
    let see = format!("see `kubectl explain osdpl.{explained}`");
    match problem {
        Problem::Type(wanted) => format!("must be of type {wanted}; correct it"),
        Problem::Enum(allowed) => {
            let list = allowed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            format!("{value} is not one of {list}; choose one of them")
        }
        Problem::Longer(_) | Problem::Shorter(_) => {
            let length = value.as_str().unwrap_or_default().chars().count();
            format!("has {length} characters, which is out of bounds; {see}")
        }
        Problem::Pattern(pattern) => {
            let text = value.as_str().unwrap_or_default();
            match described {
                Some(described) => format!("{text:?} does not match {pattern}; what belongs there: {described}"),
                None => format!("{text:?} does not match {pattern}; correct it"),
            }
        }
        Problem::Time => format!("{value} is no time; write it as in 2026-11-21T12:00:00Z"),
        Problem::Below(_) | Problem::Above(_) => format!("{value} is out of bounds; {see}"),
        Problem::TooMany(most) => format!("may have {most} entries at most; take some out"),
        Problem::TooFewItems(least) | Problem::TooFewProperties(least) => {
            let count = value.as_array().map_or_else(|| value.as_object().map_or(0, serde_json::Map::len), Vec::len);
            format!("must have {least} or more, and has {count}; add what is missing, or leave the field out")
        }
        Problem::Required => "is required; set it".to_owned(),
        Problem::Unknown(key, known) => {
            let hint = did_you_mean(key, known.iter().copied());
            format!("is unknown{hint}; there are {}", known.join(", "))
        }
    }
}
