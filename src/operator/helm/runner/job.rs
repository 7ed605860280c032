//! Defines the types of the Runner: its settings, jobs and running processes.

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
    /// The maximum number of concurrent helm processes. The number can be high, because helm mostly waits for hooks.
    /// But a process takes up to 150 MB of memory while it renders a chart.
    pub slots: usize,
    /// The number of processors. A plan lets at most this number of helm processes render charts at the same time,
    /// because more of them would finish no earlier.
    pub cores: usize,
    /// The time for which a helm process may run after SIGTERM before it gets SIGKILL.
    pub grace: Duration,
    /// The program through which the Runner starts helm, so that helm ends when the operator ends. Usually, this
    /// program is osdpl itself ([`exec::SELF_PATH`](crate::helm::exec::SELF_PATH)). With `None`, the Runner starts helm
    /// directly.
    pub wrapper: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { slots: 12, cores, grace: Duration::from_secs(20), wrapper: Some(super::super::exec::SELF_PATH.into()) }
    }
}

/// An operation on one release, for which the Runner starts helm.
#[derive(Clone, Debug)]
pub struct Job {
    /// The release that helm works on.
    pub release: ReleaseKey,
    /// The operation that helm executes: an upgrade or an uninstall.
    pub operation: Operation,
    /// For an upgrade, the number of the revision that helm makes: the newest revision + 1. For an uninstall, the
    /// number of the release's newest revision.
    pub revision: u32,
    /// The timeout of the whole run of helm. helm's own timeout limits only each hook.
    pub deadline: Duration,
    /// The scrubber that removes secrets from helm's messages.
    pub scrubber: Arc<Scrubber>,
}

/// Why the Runner did not start a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRejection {
    /// A helm process for the release of the job is already running.
    Busy,
    /// The maximum number of helm processes is already running.
    Full,
    /// The operator shuts down.
    Closing,
    /// The values can't be serialised as JSON. This never happens, because they are a JSON value already.
    Values,
}

impl fmt::Display for JobRejection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Busy => "helm is already running for this release",
            Self::Full => "all helm slots are in use; the operator tries again when a slot becomes free",
            Self::Closing => "the operator is shutting down",
            Self::Values => "the values cannot be written as JSON",
        })
    }
}

/// A running helm process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningJob {
    /// The operation that helm executes: upgrade or uninstall.
    pub verb: Verb,
    /// The attempt, which identifies the operator process, the run of helm and the revision.
    pub attempt: Attempt,
    /// The digest of the inputs with which helm upgrades the release; `None` for an uninstall.
    pub inputs: Option<String>,
    /// When the helm process started.
    pub since: Timestamp,
    /// Why the operator is stopping the process; `None` if the operator is not stopping it.
    pub stopping: Option<StopReason>,
}
