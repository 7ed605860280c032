//! A case as it is written: what is wrong with its fields, each by its name.

use serde::Deserialize as _;
use serde_json::Value;

use super::case::Case;
use crate::catalog::did_you_mean;
use crate::yaml;

/// What is wrong with a case, and where.
pub enum Fault {
    /// A field of it.
    Field {
        /// The keys below the case that lead there.
        below: Vec<String>,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Something else.
    Line {
        /// The line of the file, from 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
}

/// The fields of a case.
const FIELDS: [&str; 6] = ["name", "file", "spec", "presets", "with", "expect"];

/// The fields of an expectation.
const EXPECTED: [&str; 11] =
    ["release", "path", "equals", "atLeast", "atMost", "matches", "exists", "holds", "wanted", "refused", "warns"];

/// Reads a case that stands on the lines from `begin` to before `end` of the text, where another one of its file can't be read: by itself, as what it
/// is meant for, so that `y` is a text where one is wanted, and else as it was read with its file.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn case(written: &Value, text: &str, (begin, end): (u64, u64)) -> Result<Case, Fault> {
    let number = |line: u64| usize::try_from(line).unwrap_or(usize::MAX).saturating_sub(1);
    let lines: Vec<&str> = text.lines().take(number(end)).skip(number(begin)).collect();
    let error = match yaml::parse::<(Case,)>("", &lines.join("\n")) {
        Ok((case,)) => return Ok(case),
        Err(error) => error,
    };
    match field(written) {
        Some((below, problem)) => Err(Fault::Field { below, problem }),
        // What is wrong is said by the reader that repeats no value.
        None => Case::deserialize(written)
            .map_err(|_| Fault::Line { line: begin + error.line.saturating_sub(1), problem: error.problem }),
    }
}

/// A field that there is not, or that is a text where a number is wanted.
fn field(written: &Value) -> Option<(Vec<String>, String)> {
    if let Some((field, problem)) = unknown(written, &FIELDS) {
        return Some((vec![field], problem));
    }
    written["expect"].as_array().into_iter().flatten().enumerate().find_map(|(number, expectation)| {
        let (field, problem) = unknown(expectation, &EXPECTED).or_else(|| no_number(expectation))?;
        Some((vec!["expect".to_owned(), number.to_string(), field], problem))
    })
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
