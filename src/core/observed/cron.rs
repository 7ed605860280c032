//! Observed `CronJobs` and their runs.

use k8s_openapi::jiff::Timestamp;

use super::Issue;
use crate::catalog::Component;

/// A `CronJob`.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedCronJob {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The helm release that owns it.
    pub release: String,
    /// The labels `application` and `component`, from its pods if it has none itself. Most upstream charts omit them.
    pub component: Component,
    /// Whether it is suspended.
    pub suspended: bool,
    /// When its schedule last started a run.
    pub scheduled: Option<Timestamp>,
    /// When a run last succeeded.
    pub succeeded: Option<Timestamp>,
    /// Whether a run is active, scheduled or manual.
    pub running: bool,
    /// The last finished run, while its Job exists.
    pub last: Option<FinishedRun>,
    /// Why its last or active run is not successful.
    pub trouble: Option<Issue>,
}

/// A Job that a `CronJob` created.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The `CronJob`'s name.
    pub cron: String,
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// Its state.
    pub end: RunState,
    /// When it finished.
    pub ended: Option<Timestamp>,
}

/// A finished run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedRun {
    /// The Job.
    pub job: String,
    /// When it finished.
    pub at: Option<Timestamp>,
    /// Why it failed; `None` if it succeeded.
    pub failure: Option<String>,
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It is active.
    Running {
        /// Whether any of its pods failed.
        failing: bool,
    },
    /// It succeeded.
    Complete,
    /// It failed for good, with the reason.
    Failed(String),
}
