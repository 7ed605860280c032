//! What the Runner is given, and what it tells.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::super::{Key, Stop, Verb};
use osdpl_core::release::Attempt;
use osdpl_core::scrub::Scrubber;

/// How the Runner works.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many children run at once. helm mostly waits for hooks, so many; each takes up to 150 MB while it renders.
    pub slots: usize,
    /// How many processors there are for them.
    pub cores: usize,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The program that ties a child to our life, usually [`exec::SELF`](crate::helm::exec::SELF); `None` starts helm as it is.
    pub wrapper: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { slots: 12, cores, grace: Duration::from_secs(20), wrapper: Some(super::super::exec::SELF.into()) }
    }
}

/// One thing to do to one release.
#[derive(Clone, Debug)]
pub struct Job {
    /// The release.
    pub release: Key,
    /// What to do.
    pub verb: Verb,
    /// The revision this will make (newest + 1); for an uninstall, the one that leaves.
    pub revision: u32,
    /// The longest the whole run may take; helm itself only bounds single hooks.
    pub deadline: Duration,
    /// Knows the secrets that helm's words may quote.
    pub scrubber: Arc<Scrubber>,
}

/// Why a job was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A child of this release runs already.
    Busy,
    /// All slots are taken.
    Full,
    /// The operator ends.
    Closing,
    /// The values cannot be written as JSON, which no values tree does.
    Values,
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Busy => "helm is running for this release already",
            Self::Full => "every helm slot is taken; it starts as soon as one is free",
            Self::Closing => "the operator is ending",
            Self::Values => "the values cannot be written as JSON",
        })
    }
}

/// A child that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// `upgrade` or `uninstall`.
    pub verb: &'static str,
    /// Which run it is, and for which revision.
    pub attempt: Attempt,
    /// The digest of the inputs it works with; `None` for an uninstall.
    pub inputs: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// Why it is being stopped, if it is.
    pub stopping: Option<Stop>,
}
