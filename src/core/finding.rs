//! Findings: problems and remarks about a resource.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::catalog::Level;

/// The name of the rule for findings about names, requirements and checks of the catalogue.
pub const CATALOGUE: &str = "catalogue";

/// A problem or remark about a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The rule's name; `osdpl validate -o sarif` describes each.
    pub rule: &'static str,
    /// The severity; an error refuses the resource.
    pub level: Level,
    /// The field, and the line of a file.
    pub location: Location,
    /// The problem. It contains the remedy, too, unless `remedy` is set.
    pub message: String,
    /// The action that resolves the problem.
    pub remedy: Option<&'static str>,
}

/// The location of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line of a file; `None` if the resource was not read from a file.
    pub source: Option<SourceLine>,
    /// The field, such as `spec.services.nova`; empty for the whole resource.
    pub field: String,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLine {
    /// The file as the user named it; `stdin` for standard input.
    pub file: String,
    /// The line, from 1, of the field or of its nearest parent.
    pub line: u64,
    /// The kind and name of the resource; empty if the document could not be parsed.
    pub resource: String,
}

impl Finding {
    /// Returns a finding of the catalogue's rule about a field.
    pub fn new(level: Level, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of_rule(CATALOGUE, level, field, message)
    }

    /// Returns a finding that refuses the resource.
    pub fn error(rule: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of_rule(rule, Level::Error, field, message)
    }

    /// Returns a finding that does not refuse the resource.
    pub fn warning(rule: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of_rule(rule, Level::Warning, field, message)
    }

    fn of_rule(rule: &'static str, level: Level, field: impl Into<String>, message: impl Into<String>) -> Self {
        let location = Location { source: None, field: field.into() };
        Self { rule, level, location, message: message.into(), remedy: None }
    }

    /// Adds the remedy.
    #[must_use]
    pub fn with_remedy(self, remedy: &'static str) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// Moves the finding to another field.
    #[must_use]
    pub fn at_field(mut self, field: impl Into<String>) -> Self {
        self.location.field = field.into();
        self
    }

    /// Adds the line of a file.
    #[must_use]
    pub fn at_line(mut self, source: SourceLine) -> Self {
        self.location.source = Some(source);
        self
    }

    /// Returns the field; empty for the whole resource.
    pub fn field(&self) -> &str {
        &self.location.field
    }

    /// Returns the file; empty if the resource was not read from a file.
    pub fn file(&self) -> &str {
        self.location.source.as_ref().map_or("", |source| &source.file)
    }

    /// Returns the line in the file, from 1.
    pub fn line(&self) -> u64 {
        self.location.source.as_ref().map_or(1, |source| source.line)
    }

    /// Returns the kind and name of the resource; empty if it is not known.
    pub fn resource(&self) -> &str {
        self.location.source.as_ref().map_or("", |source| &source.resource)
    }

    /// Returns the problem and the remedy.
    pub fn text(&self) -> String {
        match self.remedy {
            Some(remedy) => format!("{}; {remedy}", self.message),
            None => self.message.clone(),
        }
    }
}

/// Formats the field, the problem and the remedy.
impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Avoid repeating the field if the message already begins with it.
        if !self.message.starts_with(self.field()) {
            write!(formatter, "{}: ", self.field())?;
        }
        formatter.write_str(&self.text())
    }
}

/// The form of `osdpl validate -o json`.
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
