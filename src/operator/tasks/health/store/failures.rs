//! The logs that explain what fails: which are wanted, and which were had.

use super::{Store, of_job, of_workload};
use crate::tasks::health::logs::{Log, Wanted};
use crate::tasks::shard::Shard;
use osdpl_core::cause::{Place, Pods};

/// How often a log is asked for that cannot be had.
pub(super) const ATTEMPTS: u32 = 3;

/// The log of a container's last failure.
pub(super) struct Fetched {
    restarts: i32,
    attempts: u32,
    in_flight: bool,
    /// Scrubbed.
    text: Option<String>,
}

impl Fetched {
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

impl Store {
    /// Whoever fetched logs is gone: they will never be kept.
    pub(in crate::tasks::health) fn forget_fetches(&mut self) {
        for log in self.logs.values_mut() {
            log.in_flight = false;
        }
        self.looked.clear();
    }

    /// At most so many logs that are missing to explain what fails. Those of pods that are gone are forgotten.
    pub(super) fn wanted_logs(&mut self, wanted: Vec<Wanted>, most: usize) -> Vec<Wanted> {
        self.logs.retain(|uid, _| wanted.iter().any(|wanted| wanted.uid == *uid));
        let mut missing = Vec::new();
        for wanted in wanted {
            if missing.len() < most && self.ask(&wanted) {
                missing.push(wanted);
            }
        }
        missing
    }

    /// The failed container of the pod that each failing Job and workload is explained with: one pod of each tells it all.
    pub(super) fn failures(&self, pods: &Pods<'_>) -> Vec<Wanted> {
        let jobs = self.revised_jobs().filter(|job| !job.complete);
        let workloads = self.workloads.iter().flat_map(Shard::entries);
        let places = jobs.map(of_job).chain(workloads.map(|(_, workload)| of_workload(workload)));
        let first = places.filter_map(|place: Place<'_>| {
            let pod = pods.get(&place)?.first()?;
            let failing = pod.cause.as_ref()?.failing.clone()?;
            let (namespace, pod, uid) = (place.0.to_owned(), pod.name.clone(), pod.uid.clone());
            Some(Wanted { namespace, pod, uid, failing })
        });
        first.collect()
    }

    /// Whether that log has to be fetched now; if so it counts as asked for.
    fn ask(&mut self, wanted: &Wanted) -> bool {
        let restarts = wanted.failing.restarts;
        let fresh = || Fetched { restarts, attempts: 0, in_flight: false, text: None };
        let log = self.logs.entry(wanted.uid.clone()).or_insert_with(fresh);
        if log.restarts != restarts && !log.in_flight {
            // The text of the failure before stays until the newer one is there.
            log.restarts = restarts;
            log.attempts = 0;
        } else if log.in_flight || log.attempts >= ATTEMPTS || (log.attempts > 0 && log.text.is_some()) {
            return false;
        }
        log.attempts += 1;
        log.in_flight = true;
        true
    }

    /// Keeps a log that was asked for. One that says the same at another time, or with another process's number, is no news.
    pub(in crate::tasks::health) fn keep_log(&mut self, fetched: Log) {
        let Some(log) = self.logs.get_mut(&fetched.uid) else { return };
        log.in_flight = false;
        let same = |new: &str| log.text.as_deref().is_some_and(|old| plain_words(old).eq(plain_words(new)));
        if let Some(text) = fetched.text.filter(|text| !same(text)) {
            log.text = Some(text);
        }
    }
}

/// Without times, process numbers and request ids.
fn plain_words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|character: char| !character.is_alphanumeric());
    words.filter(|word| !word.contains(|character: char| character.is_ascii_digit()))
}
