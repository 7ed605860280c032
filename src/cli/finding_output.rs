//! Converts findings to JSON and text. The JSON of a finding has the same keys in the output of every subcommand.

use std::fmt;

use serde::Serialize;

use super::document::Document;
use osdpl_core::finding::{Finding, Location};
use osdpl_lint::validate::keys_of_field;

/// A finding about a resource, in the form that the command line prints: JSON or text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct FindingOutput {
    /// The file that the resource was read from; absent for a resource of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line number of the field in the file, from 1. If the file does not contain the field, the line number of its
    /// nearest parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    pub level: &'static str,
    /// The field of the resource; empty if the finding is about the whole resource.
    pub field: String,
    pub message: String,
}

impl FindingOutput {
    /// Converts a finding about a resource to the form that the command line prints. `document` is the file that
    /// contains the resource; `None` if the resource comes from the cluster.
    pub(crate) fn of(finding: &Finding, document: Option<&Document>) -> Self {
        let keys = keys_of_field(&finding.location.field);
        Self {
            file: document.map(|document| document.file().to_owned()),
            line: document.map(|document| document.number(keys.iter().map(String::as_str))),
            level: finding.level.as_str(),
            field: finding.field().to_owned(),
            message: finding.text(),
        }
    }

    /// Returns the finding after `scrub` has removed the secrets from its message.
    #[must_use]
    pub(crate) fn scrubbed(self, scrub: impl Fn(&str) -> String) -> Self {
        Self { message: scrub(&self.message), ..self }
    }
}

impl From<Finding> for FindingOutput {
    fn from(finding: Finding) -> Self {
        let (level, message) = (finding.level.as_str(), finding.text());
        let Location { source, field } = finding.location;
        let (file, line) = source.map(|source| (source.file, source.line)).unzip();
        Self { file, line, level, field, message }
    }
}

/// Formats the finding without its file and line.
impl fmt::Display for FindingOutput {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, field, message, .. } = self;
        // Many messages begin with the field. Do not print the field twice.
        let field = if message.starts_with(field.as_str()) { String::new() } else { format!("{field}: ") };
        write!(formatter, "{level}: {field}{message}")
    }
}
