//! Detects that the content of a chart changed although the spec and the catalogue request the same chart as before.

use std::fmt;

use osdpl_values::digest;

/// The number of hexadecimal digits that a [`ChartIdentity`] keeps of each of its two digests.
const DIGITS: usize = 16;

/// Identifies the chart of a revision by two digests.
///
/// The first is the digest of the request for the chart: the requested version and, if the spec sets a digest for the
/// chart, that digest. The second is the digest of the chart's content.
///
/// `Display` writes the value of [`CHART_LABEL`](super::CHART_LABEL), and [`ChartIdentity::parse`] reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartIdentity {
    request: String,
    content: String,
}

impl ChartIdentity {
    /// Creates the identity of a chart. `version` is the requested version, `requested` is the digest that the spec
    /// sets for the chart, if any, and `content` is the digest of the chart's content.
    pub fn new(version: &str, requested: Option<&str>, content: &str) -> Self {
        Self { request: short_digest(&[version, requested.unwrap_or_default()]), content: short_digest(&[content]) }
    }

    /// Parses the value of [`CHART_LABEL`](super::CHART_LABEL): two digests with a `-` between them. Returns `None` if
    /// the value contains no `-`.
    pub fn parse(label: &str) -> Option<Self> {
        let (request, content) = label.split_once('-')?;
        Some(Self { request: request.to_owned(), content: content.to_owned() })
    }

    /// Whether the content of the chart changed from `before` to `self` although the spec and the catalogue requested
    /// the same chart both times.
    pub(crate) fn is_changed_content_of(&self, before: &Self) -> bool {
        self.request == before.request && !self.has_content_of(before)
    }

    /// Whether this chart has the same content as the chart `other`.
    pub(crate) fn has_content_of(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

impl fmt::Display for ChartIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.request, self.content)
    }
}

fn short_digest(parts: &[&str]) -> String {
    let mut text = digest(parts.iter().copied());
    text.truncate(DIGITS);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_request_has_changed_content() {
        let chart = ChartIdentity::new("2026.1.0", None, "sha256:aa");
        assert!(ChartIdentity::new("2026.1.0", None, "sha256:bb").is_changed_content_of(&chart));
        assert!(!ChartIdentity::new("2026.1.0", None, "sha256:aa").is_changed_content_of(&chart));
        assert!(!ChartIdentity::new("2026.1.1", None, "sha256:bb").is_changed_content_of(&chart));
        assert!(!ChartIdentity::new("2026.1.0", Some("sha256:bb"), "sha256:bb").is_changed_content_of(&chart));
        assert_eq!(ChartIdentity::parse(&chart.to_string()), Some(chart.clone()));
        assert!(chart.to_string().len() <= 63, "a label value has at most 63 characters");
        assert_eq!(ChartIdentity::parse("2026"), None);
    }
}
