//! Defines findings: errors, warnings and notes about a custom resource of osdpl, each with its location and remedy.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

/// The rule name of findings that no rule of the crate `osdpl-lint` reports. Most of these findings come from the
/// catalogue: unknown names, services that lack another service that they need, and violations of the catalogue's
/// checks. The others are, for example, warnings about nodes and annotations.
pub const CATALOGUE: &str = "catalogue";

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Information that requires no action, for example that osdpl added a service.
    Note,
    /// A problem despite which the operator accepts the `OpenStackDeployment`.
    Warning,
    /// A problem because of which the operator refuses the `OpenStackDeployment`.
    Error,
}

impl Level {
    /// Returns the word for the severity in messages, such as `warning`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A finding: an error, warning or note about a custom resource, with its location and remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The name of the rule that the resource violates; `osdpl validate -o sarif` describes each rule.
    pub rule: &'static str,
    /// Whether the finding is an error, a warning or a note. osdpl refuses a resource that has an error.
    pub level: Level,
    /// The field that the finding is about; if osdpl read the resource from a file, also the line of the field.
    pub location: Location,
    /// The problem, in words for the user. If `remedy` is `None`, the message also says how to resolve the problem.
    pub message: String,
    /// The action that the user must take to resolve the problem; `None` if `message` says what to do.
    pub remedy: Option<&'static str>,
}

/// The field that a finding is about; if osdpl read the resource from a file, also the line of the field.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line of the field in its file; `None` if osdpl did not read the resource from a file.
    pub source: Option<SourceLine>,
    /// The field of the resource that the finding is about, such as `spec.services.nova`; empty if the finding is about
    /// the whole resource.
    pub field: String,
}

/// A line of a file from which osdpl read a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLine {
    /// The name of the file as the user gave it; `stdin` for standard input.
    pub file: String,
    /// The line number of the field in the file, from 1. If the file does not contain the field, this is the line of
    /// the field's nearest parent.
    pub line: u64,
    /// The kind and name of the resource that the line belongs to; empty if osdpl could not parse the YAML document.
    pub resource: String,
}

impl Finding {
    /// Creates a finding of the rule [`CATALOGUE`] about a field of the resource.
    pub fn new(level: Level, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of_rule(CATALOGUE, level, field, message)
    }

    /// Creates a finding with the level error. osdpl refuses a resource that has such a finding.
    pub fn error(rule: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of_rule(rule, Level::Error, field, message)
    }

    /// Creates a finding with the level warning. osdpl accepts a resource despite its warnings.
    pub fn warning(rule: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of_rule(rule, Level::Warning, field, message)
    }

    fn of_rule(rule: &'static str, level: Level, field: impl Into<String>, message: impl Into<String>) -> Self {
        let location = Location { source: None, field: field.into() };
        Self { rule, level, location, message: message.into(), remedy: None }
    }

    /// Sets the remedy: what the user must do to resolve the problem.
    #[must_use]
    pub fn with_remedy(self, remedy: &'static str) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// Sets the field of the resource that the finding is about.
    #[must_use]
    pub fn at_field(mut self, field: impl Into<String>) -> Self {
        self.location.field = field.into();
        self
    }

    /// Sets the line of the file from which osdpl read the field that the finding is about.
    #[must_use]
    pub fn at_line(mut self, source: SourceLine) -> Self {
        self.location.source = Some(source);
        self
    }

    /// Returns the field that the finding is about; empty if the finding is about the whole resource.
    pub fn field(&self) -> &str {
        &self.location.field
    }

    /// Returns the name of the file from which osdpl read the resource; empty if osdpl did not read the resource from a
    /// file.
    pub fn file(&self) -> &str {
        self.location.source.as_ref().map_or("", |source| &source.file)
    }

    /// Returns the line number of the field in its file, from 1. Returns 1 if osdpl did not read the resource from a
    /// file.
    pub fn line(&self) -> u64 {
        self.location.source.as_ref().map_or(1, |source| source.line)
    }

    /// Returns the kind and name of the resource that the finding is about; empty if osdpl did not read the resource
    /// from a file, or could not parse its YAML document.
    pub fn resource(&self) -> &str {
        self.location.source.as_ref().map_or("", |source| &source.resource)
    }

    /// Returns the message, followed by the remedy if there is one.
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
        // Some messages already begin with the field, so do not write the field twice.
        if !self.message.starts_with(self.field()) {
            write!(formatter, "{}: ", self.field())?;
        }
        formatter.write_str(&self.text())
    }
}

/// Serializes a finding in the format that `osdpl validate -o json` prints.
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
