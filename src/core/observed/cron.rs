//! Observed `CronJobs` and their runs.

use k8s_openapi::jiff::Timestamp;

use super::Issue;
use crate::catalog::Component;

/// A `CronJob` of a release.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedCronJob {
    /// The `CronJob`'s namespace.
    pub namespace: String,
    /// The `CronJob`'s name.
    pub name: String,
    /// The name of the helm release that owns the `CronJob`.
    pub release: String,
    /// The component of the `CronJob`, from the labels `application` and `component` of the `CronJob` or of its pods.
    ///
    /// Most upstream charts do not set these labels on the `CronJob` itself. If its pods lack them, too, `application`
    /// is the name of the release, and `component` is the name of the `CronJob`.
    pub component: Component,
    /// Whether the `CronJob` is suspended, so that its schedule starts no runs.
    pub suspended: bool,
    /// When the `CronJob`'s schedule last started a run; `None` if it has not started any.
    pub scheduled: Option<Timestamp>,
    /// When a run of the `CronJob` last succeeded; `None` if none has.
    pub succeeded: Option<Timestamp>,
    /// Whether a run is active, no matter whether the schedule or a person started the run.
    pub running: bool,
    /// The last finished run; `None` if Kubernetes keeps no Job of a finished run.
    pub last: Option<FinishedRun>,
    /// The problem of an active run that makes no progress, or of the last finished run; `None` if there is no problem.
    pub trouble: Option<Issue>,
}

/// One run of a `CronJob`: a Job that the `CronJob` created.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The name of the `CronJob`.
    pub cron: String,
    /// When Kubernetes created the run's Job.
    pub created_at: Option<Timestamp>,
    /// Whether the run is active, has succeeded or has failed.
    pub end: RunState,
    /// When the run finished; `None` if the run is active, or if the Job's status does not contain the time.
    pub ended: Option<Timestamp>,
}

/// A finished run of a `CronJob`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedRun {
    /// The name of the run's Job.
    pub job: String,
    /// When the run finished; `None` if the Job's status does not contain the time.
    pub at: Option<Timestamp>,
    /// Why the run failed; `None` if it succeeded.
    pub failure: Option<String>,
}

/// The state of one run of a `CronJob`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// The run is active.
    Running {
        /// Whether any pod of the run failed.
        failing: bool,
    },
    /// The run succeeded.
    Complete,
    /// The run failed, and Kubernetes does not retry it. Contains the reason.
    Failed(String),
}
