//! Features: defaults, then presets, then the spec; checked against each feature's schema.

use serde_json::{Map, Value};

use super::Finding;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::schema::{Nulls, SchemaViolation, ViolationKind, field_description, validate, violation_message};
use crate::catalog::{Catalog, Level, SecretField};
use crate::scrub::Scrubber;
use osdpl_values::{Values, merge};

/// Merges the features of a spec.
pub(super) fn merge_features(spec: &OpenStackDeploymentSpec, catalog: &Catalog, findings: &mut Vec<Finding>) -> Values {
    let mut features: Values =
        catalog.features.iter().map(|(name, feature)| (name.clone(), feature.default.clone())).collect();
    for preset in spec.presets.iter().filter_map(|name| catalog.presets.get(name)) {
        merge(&mut features, preset.features.clone());
    }
    for (name, wanted) in &spec.features {
        // The module `names` reports unknown names.
        let Some(feature) = catalog.features.get(name) else { continue };
        let before = findings.len();
        validate_feature(&feature.schema, wanted, &format!("spec.features.{name}"), findings);
        if findings.len() == before {
            merge(&mut features, Map::from_iter([(name.clone(), wanted.clone())]));
        }
    }
    features
}

/// Returns the keys of Secrets that the features of a spec refer to.
///
/// Features whose fields violate their schema are left out.
pub fn list_feature_secrets(spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> Vec<SecretField> {
    catalog.secret_references(&merge_features(spec, catalog, &mut Vec::new()))
}

fn refused(field: &str, message: String) -> Finding {
    Finding::new(Level::Error, field, message)
}

/// Validates a value against a feature's schema.
fn validate_feature(schema: &Value, value: &Value, field: &str, findings: &mut Vec<Finding>) {
    let faults = validate(schema, value, field, Nulls::Kept);
    let has_pattern_fault = |field: &str| {
        faults.iter().any(|fault| fault.field == field && matches!(fault.problem, ViolationKind::Pattern(_)))
    };
    // A value that does not match the pattern needs no report about its length.
    let is_length =
        |fault: &&SchemaViolation<'_>| matches!(fault.problem, ViolationKind::Longer(_) | ViolationKind::Shorter(_));
    let relevant = faults.iter().filter(|fault| !(is_length(fault) && has_pattern_fault(&fault.field)));
    findings.extend(relevant.map(|fault| {
        let message = violation_message(fault, field_description(schema, &fault.explained, field));
        refused(&fault.field, redact_url_logins(&message))
    }));
}

/// Separates the value from the pattern in a message; the pattern is never a secret, even if it looks like a login.
const PATTERN: &str = " does not match ";

/// Removes user and password of URLs from a message.
pub fn redact_url_logins(message: &str) -> String {
    let (text, pattern) = message.split_at(message.rfind(PATTERN).unwrap_or(message.len()));
    let clean = Scrubber::default().scrub(text);
    if clean == text {
        return message.to_owned();
    }
    format!("{clean}{pattern}; it must contain no user and no password")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacts_passwords_of_urls_but_not_patterns() {
        let pattern = "^https?://[A-Za-z0-9._~:@]+$";
        let plain = format!("\"ftp://x/y\" does not match {pattern}; correct it");
        assert_eq!(redact_url_logins(&plain), plain);
        assert_eq!(
            redact_url_logins(&format!("\"ftp://me:hunter2@x\" does not match {pattern}; correct it")),
            format!(
                "\"ftp://me:[redacted]@x\" does not match {pattern}; correct it; it must contain no user and no password"
            )
        );
    }
}
