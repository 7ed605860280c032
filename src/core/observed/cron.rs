//! What runs again and again.

use k8s_openapi::jiff::Timestamp;

use super::Trouble;
use crate::catalog::Component;

/// A `CronJob`.
#[derive(Clone, Debug, PartialEq)]
pub struct CronSeen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Helm's release that owns it.
    pub release: String,
    /// The labels `application` and `component`, of its pods where it has none: upstream's mostly lack them.
    pub component: Component,
    /// Whether no run is started, as it was told.
    pub suspended: bool,
    /// When a run was last started by its schedule.
    pub scheduled: Option<Timestamp>,
    /// When a run last ended well.
    pub succeeded: Option<Timestamp>,
    /// Whether a run goes on, of its schedule or by hand.
    pub running: bool,
    /// The last run that ended, while its Job is there.
    pub last: Option<Ended>,
    /// Why its last run, or the one that goes on, is no success.
    pub trouble: Option<Trouble>,
}

/// A Job that a `CronJob` made.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The `CronJob`'s name.
    pub cron: String,
    /// When it was made.
    pub made: Option<Timestamp>,
    /// How far it is.
    pub end: RunEnd,
    /// When it ended.
    pub ended: Option<Timestamp>,
}

/// A run that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The Job.
    pub job: String,
    /// When.
    pub at: Option<Timestamp>,
    /// Why it is no success, where it is none.
    pub failure: Option<String>,
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// It goes on; whether pods of it have failed.
    Running {
        /// Whether pods of it have failed.
        failing: bool,
    },
    /// It ended well.
    Complete,
    /// Kubernetes has given up on it, and why.
    Failed(String),
}
