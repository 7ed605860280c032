//! Checks resources against the schema of the CRD without an API server.
//!
//! The checks are the same as those of the API server (k8s.io/apiextensions-apiserver `pkg/apiserver/validation`,
//! kube-openapi `pkg/validation`). The messages are osdpl's own.

use serde_json::Value;

use osdpl_core::catalog::schema::{
    Nulls, SchemaViolation, ViolationKind, field_description, validate, violation_message,
};
use osdpl_core::desired::redact_url_logins;
use osdpl_core::finding::Finding;

/// Returns a finding for each violation of `schema` in `value`.
///
/// `field` is the path of the field that contains `value`. The function does not report unknown fields, because
/// [`unknown_fields`](super::fields::unknown_fields) reports them.
pub(super) fn check(schema: &Value, value: &Value, field: &str) -> Vec<Finding> {
    let found = validate(schema, value, field, Nulls::Dropped);
    let has_wrong_format = |field: &str| {
        found.iter().any(|violation| {
            violation.field == field && matches!(violation.problem, ViolationKind::Pattern(_) | ViolationKind::Enum(_))
        })
    };
    let is_reported = |violation: &&SchemaViolation<'_>| match violation.problem {
        ViolationKind::Unknown(..) => false,
        // If a string has the wrong format, report only the format. The length of the string is then irrelevant.
        ViolationKind::Longer(_) | ViolationKind::Shorter(_) => !has_wrong_format(&violation.field),
        _ => true,
    };
    let found = found.iter().filter(is_reported);
    let findings = found.map(|violation| {
        // The message may contain the value, which may be a URL with a password. Redact the password.
        let message =
            redact_url_logins(&violation_message(violation, field_description(schema, &violation.explained, field)));
        Finding::error("schema", violation.field.clone(), message)
    });
    findings.collect()
}
