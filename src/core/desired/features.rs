//! Features: defaults, then the presets' wishes, then the spec; checked against each feature's schema.

use serde_json::{Map, Value};

use super::Finding;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::schema::{Fault, Nulls, Problem, described, faults, said};
use crate::catalog::{Catalog, Level, SecretField};
use crate::scrub::Scrubber;
use osdpl_values::{Values, merge};

/// The features as they hold.
pub fn merged(spec: &OpenStackDeploymentSpec, catalog: &Catalog, findings: &mut Vec<Finding>) -> Values {
    let mut features: Values =
        catalog.features.iter().map(|(name, feature)| (name.clone(), feature.default.clone())).collect();
    for preset in spec.presets.iter().filter_map(|name| catalog.presets.get(name)) {
        merge(&mut features, preset.features.clone());
    }
    for (name, wanted) in &spec.features {
        // One that there is not is told of among the names.
        let Some(feature) = catalog.features.get(name) else { continue };
        let before = findings.len();
        validate(&feature.schema, wanted, &format!("spec.features.{name}"), findings);
        if findings.len() == before {
            merge(&mut features, Map::from_iter([(name.clone(), wanted.clone())]));
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

/// What stands between a value and the pattern that it does not match, which is no secret, whatever it looks like.
const PATTERN: &str = " does not match ";

/// The message without the password of an address that stands in it.
pub fn without_login(message: &str) -> String {
    let (said, pattern) = message.split_at(message.rfind(PATTERN).unwrap_or(message.len()));
    let clean = Scrubber::default().scrub(said);
    if clean == said {
        return message.to_owned();
    }
    format!("{clean}{pattern}; no user and no password may stand in it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_loses_its_password_and_a_pattern_that_looks_like_one_stays() {
        let pattern = "^https?://[A-Za-z0-9._~:@]+$";
        let plain = format!("\"ftp://x/y\" does not match {pattern}; correct it");
        assert_eq!(without_login(&plain), plain);
        assert_eq!(
            without_login(&format!("\"ftp://me:hunter2@x\" does not match {pattern}; correct it")),
            format!(
                "\"ftp://me:[redacted]@x\" does not match {pattern}; correct it; no user and no password may stand in it"
            )
        );
    }
}
