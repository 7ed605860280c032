//! Checks resources against the schema of the CRD offline, as the API server does (k8s.io/apiextensions-apiserver
//! `pkg/apiserver/validation`, kube-openapi `pkg/validation`), with messages of its own.

use serde_json::Value;

use osdpl_core::catalog::schema::{
    Nulls, SchemaViolation, ViolationKind, field_description, validate, violation_message,
};
use osdpl_core::desired::redact_url_logins;
use osdpl_core::finding::Finding;

pub use osdpl_core::catalog::schema::field_path;

/// Returns all violations of `schema` in `value` at `field`. Unknown fields have a rule of their own.
pub fn check(schema: &Value, value: &Value, field: &str) -> Vec<Finding> {
    let found = validate(schema, value, field, Nulls::Dropped);
    let is_misshapen = |field: &str| {
        found.iter().any(|fault| {
            fault.field == field && matches!(fault.problem, ViolationKind::Pattern(_) | ViolationKind::Enum(_))
        })
    };
    let is_reported = |fault: &&SchemaViolation<'_>| match fault.problem {
        ViolationKind::Unknown(..) => false,
        // A text of the wrong format need not be reported for its length as well.
        ViolationKind::Longer(_) | ViolationKind::Shorter(_) => !is_misshapen(&fault.field),
        _ => true,
    };
    let found = found.iter().filter(is_reported);
    let judged = found.map(|fault| {
        // A URL may contain a password.
        let message = redact_url_logins(&violation_message(fault, field_description(schema, &fault.explained, field)));
        Finding::error("schema", fault.field.clone(), message)
    });
    judged.collect()
}
