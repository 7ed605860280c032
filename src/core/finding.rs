//! Findings: errors, warnings and notes about a resource, each with its location and remedy.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::catalog::Level;

/// The rule of the findings that follow from the catalogue: unknown names, unmet needs, and the catalogue's own checks.
pub const CATALOGUE: &str = "catalogue";

/// An error, warning or note about a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The name of the rule that the resource violates; `osdpl validate -o sarif` describes each rule.
    pub rule: &'static str,
    /// The severity; osdpl refuses a resource with an error.
    pub level: Level,
    /// The field that the finding is about, and its line if the resource was read from a file.
    pub location: Location,
    /// The problem, for people; also the remedy, unless `remedy` has it.
    pub message: String,
    /// What the user must do to resolve the problem; `None` if `message` says it.
    pub remedy: Option<&'static str>,
}

/// The field that a finding is about, and its line if the resource was read from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line of the file from which the resource was read; `None` if it was not read from a file.
    pub source: Option<SourceLine>,
    /// The field of the resource, such as `spec.services.nova`; empty for the whole resource.
    pub field: String,
}

/// A line of a file from which a resource was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLine {
    /// The name of the file as the user gave it; `stdin` for standard input.
    pub file: String,
    /// The number of the field's line, from 1; of its nearest parent's line if the file does not have the field.
    pub line: u64,
    /// The kind and name of the resource; empty if the document could not be parsed.
    pub resource: String,
}

impl Finding {
    /// Returns a finding of the rule [`CATALOGUE`] about a field.
    pub fn new(level: Level, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of_rule(CATALOGUE, level, field, message)
    }

    /// Returns an error, which makes osdpl refuse the resource.
    pub fn error(rule: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of_rule(rule, Level::Error, field, message)
    }

    /// Returns a warning, which does not make osdpl refuse the resource.
    pub fn warning(rule: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of_rule(rule, Level::Warning, field, message)
    }

    fn of_rule(rule: &'static str, level: Level, field: impl Into<String>, message: impl Into<String>) -> Self {
        let location = Location { source: None, field: field.into() };
        Self { rule, level, location, message: message.into(), remedy: None }
    }

    /// Sets the text that says what the user must do to resolve the problem.
    #[must_use]
    pub fn with_remedy(self, remedy: &'static str) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// Sets the field that the finding is about.
    #[must_use]
    pub fn at_field(mut self, field: impl Into<String>) -> Self {
        self.location.field = field.into();
        self
    }

    /// Sets the file and line that the finding is about.
    #[must_use]
    pub fn at_line(mut self, source: SourceLine) -> Self {
        self.location.source = Some(source);
        self
    }

    /// Returns the field that the finding is about; empty for the whole resource.
    pub fn field(&self) -> &str {
        &self.location.field
    }

    /// Returns the name of the file from which the resource was read; empty if it was not read from a file.
    pub fn file(&self) -> &str {
        self.location.source.as_ref().map_or("", |source| &source.file)
    }

    /// Returns the number of the finding's line in the file, from 1; 1 if the resource was not read from a file.
    pub fn line(&self) -> u64 {
        self.location.source.as_ref().map_or(1, |source| source.line)
    }

    /// Returns the kind and name of the resource; empty if it is not known.
    pub fn resource(&self) -> &str {
        self.location.source.as_ref().map_or("", |source| &source.resource)
    }

    /// Returns the problem and the remedy as one text.
    pub fn text(&self) -> String {
        match self.remedy {
            Some(remedy) => format!("{}; {remedy}", self.message),
            None => self.message.clone(),
        }
    }
}

/// Formats a finding as one line: the field, the problem and the remedy.
impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Do not write the field twice: some messages already begin with it.
        if !self.message.starts_with(self.field()) {
            write!(formatter, "{}: ", self.field())?;
        }
        formatter.write_str(&self.text())
    }
}

/// Writes a finding as `osdpl validate -o json` prints it.
impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Finding", 7)?;
        fields.serialize_field("file", self.file())?;
        fields.serialize_field("line", &self.line())?;
        fields.serialize_field("level", self.level.as_str())?;
        fields.serialize_field("rule", self.rule)?;
        fields.serialize_field("resource", self.resource())?;
        fields.serialize_field("field", self.field())?;
        fields.serialize_field("message", &self.text())?;
        fields.end()
    }
}
