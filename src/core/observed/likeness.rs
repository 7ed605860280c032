//! How a revision that someone else made stands to what is wanted.

use std::fmt;

use k8s_openapi::jiff::Timestamp;

/// How many paths of values a sentence names.
const NAMED: usize = 6;

/// The comparison of one revision with one set of inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Likeness {
    /// The revision that was compared.
    pub revision: i64,
    /// The digest of the inputs that it was compared with.
    pub inputs: String,
    /// What came of it.
    pub verdict: Verdict,
    /// Until when that counts, where no watch tells that it has changed.
    pub until: Option<Timestamp>,
}

/// What came of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same chart with the same values, once the chart's defaults are below them: an upgrade would change nothing.
    Same,
    /// An upgrade would change something.
    Differs {
        /// How the chart differs, where it does.
        chart: Option<String>,
        /// The paths of values that differ, in order.
        paths: Vec<String>,
    },
    /// Someone else drives the release: who, and what to do.
    Owned(String),
    /// It can't be told: why.
    Unknown(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => formatter.write_str("nothing would change"),
            Self::Owned(text) | Self::Unknown(text) => formatter.write_str(text),
            Self::Differs { chart, paths } => {
                let mut said: Vec<&str> = chart.iter().map(String::as_str).collect();
                said.extend(paths.iter().take(NAMED).map(String::as_str));
                let more = paths.len().saturating_sub(NAMED);
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                write!(formatter, "it would change {}{more}", said.join(", "))
            }
        }
    }
}
