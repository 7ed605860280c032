//! Reading of YAML. The build script (`src/core/build.rs`) includes this file to read the catalogue.

#[path = "problem.rs"]
pub mod problem;

use serde::de::DeserializeOwned;

/// An error of a text that is not valid YAML of the expected type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct Error {
    /// The file or object that contains the text.
    pub file: String,
    /// The line, from 1; 0 where unknown.
    pub line: u64,
    /// The column, from 1; 0 where unknown.
    pub column: u64,
    /// The problem. It never contains values, which may be secrets.
    pub message: String,
}

/// Reads YAML as helm does where YAML versions differ: `0644` is octal (YAML 1.1). Duplicate keys are errors.
///
/// # Errors
/// If the text is not valid YAML, or not of the type `T`; with line and column.
pub fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Error> {
    // Comments are not needed, and the library rejects more than 32 lines of them in one place as an attack. The
    // catalogue uses many aliases of few anchors to give many releases the same values, so their ratio is not limited.
    // The size of the expanded document still is.
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
        let (line, column) = error.location().map_or((0, 0), |location| (location.line(), location.column()));
        let problem = problem::translate(&error.without_snippet().to_string());
        Error { file: file.to_owned(), line, column, message: problem }
    })
}
