//! The input and the results of the Runner.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::super::{Operation, ReleaseKey, StopReason, Verb};
use osdpl_core::release::Attempt;
use osdpl_core::scrub::Scrubber;

/// The settings of the Runner.
#[derive(Clone, Debug)]
pub struct Config {
    /// The maximum number of concurrent helm processes. It is high, as helm mostly waits for hooks. Each process takes
    /// up to 150 MB while it renders.
    pub slots: usize,
    /// The number of processors.
    pub cores: usize,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The program that makes helm end with the operator, usually [`exec::SELF_PATH`](crate::helm::exec::SELF_PATH);
    /// `None` starts helm directly.
    pub wrapper: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { slots: 12, cores, grace: Duration::from_secs(20), wrapper: Some(super::super::exec::SELF_PATH.into()) }
    }
}

/// An operation on one release.
#[derive(Clone, Debug)]
pub struct Job {
    /// The release.
    pub release: ReleaseKey,
    /// The operation.
    pub operation: Operation,
    /// The revision that the operation makes (newest + 1); for an uninstall, the revision that is removed.
    pub revision: u32,
    /// The timeout of the whole run. helm itself only limits single hooks.
    pub deadline: Duration,
    /// Removes secrets from helm's messages.
    pub scrubber: Arc<Scrubber>,
}

/// Why a job was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRejection {
    /// A helm process for this release is already running.
    Busy,
    /// All slots are taken.
    Full,
    /// The operator shuts down.
    Closing,
    /// The values cannot be written as JSON, which does not happen for a value tree.
    Values,
}

impl fmt::Display for JobRejection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Busy => "helm is already running for this release",
            Self::Full => "all helm slots are in use; the release starts as soon as one is free",
            Self::Closing => "the operator is shutting down",
            Self::Values => "the values cannot be written as JSON",
        })
    }
}

/// A running helm process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningJob {
    /// Its operation.
    pub verb: Verb,
    /// The identity and the revision of the run.
    pub attempt: Attempt,
    /// The digest of its inputs; `None` for an uninstall.
    pub inputs: Option<String>,
    /// When it started.
    pub since: Timestamp,
    /// Why it is being stopped, if so.
    pub stopping: Option<StopReason>,
}
