//! Checks resources against the schema of the CRD offline, as the API server does (k8s.io/apiextensions-apiserver
//! `pkg/apiserver/validation`, kube-openapi `pkg/validation`), with messages of its own.

use serde_json::Value;

use super::Judged;
use osdpl_core::catalog::schema::{Fault, Nulls, Problem, described, faults, said};
use osdpl_core::desired::without_login;

pub use osdpl_core::catalog::schema::below;

/// Returns all violations of `schema` in `value` at `field`. Unknown fields have a rule of their own.
pub fn judge(schema: &Value, value: &Value, field: &str) -> Vec<Judged> {
    let found = faults(schema, value, field, Nulls::Dropped);
    let is_misshapen = |field: &str| {
        found
            .iter()
            .any(|fault| fault.field == field && matches!(fault.problem, Problem::Pattern(_) | Problem::Enum(_)))
    };
    let is_reported = |fault: &&Fault<'_>| match fault.problem {
        Problem::Unknown(..) => false,
        // A text of the wrong format need not be reported for its length as well.
        Problem::Longer(_) | Problem::Shorter(_) => !is_misshapen(&fault.field),
        _ => true,
    };
    let found = found.iter().filter(is_reported);
    let judged = found.map(|fault| {
        // A URL may contain a password.
        let message = without_login(&said(fault, described(schema, &fault.explained, field)));
        Judged::error("schema", fault.field.clone(), message)
    });
    judged.collect()
}
