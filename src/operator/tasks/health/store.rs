//! What the watches have seen, and the picture that it makes.

mod crons;
mod failures;
mod mounts;
mod shared;
mod silent;
mod told;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use failures::Fetched;
use mounts::Looked;
use shared::Templates;
use silent::Silence;
use told::{afflicted, explained};

use crate::tasks::health::logs::Wanted;
use crate::tasks::health::said::Subject;
use crate::tasks::partial::{Job, Partial};
use crate::tasks::shard::Shard;
use osdpl_core::cause::{Chain, Facts, Place, Pods, Scene, Services, Victim};
use osdpl_core::health::node::Presence;
use osdpl_core::health::pod::{OwnerKind, Unready};
use osdpl_core::health::{cron, job};
use osdpl_core::observed::{Cause, Claim, Class, CronSeen, JobSeen, Key, Node, Run, Trouble, Workload};

/// How many nodes that are not there are told of as causes, beside the first.
const MOST_NODES: usize = 20;

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
    pub(in crate::tasks) crons: Vec<CronSeen>,
    pub(in crate::tasks) claims: Vec<Claim>,
    pub(in crate::tasks) victims: Vec<Victim>,
    pub(in crate::tasks) causes: Vec<Cause>,
    /// None where they may not be listed.
    pub(in crate::tasks) classes: Option<Vec<Class>>,
    /// By name; none where nodes may not be listed.
    pub(in crate::tasks) nodes: Option<Arc<BTreeMap<String, Node>>>,
}

/// What one look at everything brings.
pub(super) struct Overview {
    /// None until everything was listed.
    pub(super) picture: Option<Health>,
    /// Whether anything waits without a word.
    pub(super) silent: bool,
    /// Logs that are to be fetched.
    pub(super) wanted: Vec<Wanted>,
}

/// A Job: one of a revision, or one that a `CronJob` made.
#[derive(Debug, PartialEq)]
pub(super) enum Batch {
    Job(JobSeen),
    Run(Run),
}

impl Batch {
    /// The Job, if it is of a release or of a `CronJob`.
    pub(super) fn read(job: &Partial<Job>) -> Option<Self> {
        let own = || job::observe(&job.metadata, &job.spec, &job.status).map(Self::Job);
        cron::run(&job.metadata, &job.status).map(Self::Run).or_else(own)
    }
}

/// What the watches have seen.
#[derive(Default)]
pub(super) struct Store {
    pub(super) workloads: Vec<Shard<Workload>>,
    pub(super) jobs: Vec<Shard<Batch>>,
    pub(super) crons: Vec<Shard<CronSeen>>,
    pub(super) pods: Vec<Shard<Unready>>,
    /// Selectors.
    pub(super) services: Vec<Shard<BTreeMap<String, String>>>,
    pub(super) claims: Vec<Shard<Claim>>,
    pub(super) classes: Vec<Shard<Class>>,
    pub(super) nodes: Vec<Shard<(Presence, Node)>>,
    /// How long a node that is not there is waited for.
    pub(super) grace: Duration,
    /// What time it is.
    pub(super) now: Timestamp,
    /// What the pods that are not ready share.
    pub(super) shared: Templates,
    /// By the pod's uid.
    logs: BTreeMap<String, Fetched>,
    /// By the pod's uid.
    looked: BTreeMap<String, Looked>,
    /// Who waits without a word.
    silences: BTreeMap<Subject, Silence>,
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
            && self.crons.iter().all(Shard::is_settled)
            && self.classes.iter().all(Shard::is_settled)
            && self.nodes.iter().all(Shard::is_settled)
    }

    /// What is seen by now; at most so many logs are asked for.
    pub(super) fn look_over(&mut self, most: usize) -> Overview {
        let pods = self.pods_by_owner();
        let silent = mounts::has_mounts(&pods) || !self.silent(&pods).is_empty();
        let (picture, failures) = (self.pictured(&pods), self.failures(&pods));
        Overview { picture, silent, wanted: self.wanted_logs(failures, most) }
    }

    /// The picture, once everything was listed.
    pub(super) fn picture(&self) -> Option<Health> {
        self.pictured(&self.pods_by_owner())
    }

    fn pictured(&self, pods: &Pods<'_>) -> Option<Health> {
        if !self.is_listed() {
            return None;
        }
        let facts = self.facts();
        let workloads = self.workloads.iter().flat_map(Shard::entries);
        let mut workloads: Vec<Workload> =
            workloads.map(|(_, workload)| afflicted(workload, of(pods, &of_workload(workload)), &facts)).collect();
        let jobs = self.revised_jobs();
        let mut jobs: Vec<JobSeen> = jobs.map(|job| explained(job, of(pods, &of_job(job)), &facts)).collect();
        let (victims, lost) =
            self.scene(&workloads, &jobs, pods, &facts, |scene| (traced(scene), on_lost_nodes(scene)));
        tell(&mut workloads, &mut jobs, &victims);
        let (crons, failing) = self.crons(pods, &facts);
        let victims: Vec<Victim> = victims.into_iter().flatten().chain(lost).chain(failing).collect();
        let claims = facts.claims.values().filter(|claim| claim.release.is_some()).map(|claim| (*claim).clone());
        let (claims, causes) = (claims.collect(), osdpl_core::cause::roots(&victims));
        let classes = facts.classes.as_ref().map(|classes| classes.values().map(|class| (*class).clone()).collect());
        let nodes = self.inventory();
        Some(Health { workloads, jobs, crons, claims, victims, causes, classes, nodes })
    }

    fn inventory(&self) -> Option<Arc<BTreeMap<String, Node>>> {
        let listed = self.nodes.iter().any(Shard::is_listed);
        let nodes =
            self.nodes.iter().flat_map(Shard::entries).map(|((_, name), (_, node))| (name.clone(), node.clone()));
        listed.then(|| Arc::new(nodes.collect()))
    }

    /// When the first of the nodes that are waited for will count as lost, from now.
    pub(super) fn next_loss(&self) -> Option<Duration> {
        let nodes = self.nodes.iter().flat_map(Shard::entries);
        nodes.filter_map(|(_, (presence, _))| presence.awaited(self.now, self.grace)).min()
    }

    /// Why a pod is not ready.
    pub(super) fn of_pod(&self, namespace: &str, name: &str) -> Option<Chain> {
        let picture = self.picture()?;
        let (pods, facts) = (self.pods_by_owner(), self.facts());
        self.scene(&picture.workloads, &picture.jobs, &pods, &facts, |scene| scene.of_pod(namespace, name))
    }

    /// The Jobs of revisions.
    fn revised_jobs(&self) -> impl Iterator<Item = &JobSeen> {
        self.jobs.iter().flat_map(Shard::entries).filter_map(|(_, batch)| match batch {
            Batch::Job(job) => Some(job),
            Batch::Run(_) => None,
        })
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
        let awaited = |node: Presence| node.awaited(self.now, self.grace).is_some();
        let nodes = || self.nodes.iter().flat_map(Shard::entries).map(|((_, name), node)| (name.as_str(), node.0));
        let there = nodes().map(|(name, node)| (name, node == Presence::Ready || awaited(node)));
        let logs = self.logs.iter().filter_map(|(uid, log)| Some((uid.as_str(), log.text()?)));
        Facts {
            claims: claims.map(|((namespace, name), claim)| ((namespace.as_str(), name.as_str()), claim)).collect(),
            classes: self.classes.iter().any(Shard::is_listed).then(|| classes.collect()),
            nodes: self.nodes.iter().any(Shard::is_listed).then(|| there.collect()),
            awaited: nodes().filter(|(_, node)| awaited(*node)).map(|(name, _)| name).collect(),
            absent: self.looked.iter().map(|(uid, looked)| (uid.as_str(), looked.absent())).collect(),
            refused: self.refused(),
            provisioners: self.provisioners(),
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

/// From each workload to the nodes that are not there; the first of them is told already.
fn on_lost_nodes(scene: &Scene<'_>) -> Vec<Victim> {
    let of = |workload: &&Workload| {
        let release = Key::new(&workload.namespace, &workload.release);
        let chains = scene.of_lost_nodes(workload).into_iter().skip(1).take(MOST_NODES);
        chains.map(move |chain| Victim { release: release.clone(), chain }).collect::<Vec<_>>()
    };
    scene.workloads.iter().copied().filter(|workload| workload.lost_nodes.len() > 1).flat_map(|w| of(&w)).collect()
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

#[cfg(test)]
mod tests;
