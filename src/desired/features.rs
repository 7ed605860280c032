//! Features: defaults, then the presets' wishes, then the spec; checked against each feature's schema.

use serde_json::{Map, Value};

use super::Finding;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::schema::{Fault, Nulls, Problem, faults};
use crate::catalog::{Catalog, Level, SecretField, did_you_mean};
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
    let told = faults(schema, value, field, Nulls::Kept).into_iter();
    findings.extend(told.map(|fault| refused(&fault.field, said(&fault))));
}

fn said(Fault { explained, value, problem, .. }: &Fault<'_>) -> String {
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
            format!("{:?} does not match {pattern}; correct it", value.as_str().unwrap_or_default())
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
