//! A finding as programs are told it, in the words of `osdpl validate`.

use std::fmt;

use serde::Serialize;

use super::document::Document;
use osdpl_core::desired::Finding;
use osdpl_lint::rule::{Reported, keys_of};

/// A finding about the spec.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Said {
    /// The resource's file, where it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it, from 1, of the field or of what is nearest above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    pub level: &'static str,
    /// The field of the resource; empty for the whole.
    pub field: String,
    pub message: String,
}

impl Said {
    /// What is said of a resource; `document` is its own, where it was read from a file.
    pub fn of(finding: &Finding, document: Option<&Document>) -> Self {
        let keys = keys_of(&finding.field);
        Self {
            file: document.map(|document| document.file().to_owned()),
            line: document.map(|document| document.number(keys.iter().map(String::as_str))),
            level: finding.level.word(),
            field: finding.field.clone(),
            message: finding.message.clone(),
        }
    }

    /// The same with another text in the place of what must not be shown.
    #[must_use]
    pub fn scrubbed(self, scrub: impl Fn(&str) -> String) -> Self {
        Self { message: scrub(&self.message), ..self }
    }
}

impl From<Reported> for Said {
    fn from(Reported { file, line, level, field, message, .. }: Reported) -> Self {
        Self { file: Some(file), line: Some(line), level, field, message }
    }
}

/// For people, without its place.
impl fmt::Display for Said {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, field, message, .. } = self;
        // A message that begins with its field needs it no second time.
        let field = if message.starts_with(field.as_str()) { String::new() } else { format!("{field}: ") };
        write!(formatter, "{level}: {field}{message}")
    }
}
