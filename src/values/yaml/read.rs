//! Reads YAML. This file is compiled twice: in this crate, and in the build script `src/core/build.rs`, which reads the
//! catalogue.

#[path = "problem.rs"]
pub(crate) mod problem;

use serde::de::DeserializeOwned;

/// Why a string is not valid YAML of the expected type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct Error {
    /// The file or object that contains the text, for messages.
    pub file: String,
    /// The line of the problem, counted from 1; 0 if unknown.
    pub line: u64,
    /// The column of the problem, counted from 1; 0 if unknown.
    pub column: u64,
    /// The description of the problem. The message contains no values, because values may be secrets.
    pub message: String,
}

/// Reads YAML. If YAML 1.1 and 1.2 differ, the function reads the text as helm does: for example, `0644` is octal.
///
/// A key that occurs twice in a map is an error.
///
/// # Errors
/// Returns an error if the text is not valid YAML, or not of the type `T`. The error contains the line and column.
pub fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Error> {
    // Drop comments, because the YAML library would otherwise reject more than 32 comment lines in a row as an attack.
    // Do not limit the ratio of aliases to anchors, because many releases in the catalogue share the values of a few
    // anchors. Limit the size of the expanded document instead, and of the copies that the library keeps of anchors:
    // it copies a value once for each anchor around the value.
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
        emit_comments: false,
        budget: serde_saphyr::budget! {
            enforce_alias_anchor_ratio: false,
            max_nodes: problem::NODES,
            max_depth: problem::DEPTH,
            max_total_scalar_bytes: problem::TEXT,
            max_recorded_anchor_events: problem::NODES,
            max_recorded_anchor_bytes: problem::TEXT,
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let (line, column) = error.location().map_or((0, 0), |location| (location.line(), location.column()));
        let problem = problem::translate(&error.without_snippet().to_string());
        Error { file: file.to_owned(), line, column, message: problem }
    })
}
