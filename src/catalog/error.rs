//! What can be wrong with a catalogue.

use std::fmt;

use crate::{expr, values, yaml};

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A file is no YAML or not of its schema.
    #[error("{0}; fix the file, the schema is in the reference of src/catalog/file.rs")]
    Yaml(#[from] yaml::Error),
    /// An expression is wrong.
    #[error("{file}:{line}: {field}: {error}")]
    Expression {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The field.
        field: String,
        /// What is wrong.
        error: expr::Error,
    },
    /// A path is wrong.
    #[error("{file}: {field}: {error}")]
    Path {
        /// The file.
        file: String,
        /// The field.
        field: String,
        /// What is wrong.
        error: values::PathError,
    },
    /// A name is used that nothing has.
    #[error("{file}: {field}: there is no {kind} {name:?}{hint}; correct the name or add its file")]
    Unknown {
        /// The file.
        file: String,
        /// The field.
        field: String,
        /// What kind of thing is missing.
        kind: &'static str,
        /// The unknown name.
        name: String,
        /// `, did you mean …?`, or nothing.
        hint: String,
    },
    /// Releases need each other in a circle.
    #[error(
        "releases need each other in a circle: {0}; remove one of these needs (pods that wait for each other need none)"
    )]
    Cycle(String),
    /// Anything else.
    #[error("{file}: {problem}")]
    Other {
        /// The file.
        file: String,
        /// What is wrong and what to do.
        problem: String,
    },
}

/// Everything that is wrong, at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(pub Vec<Error>);

impl fmt::Display for Errors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(formatter, "{}{error}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// `, did you mean "nova"?` for the candidate nearest to `name`, where one is near enough.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let nearest = candidates.into_iter().map(|candidate| (distance(name, candidate), candidate)).min();
    match nearest {
        Some((distance, candidate)) if distance <= 1 + name.len() / 4 => format!(", did you mean {candidate:?}?"),
        _ => String::new(),
    }
}

/// Levenshtein's distance.
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (i, left) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in two.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[two.len()]
}
