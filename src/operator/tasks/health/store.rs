//! Stores extracts of the objects that the watches report, and derives the health of workloads and Jobs from them.

mod crons;
mod explain;
mod failures;
mod mounts;
mod shared;
mod unexplained;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use osdpl_values::CollectSorted;

use explain::{explain_job, explain_workload};
use failures::Fetched;
use mounts::MountCheck;
pub(super) use shared::{Shared, WatchedPod};
use unexplained::EventCheck;

use crate::tasks::cache::WatchCache;
use crate::tasks::health::events::Subject;
use crate::tasks::health::logs::Wanted;
use crate::tasks::health::nodes::NodeTimes;
use crate::tasks::partial::{Job, Partial};
use osdpl_core::cause::{AffectedObject, Chain, Facts, Input, OwnerRef, Pods, Services};
use osdpl_core::health::node::Readiness;
use osdpl_core::health::pod::{OwnerKind, Requirements, UnreadyPod};
use osdpl_core::health::{cron, job};
use osdpl_core::observed::{
    Cause, Claim, Class, Issue, Node, ObservedCronJob, ObservedJob, ReleaseKey, Run, RunningImages, Workload,
};
use osdpl_core::scrub::Scrubber;

/// The maximum number of missing nodes that osdpl reports for one workload in addition to the first one. The workload's
/// chain of causes ([`trace_chains`]) contains the first one.
const MAX_LOST_NODES: usize = 20;

/// Whether an update from a watch has changed the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    Some,
}

/// The state of workloads, Jobs, volume claims and nodes. The health task assesses the state, and
/// [`crate::tasks::Tasks::observe`] returns it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::tasks) struct Health {
    pub(in crate::tasks) workloads: Vec<Workload>,
    pub(in crate::tasks) jobs: Vec<ObservedJob>,
    pub(in crate::tasks) crons: Vec<ObservedCronJob>,
    pub(in crate::tasks) claims: Vec<Claim>,
    /// The images that pods run, with their digests.
    pub(in crate::tasks) images: Vec<RunningImages>,
    pub(in crate::tasks) affected: Vec<AffectedObject>,
    pub(in crate::tasks) causes: Vec<Cause>,
    /// The StorageClasses; `None` if osdpl can't list them, for example without permission.
    pub(in crate::tasks) classes: Option<Vec<Class>>,
    /// The nodes by name; `None` if osdpl can't list them, for example without permission.
    pub(in crate::tasks) nodes: Option<Arc<BTreeMap<String, Node>>>,
}

/// The result of assessing the store: the health of workloads and Jobs, and what the health task must fetch or find
/// out.
pub(super) struct Overview {
    /// The health of the watched objects; `None` until the watches have listed all required kinds (`Store::is_listed`).
    pub(super) health: Option<Health>,
    /// Whether the health task must send requests to find out why an object waits, because the store does not show the
    /// reason.
    pub(super) unexplained: bool,
    /// The failed containers whose logs the health task must fetch now.
    pub(super) wanted: Vec<Wanted>,
}

/// A Job: either part of a release's revision ([`Batch::Job`]), or started by a `CronJob` ([`Batch::Run`]).
#[derive(Debug, PartialEq)]
pub(super) enum Batch {
    Job(ObservedJob),
    Run(Run),
}

impl Batch {
    /// Reads a Job; `None` if it belongs neither to a release nor to a `CronJob`. `scrubber` removes secrets from the
    /// reason of a failure.
    pub(super) fn read(job: &Partial<Job>, scrubber: &Scrubber) -> Option<Self> {
        let own = || job::observe(&job.metadata, &job.spec, &job.status, scrubber).map(Self::Job);
        cron::run(&job.metadata, &job.status, scrubber).map(Self::Run).or_else(own)
    }
}

/// The objects that the watches have reported. Each kind has one cache for each of its watches.
///
/// After a restart of the operator, the watches fill the caches again. For a field that is not a cache, the field's
/// comment says why the task keeps the data, and what a restart loses.
#[derive(Default)]
pub(super) struct Store {
    pub(super) workloads: Vec<WatchCache<Workload>>,
    pub(super) jobs: Vec<WatchCache<Batch>>,
    pub(super) crons: Vec<WatchCache<ObservedCronJob>>,
    pub(super) pods: Vec<WatchCache<WatchedPod>>,
    /// The pod selector of each Service.
    pub(super) services: Vec<WatchCache<BTreeMap<String, String>>>,
    pub(super) claims: Vec<WatchCache<Claim>>,
    pub(super) classes: Vec<WatchCache<Class>>,
    pub(super) nodes: Vec<WatchCache<(Readiness, Node)>>,
    /// The time at which each `NotReady` node became `NotReady`; [`NodeTimes`] says what a restart loses.
    pub(super) node_times: NodeTimes,
    /// The time for which a node can be `NotReady` before osdpl regards the node as missing.
    pub(super) grace: Duration,
    /// The time of the assessment. A node is missing if, at this time, it has been `NotReady` for longer than `grace`.
    pub(super) now: Timestamp,
    /// The requirements of the pods that are not ready, such as the objects that the pods mount. Pods with the same
    /// requirements share one copy.
    pub(super) shared: Shared<Requirements>,
    /// The images that pods run, with their digests. Pods of a workload with the same images share one copy.
    pub(super) images: Shared<RunningImages>,
    /// The logs of failed containers, by the uid of the pod.
    ///
    /// The store keeps the logs so that the task fetches each log only once. After a restart, the task fetches the logs
    /// again before it publishes its first result. A log is lost if the kubelet no longer has it.
    logs: BTreeMap<String, Fetched>,
    /// For each pod (by its uid): the check whether the objects that the pod mounts exist.
    ///
    /// The store keeps the checks so that the task checks the same pod only at growing intervals. After a restart, the
    /// task checks the mounts again, so for some seconds, the status does not name missing objects.
    mount_checks: BTreeMap<String, MountCheck>,
    /// The queries for events about objects that wait although no watched object shows a reason.
    ///
    /// The store keeps the queries so that the task queries events about the same object only at growing intervals.
    /// After a restart, the task sends the queries again, so for some seconds, the status lacks the messages of events.
    /// Kubernetes may have deleted an event since the last query.
    event_checks: BTreeMap<Subject, EventCheck>,
}

/// Adds an empty cache for one more watch of a kind. Returns the index of the new cache in `caches`.
pub(super) fn add<V: PartialEq>(caches: &mut Vec<WatchCache<V>>) -> usize {
    caches.push(WatchCache::default());
    caches.len() - 1
}

impl Store {
    /// Whether the store can be assessed: the watches have listed the objects of all required kinds. `CronJobs`,
    /// StorageClasses and nodes are optional kinds, because the operator may lack the permission to list them: for
    /// them, a failed attempt to list the objects is enough.
    fn is_listed(&self) -> bool {
        self.workloads.iter().all(WatchCache::is_listed)
            && self.jobs.iter().all(WatchCache::is_listed)
            && self.pods.iter().all(WatchCache::is_listed)
            && self.services.iter().all(WatchCache::is_listed)
            && self.claims.iter().all(WatchCache::is_listed)
            && self.crons.iter().all(WatchCache::is_settled)
            && self.classes.iter().all(WatchCache::is_settled)
            && self.nodes.iter().all(WatchCache::is_settled)
    }

    /// Assesses the objects in the store. The result also contains at most `limit` failed containers whose logs the
    /// health task must fetch now.
    pub(super) fn overview(&mut self, limit: usize) -> Overview {
        let pods = self.pods_by_owner();
        let unexplained = mounts::has_mounts(&pods) || !self.unexplained(&pods).is_empty();
        let (health, failures) = (self.assess_pods(&pods), self.failures(&pods));
        Overview { health, unexplained, wanted: self.wanted_logs(failures, limit) }
    }

    /// Returns the state of workloads, Jobs, volume claims and nodes; `None` until the watches have listed all required
    /// kinds.
    pub(super) fn assess(&self) -> Option<Health> {
        self.assess_pods(&self.pods_by_owner())
    }

    fn assess_pods(&self, pods: &Pods<'_>) -> Option<Health> {
        if !self.is_listed() {
            return None;
        }
        let facts = self.facts();
        let workloads = self.workloads.iter().flat_map(WatchCache::entries);
        let mut workloads: Vec<Workload> = workloads
            .map(|(_, workload)| explain_workload(workload, pods_of(pods, &workload_owner(workload)), &facts))
            .collect();
        let jobs = self.revised_jobs();
        let mut jobs: Vec<ObservedJob> =
            jobs.map(|job| explain_job(job, pods_of(pods, &job_owner(job)), &facts)).collect();
        let (affected, lost) =
            self.with_input(&workloads, &jobs, pods, &facts, |input| (trace_chains(input), lost_node_chains(input)));
        report_root_causes(&mut workloads, &mut jobs, &affected);
        let (crons, failing) = self.crons(pods, &facts);
        let affected: Vec<AffectedObject> = affected.into_iter().flatten().chain(lost).chain(failing).collect();
        let claims = facts.claims.values().filter(|claim| claim.release.is_some()).map(|claim| (*claim).clone());
        let (claims, causes) = (claims.collect(), osdpl_core::cause::group_by_root_cause(&affected));
        let classes = facts.classes.as_ref().map(|classes| classes.values().map(|class| (*class).clone()).collect());
        let nodes = self.inventory();
        let images = self.images.used().cloned().collect();
        Some(Health { workloads, jobs, crons, claims, images, affected, causes, classes, nodes })
    }

    fn inventory(&self) -> Option<Arc<BTreeMap<String, Node>>> {
        let listed = self.nodes.iter().any(WatchCache::is_listed);
        let nodes =
            self.nodes.iter().flat_map(WatchCache::entries).map(|((_, name), (_, node))| (name.clone(), node.clone()));
        listed.then(|| Arc::new(nodes.collect_map()))
    }

    /// Returns the shortest time until osdpl regards a `NotReady` node as missing; `None` if osdpl already regards all
    /// `NotReady` nodes as missing.
    pub(super) fn next_loss(&self) -> Option<Duration> {
        let nodes = self.nodes.iter().flat_map(WatchCache::entries);
        nodes.filter_map(|(_, (presence, _))| presence.remaining_grace(self.now, self.grace)).min()
    }

    /// Returns the chain of causes that explains why a pod is not ready; `None` if the pod is ready or belongs to no
    /// release.
    pub(super) fn explain_pod(&self, namespace: &str, name: &str) -> Option<Chain> {
        let health = self.assess()?;
        let (pods, facts) = (self.pods_by_owner(), self.facts());
        self.with_input(&health.workloads, &health.jobs, &pods, &facts, |input| input.pod_chain(namespace, name))
    }

    /// Returns the Jobs that helm created as part of a release's revision, so not the Jobs that a `CronJob` started.
    fn revised_jobs(&self) -> impl Iterator<Item = &ObservedJob> {
        self.jobs.iter().flat_map(WatchCache::entries).filter_map(|(_, batch)| match batch {
            Batch::Job(job) => Some(job),
            Batch::Run(_) => None,
        })
    }

    fn with_input<T>(
        &self,
        workloads: &[Workload],
        jobs: &[ObservedJob],
        pods: &Pods<'_>,
        facts: &Facts<'_>,
        inspect: impl FnOnce(&Input<'_>) -> T,
    ) -> T {
        let services = self.services.iter().flat_map(WatchCache::entries);
        let services: Services<'_> =
            services.map(|((namespace, name), selector)| ((namespace.as_str(), name.as_str()), selector)).collect_map();
        let services = (!self.services.is_empty()).then_some(services);
        inspect(&Input { workloads: workloads.iter().collect(), jobs: jobs.iter().collect(), pods, services, facts })
    }

    fn facts(&self) -> Facts<'_> {
        let claims = self.claims.iter().flat_map(WatchCache::entries);
        let classes = self.classes.iter().flat_map(WatchCache::entries).map(|(_, class)| (class.name.as_str(), class));
        let awaited = |node: Readiness| node.remaining_grace(self.now, self.grace).is_some();
        let nodes = || self.nodes.iter().flat_map(WatchCache::entries).map(|((_, name), node)| (name.as_str(), node.0));
        let present = nodes().map(|(name, node)| (name, node == Readiness::Ready || awaited(node)));
        let logs = self.logs.iter().filter_map(|(uid, log)| Some((uid.as_str(), log.text()?)));
        Facts {
            claims: claims.map(|((namespace, name), claim)| ((namespace.as_str(), name.as_str()), claim)).collect_map(),
            classes: self.classes.iter().any(WatchCache::is_listed).then(|| classes.collect_map()),
            nodes: self.nodes.iter().any(WatchCache::is_listed).then(|| present.collect_map()),
            recovering_nodes: nodes().filter(|(_, node)| awaited(*node)).map(|(name, _)| name).collect_set(),
            absent: self.mount_checks.iter().map(|(uid, check)| (uid.as_str(), check.absent())).collect_map(),
            rejections: self.refused(),
            provisioners: self.provisioners(),
            logs: logs.collect_map(),
        }
    }

    fn pods_by_owner(&self) -> Pods<'_> {
        let mut all = Pods::new();
        let pods = self.pods.iter().flat_map(WatchCache::entries);
        for ((namespace, _), pod) in pods.filter_map(|(name, pod)| Some((name, pod.unready.as_deref()?))) {
            all.entry((namespace, pod.owner.kind, &pod.owner.name)).or_default().push(pod);
        }
        for pods in all.values_mut() {
            pods.sort_by_key(|pod| (Reverse(pod.cause.as_ref().map(|cause| cause.severity)), &pod.name));
        }
        all
    }
}

fn pods_of<'a>(pods: &'a Pods<'a>, owner: &OwnerRef<'a>) -> &'a [&'a UnreadyPod] {
    pods.get(owner).map_or(&[], Vec::as_slice)
}

fn job_owner(job: &ObservedJob) -> OwnerRef<'_> {
    (&job.namespace, OwnerKind::Job, &job.name)
}

fn workload_owner(workload: &Workload) -> OwnerRef<'_> {
    (&workload.namespace, workload.kind.into(), &workload.name)
}

/// Returns the chain of causes of each workload, followed by the chain of each Job. The result contains `None` for a
/// complete Job, and for a workload whose field `trouble` is `None`.
fn trace_chains(input: &Input<'_>) -> Vec<Option<AffectedObject>> {
    let workloads = input.workloads.iter().map(|workload| {
        // Report only a workload with trouble: a complete workload may have a new pod that is not ready yet.
        let chain = input.workload_chain(workload).filter(|_| workload.trouble.is_some())?;
        Some(AffectedObject { release: ReleaseKey::new(&workload.namespace, &workload.release), chain })
    });
    let jobs = input.jobs.iter().map(|job| {
        let chain = input.job_chain(job).filter(|_| !job.complete)?;
        Some(AffectedObject { release: ReleaseKey::new(&job.namespace, &job.release), chain })
    });
    workloads.chain(jobs).collect()
}

/// Returns the chains of causes for the missing nodes of each workload, except for the first missing node of a
/// workload: [`trace_chains`] returns the chain for this node.
fn lost_node_chains(input: &Input<'_>) -> Vec<AffectedObject> {
    let of = |workload: &&Workload| {
        let release = ReleaseKey::new(&workload.namespace, &workload.release);
        let chains = input.lost_node_chains(workload).into_iter().skip(1).take(MAX_LOST_NODES);
        chains.map(move |chain| AffectedObject { release: release.clone(), chain }).collect::<Vec<_>>()
    };
    input.workloads.iter().copied().filter(|workload| workload.lost_nodes.len() > 1).flat_map(|w| of(&w)).collect()
}

/// Finds the workloads and Jobs that wait for another object, and writes the chain of causes of each into its field
/// `trouble`.
///
/// Does not mark these workloads and Jobs as stuck, because they continue when the object for which they wait is ready.
/// The only exception is a Job that waits for a stuck object of its own release: helm would wait for this Job until
/// helm's timeout.
fn report_root_causes(workloads: &mut [Workload], jobs: &mut [ObservedJob], affected: &[Option<AffectedObject>]) {
    let waits = |affected_object: &&AffectedObject| affected_object.chain.is_affected();
    for (workload, affected_object) in workloads.iter_mut().zip(affected) {
        if let Some(AffectedObject { chain, .. }) = affected_object.as_ref().filter(waits) {
            workload.trouble = Some(Issue { stuck: false, message: chain.to_string() });
        }
    }
    for (job, affected_object) in jobs.iter_mut().zip(&affected[workloads.len()..]) {
        if let Some(AffectedObject { chain, release }) = affected_object.as_ref().filter(waits) {
            let deadlocked = chain.stuck && chain.release.as_ref() == Some(release);
            job.trouble = Some(Issue { stuck: deadlocked, message: chain.to_string() });
        }
    }
}

#[cfg(test)]
mod tests;
