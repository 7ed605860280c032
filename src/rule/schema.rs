//! The schema of a custom resource, judged offline in the API server's own words (k8s.io/apiextensions-apiserver `pkg/apiserver/validation`,
//! kube-openapi `pkg/validation`), each with a remedy after it.

use serde_json::Value;

use super::Judged;
use crate::catalog::schema::{Fault, Nulls, Problem, faults};
use crate::scrub::Scrubber;

pub use crate::catalog::schema::below;

/// Everything that `schema` says against `value`, which stands at `field`; `explained` is what `kubectl explain` calls the resource. Unknown fields have a
/// rule of their own.
pub fn judge(schema: &Value, value: &Value, field: &str, explained: &str) -> Vec<Judged> {
    let faults = faults(schema, value, field, Nulls::Dropped);
    let said = faults.iter().filter_map(|fault| {
        // An address may have a password in it.
        let problem = Scrubber::default().scrub(&problem(fault)?);
        let message = format!("{problem}; `kubectl explain {explained}.{}` says what it takes", fault.explained);
        Some(Judged::error("schema", fault.field.clone(), message))
    });
    said.collect()
}

fn problem(Fault { field, value, problem, .. }: &Fault<'_>) -> Option<String> {
    let length = match value {
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    };
    Some(match problem {
        Problem::Type(wanted) => {
            let kind = kind(value);
            format!("Invalid value: \"{kind}\": {field} in body must be of type {wanted}: \"{kind}\"")
        }
        Problem::Enum(allowed) => {
            let list = allowed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            format!("Unsupported value: {value}: supported values: {list}")
        }
        Problem::Longer(most) => format!("Too long: may not be more than {most} bytes"),
        Problem::Shorter(least) => {
            format!("Invalid value: {value}: {field} in body should be at least {least} chars long")
        }
        Problem::Pattern(pattern) => format!("Invalid value: {value}: {field} in body should match '{pattern}'"),
        Problem::Time => format!("Invalid value: {value}: {field} in body must be of type date-time: {value}"),
        Problem::Below(least) => {
            format!("Invalid value: {value}: {field} in body should be greater than or equal to {least}")
        }
        Problem::Above(most) => {
            format!("Invalid value: {value}: {field} in body should be less than or equal to {most}")
        }
        Problem::TooMany(most) => format!("Too many: {length}: must have at most {most} items"),
        Problem::TooFewItems(least) => {
            format!("Invalid value: {length}: {field} in body should have at least {least} items")
        }
        Problem::TooFewProperties(least) => {
            format!("Invalid value: {length}: {field} in body should have at least {least} properties")
        }
        Problem::Required => "Required value".to_owned(),
        Problem::Unknown(..) => return None,
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
