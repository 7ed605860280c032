//! The schema of a custom resource, judged offline as the API server judges it (k8s.io/apiextensions-apiserver `pkg/apiserver/validation`,
//! kube-openapi `pkg/validation`), in our own words.

use serde_json::Value;

use super::Judged;
use osdpl_core::catalog::schema::{Fault, Nulls, Problem, described, faults, said};
use osdpl_core::desired::without_login;

pub use osdpl_core::catalog::schema::below;

/// Everything that `schema` says against `value`, which stands at `field`. Unknown fields have a rule of their own.
pub fn judge(schema: &Value, value: &Value, field: &str) -> Vec<Judged> {
    let told = faults(schema, value, field, Nulls::Dropped);
    let is_misshapen = |field: &str| {
        told.iter().any(|fault| fault.field == field && matches!(fault.problem, Problem::Pattern(_) | Problem::Enum(_)))
    };
    let is_told = |fault: &&Fault<'_>| match fault.problem {
        Problem::Unknown(..) => false,
        // What does not have the shape at all need not be counted as well.
        Problem::Longer(_) | Problem::Shorter(_) => !is_misshapen(&fault.field),
        _ => true,
    };
    let told = told.iter().filter(is_told);
    let judged = told.map(|fault| {
        // An address may have a password in it.
        let message = without_login(&said(fault, described(schema, &fault.explained, field)));
        Judged::error("schema", fault.field.clone(), message)
    });
    judged.collect()
}
