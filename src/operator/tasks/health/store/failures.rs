//! Decides which logs of failed containers the health task must fetch, and stores the fetched logs.

use super::{Store, job_owner, workload_owner};
use crate::tasks::cache::WatchCache;
use crate::tasks::health::logs::{Log, Wanted};
use osdpl_core::cause::{OwnerRef, Pods};

/// The maximum number of attempts to fetch a log.
pub(super) const ATTEMPTS: u32 = 3;

/// The log of a container's last failure, and whether the health task has fetched it, is fetching it or must fetch it.
pub(super) struct Fetched {
    restarts: i32,
    attempts: u32,
    in_flight: bool,
    /// The end of the log without secrets; `None` if no fetch has returned a text yet.
    text: Option<String>,
}

impl Fetched {
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

impl Store {
    /// Marks all fetches of logs and queries of events as not running, and forgets the checks of mounts.
    ///
    /// The health task calls this function when it starts. The previous health task has ended, so nothing will store
    /// the results of its fetches, queries and checks.
    pub(in crate::tasks::health) fn forget_fetches(&mut self) {
        for log in self.logs.values_mut() {
            log.in_flight = false;
        }
        self.forget_event_queries();
        self.mount_checks.clear();
    }

    /// Returns at most `limit` of the containers in `wanted`: those whose logs the task must fetch now. Drops the
    /// stored logs of all pods that are not in `wanted`.
    pub(super) fn wanted_logs(&mut self, wanted: Vec<Wanted>, limit: usize) -> Vec<Wanted> {
        self.logs.retain(|uid, _| wanted.iter().any(|wanted| wanted.uid == *uid));
        let mut missing = Vec::new();
        for wanted in wanted {
            if missing.len() < limit && self.needs_fetch(&wanted) {
                missing.push(wanted);
            }
        }
        missing
    }

    /// Returns the failed containers whose logs explain why Jobs and workloads fail. The result contains at most one
    /// container of each Job or workload.
    pub(super) fn failures(&self, pods: &Pods<'_>) -> Vec<Wanted> {
        let jobs = self.revised_jobs().filter(|job| !job.complete);
        let workloads = self.workloads.iter().flat_map(WatchCache::entries);
        let owners = jobs.map(job_owner).chain(workloads.map(|(_, workload)| workload_owner(workload)));
        let first = owners.filter_map(|owner: OwnerRef<'_>| {
            let pod = pods.get(&owner)?.first()?;
            let failing = pod.cause.as_ref()?.failing.clone()?;
            let (namespace, pod, uid) = (owner.0.to_owned(), pod.name.clone(), pod.uid.clone());
            Some(Wanted { namespace, pod, uid, failing })
        });
        first.collect()
    }

    /// Whether the task must fetch the log of the container `wanted` now. If so, the function marks the fetch as in
    /// flight.
    fn needs_fetch(&mut self, wanted: &Wanted) -> bool {
        let restarts = wanted.failing.restarts;
        let fresh = || Fetched { restarts, attempts: 0, in_flight: false, text: None };
        let log = self.logs.entry(wanted.uid.clone()).or_insert_with(fresh);
        if log.restarts != restarts && !log.in_flight {
            // Keep the log of the previous failure until the log of the new failure is fetched.
            log.restarts = restarts;
            log.attempts = 0;
        } else if log.in_flight || log.attempts >= ATTEMPTS || (log.attempts > 0 && log.text.is_some()) {
            return false;
        }
        log.attempts += 1;
        log.in_flight = true;
        true
    }

    /// Stores a fetched log.
    ///
    /// Keeps the old log if the new log differs only in words with digits, such as times. Otherwise, each failure of a
    /// container would change the status, even if the container always fails for the same reason.
    pub(in crate::tasks::health) fn store_log(&mut self, fetched: Log) {
        let Some(log) = self.logs.get_mut(&fetched.uid) else { return };
        log.in_flight = false;
        let same = |new: &str| {
            log.text.as_deref().is_some_and(|old| words_without_numbers(old).eq(words_without_numbers(new)))
        };
        if let Some(text) = fetched.text.filter(|text| !same(text)) {
            log.text = Some(text);
        }
    }
}

/// Splits `text` into words, and drops the words with digits, such as times, process numbers and request ids.
fn words_without_numbers(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|character: char| !character.is_alphanumeric());
    words.filter(|word| !word.contains(|character: char| character.is_ascii_digit()))
}
