//! Counts started helm processes and their outcomes (succeeded, failed or stopped), for the operator's metrics.

use std::collections::BTreeMap;

use super::super::{Exit, Outcome, Verb};

/// The counters of helm processes since the operator started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counters {
    /// The counters for each verb of helm.
    pub verbs: BTreeMap<Verb, VerbCounters>,
}

/// The counters of the helm processes with one verb, such as `upgrade`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct VerbCounters {
    /// The number of processes that the Runner has started, including the processes that still run.
    pub started: u64,
    /// The number of helm processes that succeeded.
    pub succeeded: u64,
    /// The number of helm processes that failed.
    pub failed: u64,
    /// The number of helm processes that the operator stopped.
    pub stopped: u64,
    /// The total run time of the helm processes that have ended, in seconds.
    pub seconds: f64,
}

impl Counters {
    pub(super) fn of(&mut self, verb: Verb) -> &mut VerbCounters {
        self.verbs.entry(verb).or_default()
    }
}

impl VerbCounters {
    pub(super) fn add(&mut self, outcome: &Outcome) {
        self.seconds += outcome.duration.as_secs_f64();
        match outcome.exit {
            Exit::Success => self.succeeded += 1,
            Exit::Failed(_) | Exit::Signalled(_) | Exit::NotStarted => self.failed += 1,
            Exit::Stopped { .. } => self.stopped += 1,
        }
    }
}
