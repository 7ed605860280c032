//! What the watches have seen, and the picture that it makes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::logs::{Log, Wanted};
use crate::cause::{Chain, Place, Pods, Scene};
use crate::health::pod::{OwnerKind, Unready};
use crate::observed::{JobSeen, Trouble, Workload};
use crate::tasks::shard::Shard;

/// How often a log is asked for that cannot be had.
const ATTEMPTS: u32 = 3;

/// Whether anything changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    Some,
}

/// The picture: what [`crate::tasks::Tasks::observe`] hands out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::tasks) struct Health {
    pub(in crate::tasks) workloads: Vec<Workload>,
    pub(in crate::tasks) jobs: Vec<JobSeen>,
}

/// What the watches have seen.
#[derive(Default)]
pub(super) struct Store {
    pub(super) workloads: Vec<Shard<Workload>>,
    pub(super) jobs: Vec<Shard<JobSeen>>,
    pub(super) pods: Vec<Shard<Unready>>,
    /// Selectors.
    pub(super) services: Vec<Shard<BTreeMap<String, String>>>,
    /// By the pod's uid.
    logs: BTreeMap<String, Fetched>,
}

/// The log of a container's last failure.
struct Fetched {
    restarts: i32,
    attempts: u32,
    in_flight: bool,
    /// Scrubbed.
    text: Option<String>,
}

impl Store {
    pub(super) fn add_workloads(&mut self) -> usize {
        self.workloads.push(Shard::default());
        self.workloads.len() - 1
    }

    pub(super) fn add_jobs(&mut self) -> usize {
        self.jobs.push(Shard::default());
        self.jobs.len() - 1
    }

    pub(super) fn add_pods(&mut self) -> usize {
        self.pods.push(Shard::default());
        self.pods.len() - 1
    }

    pub(super) fn add_services(&mut self) -> usize {
        self.services.push(Shard::default());
        self.services.len() - 1
    }

    fn is_listed(&self) -> bool {
        self.workloads.iter().all(Shard::is_listed)
            && self.jobs.iter().all(Shard::is_listed)
            && self.pods.iter().all(Shard::is_listed)
            && self.services.iter().all(Shard::is_listed)
    }

    /// The picture, once everything was listed.
    pub(super) fn picture(&self) -> Option<Health> {
        if !self.is_listed() {
            return None;
        }
        let pods = self.pods_by_owner();
        let workloads = self.workloads.iter().flat_map(Shard::entries).map(|(_, workload)| {
            let place = (workload.namespace.as_str(), workload.kind.into(), workload.name.as_str());
            afflicted(workload, pods.get(&place).map_or(&[], Vec::as_slice))
        });
        let jobs = self
            .jobs
            .iter()
            .flat_map(Shard::entries)
            .map(|(_, job)| self.explained(job, pods.get(&of_job(job)).map_or(&[], Vec::as_slice)));
        Some(self.traced(workloads.collect(), jobs.collect(), &pods))
    }

    /// With what waits told along the chain to its root.
    fn traced(&self, mut workloads: Vec<Workload>, mut jobs: Vec<JobSeen>, pods: &Pods<'_>) -> Health {
        let services = self.services.iter().flat_map(Shard::entries);
        let services = services.map(|((namespace, name), selector)| ((namespace.as_str(), name.as_str()), selector));
        let scene = Scene {
            workloads: workloads.iter().collect(),
            jobs: jobs.iter().collect(),
            pods: pods.clone(),
            services: services.collect(),
        };
        // Of one that has all it wants, a pod that comes is no news.
        let workload = |workload| scene.of_workload(workload).filter(|_| workload.trouble.is_some());
        let of_workloads: Vec<Option<Chain>> = workloads.iter().map(workload).collect();
        let of_jobs: Vec<Option<Chain>> = jobs.iter().map(|job| scene.of_job(job).filter(|_| !job.complete)).collect();
        drop(scene);
        for (workload, chain) in workloads.iter_mut().zip(of_workloads) {
            tell(&mut workload.trouble, chain);
        }
        for (job, chain) in jobs.iter_mut().zip(of_jobs) {
            tell(&mut job.trouble, chain);
        }
        Health { workloads, jobs }
    }

    fn pods_by_owner(&self) -> Pods<'_> {
        let mut all = Pods::new();
        for ((namespace, _), pod) in self.pods.iter().flat_map(Shard::entries) {
            all.entry((namespace, pod.owner.kind, &pod.owner.name)).or_default().push(pod);
        }
        for pods in all.values_mut() {
            pods.sort_by_key(|pod| (Reverse(pod.cause.as_ref().map(|cause| cause.severity)), &pod.name));
        }
        all
    }

    fn explained(&self, job: &JobSeen, pods: &[&Unready]) -> JobSeen {
        let mut job = job.clone();
        if job.complete {
            job.trouble = None;
            return job;
        }
        let Some(pod) = pods.first() else { return job };
        let Some(mut trouble) = pod.trouble() else { return job };
        if let Some(given_up) = job.trouble.take() {
            trouble = Trouble { stuck: true, message: format!("{}; {}", given_up.message, trouble.message) };
        }
        if let Some(text) = self.logs.get(&pod.uid).and_then(|log| log.text.as_ref()) {
            trouble.message = format!("{}; its log ends: {text}", trouble.message);
        }
        job.trouble = Some(trouble);
        job
    }

    /// Whoever fetched logs is gone: they will never be kept.
    pub(super) fn forget_fetches(&mut self) {
        for log in self.logs.values_mut() {
            log.in_flight = false;
        }
    }

    /// At most so many logs that are missing to explain failing Jobs. Those of pods that are gone are forgotten.
    pub(super) fn wanted_logs(&mut self, most: usize) -> Vec<Wanted> {
        let wanted = self.failures();
        self.logs.retain(|uid, _| wanted.iter().any(|wanted| wanted.uid == *uid));
        let mut missing = Vec::new();
        for wanted in wanted {
            if missing.len() < most && self.ask(&wanted) {
                missing.push(wanted);
            }
        }
        missing
    }

    /// The failed container of the pod that each failing Job is explained with.
    fn failures(&self) -> Vec<Wanted> {
        let pods = self.pods_by_owner();
        let failing = self.jobs.iter().flat_map(Shard::entries).filter(|(_, job)| !job.complete);
        let first = failing.filter_map(|(_, job)| {
            let pod = pods.get(&of_job(job))?.first()?;
            let failing = pod.cause.as_ref()?.failing.clone()?;
            let (namespace, pod, uid) = (job.namespace.clone(), pod.name.clone(), pod.uid.clone());
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

    /// Keeps a log that was asked for.
    pub(super) fn keep_log(&mut self, fetched: Log) {
        if let Some(log) = self.logs.get_mut(&fetched.uid) {
            log.in_flight = false;
            log.text = fetched.text.or(log.text.take());
        }
    }
}

fn of_job(job: &JobSeen) -> Place<'_> {
    (&job.namespace, OwnerKind::Job, &job.name)
}

/// Who waits is told with the root; that the root is stuck is its own matter.
fn tell(trouble: &mut Option<Trouble>, chain: Option<Chain>) {
    if let Some(chain) = chain.filter(Chain::is_victim) {
        *trouble = Some(Trouble { stuck: false, message: chain.to_string() });
    }
}

/// The workload with what its pods tell. Of one that has all it wants, a pod that comes or goes is no news.
fn afflicted(workload: &Workload, pods: &[&Unready]) -> Workload {
    let Workload { desired, ready, updated, outdated, .. } = *workload;
    let whole = ready >= desired && updated >= desired && outdated == 0;
    let first = pods.first().filter(|_| !whole);
    Workload {
        trouble: first.and_then(|pod| pod.trouble()),
        was_available: workload.was_available || first.is_some_and(|pod| pod.was_ready),
        ..workload.clone()
    }
}

#[cfg(test)]
mod tests;
