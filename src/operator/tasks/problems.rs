//! Collects the failures that keep the tasks from observing the cluster, so that the status can report them.

#![allow(clippy::disallowed_methods, reason = "uses the clock to expire problems")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// The time for which a failure must last before the list of problems contains it. A restart of the API server takes
/// less time, so it puts no failures on the list.
const GRACE: Duration = Duration::from_secs(5);

/// The time after which a problem that has not recurred leaves the list of problems.
///
/// After a watch has recovered, it may report no event for a long time. So osdpl does not wait for an event before it
/// removes the watch's problem. If the problem still exists, the watch reports it again before it expires, because this
/// time is longer than any pause between two attempts of a watch.
const EXPIRY: Duration = Duration::from_secs(12);

/// The interval at which the problems task removes expired problems, while there are any problems.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The failures that the tasks have reported. Clones share their state.
///
/// Only this process knows the failures, because the cluster does not record them. So a restart of the operator loses
/// them: a failure that still exists occurs again, and the list contains it again after [`GRACE`].
#[derive(Clone, Debug, Default)]
pub(super) struct Problems {
    problems: Arc<Mutex<BTreeMap<ActivityKey, Problem>>>,
    changed: Arc<Notify>,
}

/// The name of an activity, such as `watching`, and the name of the kind, object or task that the activity concerns.
type ActivityKey = (&'static str, String);

#[derive(Debug)]
struct Problem {
    message: String,
    first: Instant,
    last: Instant,
    /// If `true`, the list contains the problem at once, because the failure may never recur. If `false`, the task that
    /// reported the failure retries, and the list contains the problem once the first and the last failure are at least
    /// [`GRACE`] apart.
    at_once: bool,
}

impl Problems {
    /// Reports that `activity` on `object` has failed. The caller must retry, and must report every further failure,
    /// because otherwise the problem expires.
    pub(super) fn report_failure(&self, activity: &'static str, object: &str, message: String) {
        self.record((activity, object.to_owned()), message, false, Instant::now());
    }

    /// Reports a single failure of `activity` on `object`. The list of problems contains it at once.
    pub(super) fn report_event(&self, activity: &'static str, object: &str, message: String) {
        self.record((activity, object.to_owned()), message, true, Instant::now());
    }

    fn record(&self, key: ActivityKey, message: String, at_once: bool, now: Instant) {
        let mut problems = self.problems();
        match problems.get_mut(&key) {
            Some(problem) if problem.message == message => problem.last = now,
            _ => {
                tracing::warn!(
                    activity = key.0,
                    object = key.1,
                    message,
                    "a background task failed to observe a part of the cluster"
                );
                let first = problems.get(&key).map_or(now, |problem| problem.first);
                problems.insert(key, Problem { message, first, last: now, at_once });
                self.changed.notify_one();
            }
        }
    }

    /// Reports that `activity` on `object` has succeeded, which removes an earlier failure from the list of problems.
    pub(super) fn report_success(&self, activity: &'static str, object: &str) {
        let mut problems = self.problems();
        if !problems.is_empty() {
            problems.remove(&(activity, object.to_owned()));
        }
    }

    /// Returns the current problems as lines of text. Objects with the same activity and message share a line.
    pub(super) fn list(&self) -> Vec<String> {
        self.list_at(Instant::now())
    }

    fn list_at(&self, now: Instant) -> Vec<String> {
        let mut problems = self.problems();
        problems.retain(|_, problem| now.duration_since(problem.last) < EXPIRY);
        let mut causes: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for ((activity, object), problem) in problems.iter() {
            if problem.at_once || problem.last.duration_since(problem.first) >= GRACE {
                causes.entry((activity, &problem.message)).or_default().push(object);
            }
        }
        causes
            .into_iter()
            .map(|((activity, message), objects)| format!("{activity} {}: {message}", objects.join(", ")))
            .collect()
    }

    /// Triggers a pass whenever the result of [`Problems::list`] changes.
    pub(super) async fn notify_changes(self, trigger: Arc<Notify>) {
        let mut reported = Vec::new();
        loop {
            let now = self.list();
            if now != reported {
                reported = now;
                trigger.notify_one();
            }
            let quiet = self.problems().is_empty();
            if quiet { self.changed.notified().await } else { tokio::time::sleep(RECHECK_INTERVAL).await }
        }
    }

    /// Locks the problems, even if a task panicked while it held the lock, because no panic can leave them
    /// inconsistent.
    fn problems(&self) -> MutexGuard<'_, BTreeMap<ActivityKey, Problem>> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
