//! Defines findings: errors, warnings and notes about a custom resource of osdpl, each with its location and remedy.

use std::fmt;

use serde::ser::SerializeMap;
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
    /// The problem, in words for the user: what happened, and why.
    pub message: String,
    /// What the user must do to resolve the problem. Each error and warning has a remedy; a note may have none.
    pub remedy: Option<String>,
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

/// `text` has the form "what happened: why; what to do". The part after the first "; " is the remedy.
impl Finding {
    /// Creates a finding of the rule [`CATALOGUE`] about a field of the resource.
    pub fn new(level: Level, field: impl Into<String>, text: impl Into<String>) -> Self {
        Self::of_rule(CATALOGUE, level, field.into(), text.into())
    }

    /// Creates a finding with the level error. osdpl refuses a resource that has such a finding.
    pub fn error(rule: &'static str, field: impl Into<String>, text: impl Into<String>) -> Self {
        Self::of_rule(rule, Level::Error, field.into(), text.into())
    }

    /// Creates a finding with the level warning. osdpl accepts a resource despite its warnings.
    pub fn warning(rule: &'static str, field: impl Into<String>, text: impl Into<String>) -> Self {
        Self::of_rule(rule, Level::Warning, field.into(), text.into())
    }

    fn of_rule(rule: &'static str, level: Level, field: String, text: String) -> Self {
        // A value of the user in quotes may contain "; ", so split only outside of quotes.
        let is_unquoted = |end: &usize| text[..*end].matches('"').count().is_multiple_of(2);
        let end = text.match_indices("; ").map(|(end, _)| end).find(is_unquoted);
        let (mut message, location) = (text, Location { source: None, field });
        let remedy = end.map(|end| message.split_off(end).split_off("; ".len()));
        Self { rule, level, location, message, remedy }
    }

    /// Returns the finding after `scrub` has removed the secrets from its message and remedy.
    #[must_use]
    pub fn scrubbed(self, scrub: &dyn Fn(&str) -> String) -> Self {
        // Scrub the text as a whole: a secret may contain "; ".
        let scrubbed = Self::of_rule(self.rule, self.level, self.location.field.clone(), scrub(&self.text()));
        Self { message: scrubbed.message, remedy: scrubbed.remedy, ..self }
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
        match &self.remedy {
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

/// Serializes a finding in the format that all commands print with `-o json`. If osdpl did not read the resource from a
/// file, the keys `file`, `line` and `resource` are absent. If the finding has no remedy, `remedy` is absent.
impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        if let Some(SourceLine { file, line, resource }) = &self.location.source {
            fields.serialize_entry("file", file)?;
            fields.serialize_entry("line", line)?;
            fields.serialize_entry("resource", resource)?;
        }
        fields.serialize_entry("level", self.level.as_str())?;
        fields.serialize_entry("rule", self.rule)?;
        fields.serialize_entry("field", self.field())?;
        fields.serialize_entry("message", &self.message)?;
        if let Some(remedy) = &self.remedy {
            fields.serialize_entry("remedy", remedy)?;
        }
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn splits_text_into_message_and_remedy() {
        for (text, message, remedy) in [
            ("a is b: c; remove it; see d", "a is b: c", Some("remove it; see d")),
            ("\"1; 2\" is no address; write one", "\"1; 2\" is no address", Some("write one")),
            ("added a service", "added a service", None),
        ] {
            let finding = Finding::new(Level::Note, "spec.a", text);
            assert_eq!((finding.message.as_str(), finding.remedy.as_deref()), (message, remedy));
            assert_eq!(finding.text(), text);
        }
    }

    #[test]
    fn scrubs_message_and_remedy() {
        let finding = Finding::error("cel", "spec.a", "it is s1; s2 or s3; write s2");
        let scrubbed = finding.scrubbed(&|text| text.replace("s1; s2", "…").replace("s2", "…"));
        assert_eq!((scrubbed.message.as_str(), scrubbed.remedy.as_deref()), ("it is … or s3", Some("write …")));
    }

    #[test]
    fn json_has_file_and_remedy_if_known() {
        let finding = Finding::new(Level::Note, "spec.a", "added a service");
        let expected = json!({"level": "note", "rule": CATALOGUE, "field": "spec.a", "message": "added a service"});
        assert_eq!(serde_json::to_value(&finding).unwrap(), expected);
        let line = SourceLine { file: "a.yaml".into(), line: 2, resource: "A b".into() };
        let located = serde_json::to_value(Finding::error("cel", "", "a; b").at_line(line)).unwrap();
        let expected = json!({"file": "a.yaml", "line": 2, "resource": "A b", "level": "error", "rule": "cel", "field": "", "message": "a", "remedy": "b"});
        assert_eq!(located, expected);
    }
}
