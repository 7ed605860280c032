//! What the watches have seen, and the picture that it makes.

mod failures;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use failures::Fetched;

use crate::cause::{Chain, Facts, Place, Pods, Scene, Services, Victim};
use crate::health::pod::{OwnerKind, Unready};
use crate::observed::{Cause, Claim, Class, JobSeen, Key, Trouble, Workload};
use crate::tasks::shard::Shard;

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
    pub(in crate::tasks) claims: Vec<Claim>,
    pub(in crate::tasks) victims: Vec<Victim>,
    pub(in crate::tasks) causes: Vec<Cause>,
}

/// What the watches have seen.
#[derive(Default)]
pub(super) struct Store {
    pub(super) workloads: Vec<Shard<Workload>>,
    pub(super) jobs: Vec<Shard<JobSeen>>,
    pub(super) pods: Vec<Shard<Unready>>,
    /// Selectors.
    pub(super) services: Vec<Shard<BTreeMap<String, String>>>,
    pub(super) claims: Vec<Shard<Claim>>,
    pub(super) classes: Vec<Shard<Class>>,
    /// By the pod's uid.
    logs: BTreeMap<String, Fetched>,
}

/// One more shard, for one more watch.
pub(super) fn add<V: PartialEq>(shards: &mut Vec<Shard<V>>) -> usize {
    shards.push(Shard::default());
    shards.len() - 1
}

impl Store {
    /// Whether enough was seen to speak: what only tells more must not silence the rest.
    fn is_listed(&self) -> bool {
        self.workloads.iter().all(Shard::is_listed)
            && self.jobs.iter().all(Shard::is_listed)
            && self.pods.iter().all(Shard::is_listed)
            && self.services.iter().all(Shard::is_listed)
            && self.claims.iter().all(Shard::is_listed)
            && self.classes.iter().all(Shard::is_settled)
    }

    /// The picture, once everything was listed.
    pub(super) fn picture(&self) -> Option<Health> {
        if !self.is_listed() {
            return None;
        }
        let (pods, facts) = (self.pods_by_owner(), self.facts());
        let workloads = self.workloads.iter().flat_map(Shard::entries);
        let mut workloads: Vec<Workload> =
            workloads.map(|(_, workload)| afflicted(workload, of(&pods, &of_workload(workload)), &facts)).collect();
        let jobs = self.jobs.iter().flat_map(Shard::entries);
        let mut jobs: Vec<JobSeen> = jobs.map(|(_, job)| explained(job, of(&pods, &of_job(job)), &facts)).collect();
        let victims = self.scene(&workloads, &jobs, &pods, &facts, traced);
        tell(&mut workloads, &mut jobs, &victims);
        let victims: Vec<Victim> = victims.into_iter().flatten().collect();
        let claims = facts.claims.values().filter(|claim| claim.release.is_some()).map(|claim| (*claim).clone());
        let (claims, causes) = (claims.collect(), crate::cause::roots(&victims));
        Some(Health { workloads, jobs, claims, victims, causes })
    }

    /// Why a pod is not ready.
    pub(super) fn of_pod(&self, namespace: &str, name: &str) -> Option<Chain> {
        let picture = self.picture()?;
        let (pods, facts) = (self.pods_by_owner(), self.facts());
        self.scene(&picture.workloads, &picture.jobs, &pods, &facts, |scene| scene.of_pod(namespace, name))
    }

    fn scene<T>(
        &self,
        workloads: &[Workload],
        jobs: &[JobSeen],
        pods: &Pods<'_>,
        facts: &Facts<'_>,
        look: impl FnOnce(&Scene<'_>) -> T,
    ) -> T {
        let services = self.services.iter().flat_map(Shard::entries);
        let services: Services<'_> =
            services.map(|((namespace, name), selector)| ((namespace.as_str(), name.as_str()), selector)).collect();
        let services = (!self.services.is_empty()).then_some(services);
        look(&Scene { workloads: workloads.iter().collect(), jobs: jobs.iter().collect(), pods, services, facts })
    }

    fn facts(&self) -> Facts<'_> {
        let claims = self.claims.iter().flat_map(Shard::entries);
        let classes = self.classes.iter().flat_map(Shard::entries).map(|(_, class)| (class.name.as_str(), class));
        let logs = self.logs.iter().filter_map(|(uid, log)| Some((uid.as_str(), log.text()?)));
        Facts {
            claims: claims.map(|((namespace, name), claim)| ((namespace.as_str(), name.as_str()), claim)).collect(),
            classes: self.classes.iter().any(Shard::is_listed).then(|| classes.collect()),
            logs: logs.collect(),
        }
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
}

fn of<'a>(pods: &'a Pods<'a>, place: &Place<'a>) -> &'a [&'a Unready] {
    pods.get(place).map_or(&[], Vec::as_slice)
}

fn of_job(job: &JobSeen) -> Place<'_> {
    (&job.namespace, OwnerKind::Job, &job.name)
}

fn of_workload(workload: &Workload) -> Place<'_> {
    (&workload.namespace, workload.kind.into(), &workload.name)
}

/// From each workload, and then from each Job, to its root.
fn traced(scene: &Scene<'_>) -> Vec<Option<Victim>> {
    let workloads = scene.workloads.iter().map(|workload| {
        // Of one that has all it wants, a pod that comes is no news.
        let chain = scene.of_workload(workload).filter(|_| workload.trouble.is_some())?;
        Some(Victim { release: Key::new(&workload.namespace, &workload.release), chain })
    });
    let jobs = scene.jobs.iter().map(|job| {
        let chain = scene.of_job(job).filter(|_| !job.complete)?;
        Some(Victim { release: Key::new(&job.namespace, &job.release), chain })
    });
    workloads.chain(jobs).collect()
}

/// Who waits is told with the root; that the root is stuck is its own matter, but for a Job of the same release: helm waits for it in vain.
fn tell(workloads: &mut [Workload], jobs: &mut [JobSeen], victims: &[Option<Victim>]) {
    let waits = |victim: &&Victim| victim.chain.is_victim();
    for (workload, victim) in workloads.iter_mut().zip(victims) {
        if let Some(Victim { chain, .. }) = victim.as_ref().filter(waits) {
            workload.trouble = Some(Trouble { stuck: false, message: chain.to_string() });
        }
    }
    for (job, victim) in jobs.iter_mut().zip(&victims[workloads.len()..]) {
        if let Some(Victim { chain, release }) = victim.as_ref().filter(waits) {
            let vain = chain.stuck && chain.release.as_ref() == Some(release);
            job.trouble = Some(Trouble { stuck: vain, message: chain.to_string() });
        }
    }
}

/// The workload with what its pods tell. Of one that has all it wants, a pod that comes or goes is no news.
fn afflicted(workload: &Workload, pods: &[&Unready], facts: &Facts<'_>) -> Workload {
    let Workload { desired, ready, updated, outdated, .. } = *workload;
    let whole = ready >= desired && updated >= desired && outdated == 0;
    let first = pods.first().filter(|_| !whole);
    Workload {
        trouble: first.and_then(|pod| Some(facts.told(&workload.namespace, pod)?.trouble)),
        was_available: workload.was_available || first.is_some_and(|pod| pod.was_ready),
        ..workload.clone()
    }
}

/// The Job with what its pods tell.
fn explained(job: &JobSeen, pods: &[&Unready], facts: &Facts<'_>) -> JobSeen {
    let mut job = job.clone();
    if job.complete {
        job.trouble = None;
        return job;
    }
    let Some(pod) = pods.first() else { return job };
    let Some(told) = facts.told(&job.namespace, pod) else { return job };
    let mut trouble = told.trouble;
    if let Some(given_up) = job.trouble.take() {
        trouble = Trouble { stuck: true, message: format!("{}; {}", given_up.message, trouble.message) };
    }
    job.trouble = Some(trouble);
    job
}

#[cfg(test)]
mod tests;
