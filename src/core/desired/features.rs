//! Merges the settings of features: presets override the catalogue's defaults, and the spec overrides the presets.
//!
//! osdpl checks the spec's settings of each feature against the feature's schema.

use serde_json::{Map, Value};

use super::Finding;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::schema::{
    Nulls, SchemaViolation, ViolationKind, field_description, validate_with, violation_message,
};
use crate::catalog::{Catalog, Level, SecretField};
use crate::scrub::Scrubber;
use osdpl_values::expr::Patterns;
use osdpl_values::{Values, merge};

/// Merges the settings of all features from the catalogue, the presets and the spec.
///
/// If the spec's settings of a feature violate the feature's schema, adds errors to `findings` and ignores these
/// settings.
pub(super) fn merge_features(spec: &OpenStackDeploymentSpec, catalog: &Catalog, findings: &mut Vec<Finding>) -> Values {
    let mut features: Values =
        catalog.features.iter().map(|(name, feature)| (name.clone(), feature.default.clone())).collect();
    for preset in spec.presets.iter().filter_map(|name| catalog.presets.get(name)) {
        merge(&mut features, preset.features.clone());
    }
    let mut patterns = Patterns::default();
    for (name, wanted) in &spec.features {
        // Skip unknown features, because the module `names` reports them.
        let Some(feature) = catalog.features.get(name) else { continue };
        let before = findings.len();
        validate_feature(&mut patterns, &feature.schema, wanted, &format!("spec.features.{name}"), findings);
        if findings.len() == before {
            merge(&mut features, Map::from_iter([(name.clone(), wanted.clone())]));
        }
    }
    features
}

/// Returns the fields of features that refer to a key of a Secret, each with the names of the Secret and the key.
///
/// Ignores the spec's settings of a feature if they violate the feature's schema.
pub fn list_feature_secrets(spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> Vec<SecretField> {
    catalog.secret_references(&merge_features(spec, catalog, &mut Vec::new()))
}

fn refused(field: &str, message: String) -> Finding {
    Finding::new(Level::Error, field, message)
}

/// Validates the spec's settings of a feature against the feature's schema, and adds the errors to the findings.
fn validate_feature<'a>(
    patterns: &mut Patterns<'a>,
    schema: &'a Value,
    value: &'a Value,
    field: &str,
    findings: &mut Vec<Finding>,
) {
    let faults = validate_with(patterns, schema, value, field, Nulls::Kept);
    let has_pattern_fault = |field: &str| {
        faults.iter().any(|fault| fault.field == field && matches!(fault.problem, ViolationKind::Pattern(_)))
    };
    // If a string violates both its pattern and its length limit, report only the violation of the pattern.
    let is_length =
        |fault: &&SchemaViolation<'_>| matches!(fault.problem, ViolationKind::Longer(_) | ViolationKind::Shorter(_));
    let relevant = faults.iter().filter(|fault| !(is_length(fault) && has_pattern_fault(&fault.field)));
    findings.extend(relevant.map(|fault| {
        let message = violation_message(fault, field_description(schema, &fault.explained, field));
        refused(&fault.field, redact_url_logins(&message))
    }));
}

/// The text that precedes the pattern in messages such as `"x" does not match ^[0-9]+$`.
///
/// osdpl does not redact the pattern: a pattern is no secret, even if it looks like a URL with a password.
const PATTERN: &str = " does not match ";

/// Redacts passwords of URLs in a message about an invalid value. If it redacts a password, it also adds to the message
/// that the value must contain no user and no password.
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
