//! The first step of a pass: reads the snapshot that the decision is made from. Nothing here writes to the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::memory::Memory;
use super::{Context, now};
use crate::cluster::{Error, Inputs, Reader};
use crate::helm::RunningJob;
use crate::tasks::Observation;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::Finding;
use osdpl_core::observed::{Observed, ReleaseKey, RunningHelm};
use osdpl_decide::{Answered, Answers, Charts, Helm, Kept, RENDERING, Read, Snapshot};

/// Stands in place of a digest for an uninstall that skips hooks.
pub const NO_HOOKS: &str = "--no-hooks";

/// A helm process as a decision sees it.
fn running(child: &RunningJob, inputs: &str) -> RunningHelm {
    RunningHelm {
        verb: child.verb.to_owned(),
        skips_hooks: inputs == NO_HOOKS,
        inputs: child.inputs.clone().unwrap_or_default(),
        since: child.since,
        stopping: child.stopping.is_some(),
        queued: false,
    }
}

/// What is read beside the tasks and the objects.
pub struct Surroundings {
    pub deployment: OpenStackDeployment,
    pub catalog: Arc<Catalog>,
    pub catalog_findings: Vec<Finding>,
    pub problems: Vec<String>,
}

/// A snapshot of what the tasks and the watches see; helm, charts, answers and memory are still empty.
pub fn snapshot(surroundings: Surroundings, seen: &Observation, inputs: &Inputs, now: Timestamp) -> Snapshot {
    let Surroundings { deployment, catalog, catalog_findings, problems } = surroundings;
    Snapshot {
        now,
        deployment,
        catalog,
        catalog_findings,
        helm: Helm::default(),
        charts: Charts::default(),
        observed: Observed {
            releases: (*seen.releases).clone(),
            workloads: seen.workloads().to_vec(),
            jobs: seen.jobs().to_vec(),
            crons: seen.cron_jobs().to_vec(),
            drift: Arc::clone(&seen.drift),
            endpoints: Arc::clone(&seen.endpoints),
            terminating: inputs.terminating(),
            ..Observed::default()
        },
        victims: seen.affected_objects().to_vec(),
        nodes: seen.shared_nodes(),
        claims: seen.volume_claims().to_vec(),
        classes: seen.storage_classes().map(<[_]>::to_vec),
        rolling: Arc::clone(&seen.rolling),
        hosts: seen.hosts.clone(),
        problems,
        objects: inputs.snapshot(),
        answers: Answers::new(),
        uninstalled: BTreeSet::new(),
        kept: Kept::default(),
        assumed: None,
    }
}

/// Answers the reads that the last plan requested: those that are still good are kept, all others are read.
///
/// # Errors
/// When the API server refuses a read that a plan can't be made without.
pub async fn answer(
    reader: &Reader,
    reads: &BTreeSet<Read>,
    known: &mut Answers,
    deployment: &str,
    now: Timestamp,
) -> Result<(), Error> {
    known.retain(|read, answered| reads.contains(read) && answered.until().is_none_or(|until| now < until));
    for answered in known.values_mut() {
        answered.fresh = false;
    }
    for read in reads {
        if !known.contains_key(read) {
            let answer = reader.answer(read, deployment).await?;
            known.insert(read.clone(), Answered { answer, at: now, fresh: true });
        }
    }
    Ok(())
}

impl Context {
    /// Reads the snapshot of a pass.
    pub(super) async fn read(&self, deployment: &OpenStackDeployment, memory: &mut Memory) -> Result<Snapshot, Error> {
        // In this order: a process that ends meanwhile still counts as running.
        let table = self.runner.table();
        self.outcomes(memory).await;
        if self.inputs.is_rook_changed() {
            memory.answers.retain(|read, _| !matches!(read, Read::Rook(..)));
        }
        let reader = self.cluster.reader();
        answer(reader, &memory.reads, &mut memory.answers, &deployment.name_any(), now()).await?;
        let seen = self.tasks.observe();
        memory.catching_up.retain(|key, waiting| !waiting.is_done(seen.releases.get(key)));
        let surroundings = Surroundings {
            deployment: deployment.clone(),
            catalog: self.catalog(),
            catalog_findings: self.book.findings(),
            problems: self.tasks.describe_problems(),
        };
        let mut snapshot = snapshot(surroundings, &seen, &self.inputs, now());
        let idle = table.is_empty();
        let rendering = rendering(&table, &snapshot);
        let observed = &mut snapshot.observed;
        observed.running = table
            .into_iter()
            .map(|(key, child)| {
                let inputs = memory.started.get(&key).map(String::as_str).unwrap_or_default();
                let seen = running(&child, inputs);
                (key, seen)
            })
            .collect();
        observed.running.extend(memory.unseen());
        observed.failures = memory.failures.clone();
        observed.repairs = memory.repairs.clone();
        snapshot.helm = Helm {
            major: self.runner.program().version().major.into(),
            free_slots: self.runner.free_slots(),
            rendering,
            cores: self.runner.cores(),
            idle,
        };
        snapshot.charts = self.charts.snapshot();
        snapshot.answers = memory.answers.clone();
        snapshot.uninstalled.clone_from(&memory.uninstalled);
        snapshot.kept = memory.kept.clone();
        Ok(snapshot)
    }
}

/// How many helms still render: helm writes the release's record when it has, and mostly waits from then on. More of them than cores only hold each
/// other up.
fn rendering(table: &BTreeMap<ReleaseKey, RunningJob>, snapshot: &Snapshot) -> usize {
    let recorded = |key: &ReleaseKey, child: &RunningJob| {
        let seen = snapshot.observed.releases.get(key);
        seen.is_some_and(|seen| seen.revision >= i64::from(child.attempt.revision()))
    };
    let is_rendering = |(key, child): &(&ReleaseKey, &RunningJob)| {
        let stuck = snapshot.now.duration_since(child.since).unsigned_abs() > RENDERING;
        child.inputs.is_some() && !stuck && !recorded(key, child)
    };
    table.iter().filter(is_rendering).count()
}
