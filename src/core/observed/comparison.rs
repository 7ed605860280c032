//! Comparison of foreign revisions with the desired state.

use std::fmt;

use k8s_openapi::jiff::Timestamp;

/// The number of value paths in a message.
const NAMED: usize = 6;

/// The comparison of one revision with one set of inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestComparison {
    /// The compared revision.
    pub revision: i64,
    /// The digest of the inputs it was compared with.
    pub inputs: String,
    /// The result.
    pub result: ComparisonResult,
    /// When the result expires, if no watch reports changes.
    pub until: Option<Timestamp>,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComparisonResult {
    /// The same chart with the same effective values: an upgrade would change nothing.
    Same,
    /// An upgrade would change something.
    Differs {
        /// The difference of the chart, if any.
        chart: Option<String>,
        /// The value paths that differ, sorted.
        paths: Vec<String>,
    },
    /// Another tool manages the release. Contains the tool and what to do.
    Owned(String),
    /// The comparison failed, with the reason.
    Unknown(String),
}

impl fmt::Display for ComparisonResult {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => formatter.write_str("nothing would change"),
            Self::Owned(text) | Self::Unknown(text) => formatter.write_str(text),
            Self::Differs { chart, paths } => {
                let mut parts: Vec<&str> = chart.iter().map(String::as_str).collect();
                parts.extend(paths.iter().take(NAMED).map(String::as_str));
                let more = paths.len().saturating_sub(NAMED);
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                write!(formatter, "it would change {}{more}", parts.join(", "))
            }
        }
    }
}
