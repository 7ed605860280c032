//! A case as it is written: what is wrong with its fields, each by its name.

use serde::Deserialize as _;
use serde_json::Value;

use super::case::{Case, Expectation};
use crate::catalog::did_you_mean;

/// What is wrong with a case, and where.
pub struct Fault {
    /// The keys below the case that lead there.
    pub below: Vec<String>,
    /// What is wrong, and what to do.
    pub problem: String,
}

/// The fields of a case.
const FIELDS: [&str; 6] = ["name", "file", "spec", "presets", "with", "expect"];

/// The fields of an expectation.
const EXPECTED: [&str; 11] =
    ["release", "path", "equals", "atLeast", "atMost", "matches", "exists", "holds", "wanted", "refused", "warns"];

/// Reads a case.
///
/// # Errors
/// The first thing that is wrong with its fields.
pub fn case(written: &Value) -> Result<Case, Fault> {
    if let Some((field, problem)) = unknown(written, &FIELDS) {
        return Err(Fault { below: vec![field], problem });
    }
    for (number, expectation) in written["expect"].as_array().into_iter().flatten().enumerate() {
        let at = |field: Option<String>| ["expect".to_owned(), number.to_string()].into_iter().chain(field).collect();
        if let Some((field, problem)) = unknown(expectation, &EXPECTED).or_else(|| no_number(expectation)) {
            return Err(Fault { below: at(Some(field)), problem });
        }
        if let Err(error) = Expectation::deserialize(expectation) {
            return Err(Fault { below: at(None), problem: format!("{error}; correct it") });
        }
    }
    Case::deserialize(written).map_err(|error| Fault { below: Vec::new(), problem: format!("{error}; correct it") })
}

/// A field that is none of these, and what is said of it.
fn unknown(written: &Value, fields: &[&str]) -> Option<(String, String)> {
    let field = written.as_object()?.keys().find(|field| !fields.contains(&field.as_str()))?;
    let hint = did_you_mean(field, fields.iter().copied());
    Some((field.clone(), format!("there is no field `{field}`{hint}; there are {}", fields.join(", "))))
}

/// A bound that is no number.
fn no_number(expectation: &Value) -> Option<(String, String)> {
    let is_wrong = |field: &&str| !expectation[*field].is_null() && !expectation[*field].is_number();
    let field = ["atLeast", "atMost"].into_iter().find(is_wrong)?;
    Some((field.to_owned(), format!("`{field}` takes a number; correct it, or use `equals` or `matches`")))
}
