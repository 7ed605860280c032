//! YAML in. The script that runs before the library is built (`src/files/compile.rs`) reads the catalogue by it as well.

#[path = "problem.rs"]
pub mod problem;

use serde::de::DeserializeOwned;

/// Why a text is not the YAML it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}:{line}:{column}: {problem}")]
pub struct Error {
    /// The file or object that holds the text.
    pub place: String,
    /// The line, from 1; 0 where unknown.
    pub line: u64,
    /// The column, from 1; 0 where unknown.
    pub column: u64,
    /// What is wrong, without the text itself: it may be a secret.
    pub problem: String,
}

/// Reads YAML as helm does where the two differ: `0644` is octal (YAML 1.1). Duplicate keys are errors.
///
/// # Errors
/// With line and column, when the text is no YAML or not of the shape of `T`.
pub fn parse<T: DeserializeOwned>(place: &str, text: &str) -> Result<T, Error> {
    // Comments are of no use here, and where they are read, 33 lines of them in one place are refused as an attack.
    // Many aliases of few anchors are how the catalogue gives many releases the same; what they may grow to is bounded all the same.
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
        emit_comments: false,
        budget: serde_saphyr::budget! {
            enforce_alias_anchor_ratio: false,
            max_nodes: problem::NODES,
            max_depth: problem::DEPTH,
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let (line, column) = error.location().map_or((0, 0), |place| (place.line(), place.column()));
        let problem = problem::told(&error.without_snippet().to_string());
        Error { place: place.to_owned(), line, column, problem }
    })
}
