//! Results of comparisons between the desired state of a release and a revision that someone made without osdpl.

use std::fmt;

use k8s_openapi::jiff::Timestamp;

/// The maximum number of paths of differing values that a message lists.
const NAMED: usize = 6;

/// The comparison of one revision of a release with the desired state of the release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestComparison {
    /// The number of the revision that the operator compared with the desired state.
    pub revision: i64,
    /// The digest of the desired inputs (chart, values, name and flags) with which the operator compared the revision.
    pub inputs: String,
    /// Whether and how the revision differs from the desired state.
    pub result: ComparisonResult,
    /// When the operator repeats the comparison even without a new revision or new desired inputs; `None` if nothing
    /// else can change the result.
    pub until: Option<Timestamp>,
}

/// The result of comparing a revision with the desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComparisonResult {
    /// The revision has the desired chart and the same effective values, so an upgrade would change nothing.
    Same,
    /// An upgrade to the desired state would change the release.
    Differs {
        /// The difference between the revision's chart and the desired chart; `None` if the charts are the same.
        chart: Option<String>,
        /// The paths of the values that differ between the revision and the desired state, sorted.
        paths: Vec<String>,
    },
    /// Another tool manages the release. Contains a message that names the tool and says what to do.
    Owned(String),
    /// The comparison failed. Contains the reason.
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
