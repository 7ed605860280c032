//! The first step of a pass (read, decide, apply, report): reads the snapshot that the decision is made from.
//!
//! This module writes nothing to the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use osdpl_values::CollectSorted;

use super::memory::Memory;
use super::{Context, now};
use crate::cluster::{Error, ObjectWatches, Reader};
use crate::helm::RunningJob;
use crate::tasks::Observation;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::Catalog;
use osdpl_core::finding::Finding;
use osdpl_core::observed::{Observed, ReleaseKey, RunningHelm};
use osdpl_decide::{Charts, Helm, Kept, RENDER_LIMIT, Read, Received, Response, Responses, Snapshot};

/// The value in [`Memory::started`] for a release that helm uninstalls without running hooks.
///
/// For an upgrade, the map `started` contains the digest of the upgrade's inputs. An uninstall has no inputs, so its
/// entry can contain this value instead of a digest.
pub(super) const SKIPPED_HOOKS: &str = "--no-hooks";

/// The maximum time for which a pass waits for one render of a chart, or for one read whose response can be an error.
const READ_LIMIT: Duration = Duration::from_secs(20);

/// The parts of a snapshot that [`snapshot`] takes unchanged from its caller.
pub(super) struct SnapshotInputs {
    pub(super) deployment: OpenStackDeployment,
    pub(super) catalog: Arc<Catalog>,
    pub(super) catalog_findings: Vec<Finding>,
    pub(super) problems: Vec<String>,
}

/// Returns a snapshot with the objects that tasks and watches have cached.
///
/// The snapshot is incomplete: the caller adds the running helm processes, the charts, the responses to the reads
/// (`Read`) of the last plan, and the data that the operator keeps between passes.
pub(super) fn snapshot(
    inputs: SnapshotInputs,
    observation: &Observation,
    watched: &ObjectWatches,
    now: Timestamp,
) -> Snapshot {
    let SnapshotInputs { deployment, catalog, catalog_findings, problems } = inputs;
    let signed = |duration: &Duration| SignedDuration::try_from(*duration).unwrap_or(SignedDuration::MAX);
    Snapshot {
        now,
        deployment,
        catalog,
        catalog_findings,
        helm: Helm::default(),
        charts: Charts::default(),
        observed: Observed {
            releases: (*observation.releases).clone(),
            unchanged: observation
                .unchanged
                .iter()
                .map(|(key, duration)| (key.clone(), signed(duration)))
                .collect_map(),
            workloads: observation.workloads().to_vec(),
            jobs: observation.jobs().to_vec(),
            crons: observation.cron_jobs().to_vec(),
            images: observation.images().to_vec(),
            drift: Arc::clone(&observation.drift),
            endpoints: Arc::clone(&observation.endpoints),
            terminating: watched.namespaces().terminating,
            ..Observed::default()
        },
        affected: observation.affected_objects().to_vec(),
        nodes: observation.shared_nodes(),
        claims: observation.volume_claims().to_vec(),
        classes: observation.storage_classes().map(<[_]>::to_vec),
        rolling: Arc::clone(&observation.rolling),
        hosts: observation.hosts.clone(),
        instances: observation.instances.clone(),
        problems,
        objects: watched.snapshot(),
        responses: Responses::new(),
        permitted: None,
        uninstalled: BTreeSet::new(),
        kept: Kept::default(),
        assumed: None,
    }
}

/// Executes the reads that the last plan requested. Adds the responses to `known`, and skips each read whose earlier
/// response in `known` is still valid. `deployment` is the value of osdpl's label, by which some reads find the cloud's
/// objects.
///
/// `begun` is the time at which the pass began to read, and `limit` is the maximum time of a read whose response can be
/// an error. The function stops such a read at the latest two times `limit` after `begun`. So slow reads only delay the
/// pass.
///
/// # Errors
/// Returns an error if a read fails and the plan requires its response.
pub(super) async fn execute_reads(
    reader: &Reader,
    reads: &BTreeSet<Read>,
    known: &mut Responses,
    deployment: &str,
    begun: Timestamp,
    limit: Duration,
) -> Result<(), Error> {
    known.retain(|read, received| reads.contains(read) && received.until().is_none_or(|until| begun < until));
    for received in known.values_mut() {
        received.fresh = false;
    }
    for read in reads {
        if !known.contains_key(read) {
            let started = now();
            let left = limit.saturating_mul(2).saturating_sub(started.duration_since(begun).unsigned_abs());
            let response = reader.execute_within(left.min(limit), read, deployment).await?;
            // The response to a read that was stopped is valid from now on. Otherwise the next pass would repeat the
            // read at once. All other responses describe the state at the begin of the read.
            let at = if now().duration_since(started).unsigned_abs() < limit { started } else { now() };
            known.insert(read.clone(), Received { response, at, fresh: true });
        }
    }
    Ok(())
}

impl Context {
    /// Reads the snapshot of a pass.
    pub(super) async fn read(&self, deployment: &OpenStackDeployment, memory: &mut Memory) -> Result<Snapshot, Error> {
        // Read the table of running helm processes before the results of ended processes. In the reverse order, the
        // snapshot would miss a process that ends between the two reads.
        let table = self.runner.table();
        self.process_outcomes(memory).await;
        if self.inputs.take_rook_changed() {
            memory.responses.retain(|read, _| !matches!(read, Read::Rook(..)));
        }
        let (begun, limit) = (now(), READ_LIMIT.min(self.pass_timeout / 3));
        self.render_crds(memory, begun, limit).await;
        let reader = self.cluster.reader().limited_to(&self.inputs.namespaces());
        let owner = deployment.owner_label();
        execute_reads(&reader, &memory.reads, &mut memory.responses, &owner, begun, limit).await?;
        for (read, received) in memory.responses.iter().filter(|(_, received)| received.fresh) {
            if let (Read::Leftovers { release, .. }, Response::Leftovers(Err(error))) = (read, &received.response) {
                tracing::warn!(%release, error, "osdpl can't find the objects of failed revisions; osdpl retries later");
            }
        }
        let observation = self.tasks.observe();
        memory.unobserved.retain(|key, waiting| !waiting.is_done(observation.releases.get(key)));
        let inputs = SnapshotInputs {
            deployment: deployment.clone(),
            catalog: self.catalog(),
            catalog_findings: self.catalog.findings(),
            problems: [self.tasks.describe_problems(), self.inputs.problems()].concat(),
        };
        let mut snapshot = snapshot(inputs, &observation, &self.inputs, now());
        snapshot.helm = Helm {
            major: self.runner.program().version().major.into(),
            free_slots: self.runner.free_slots(),
            rendering: count_rendering(&table, &snapshot),
            cores: self.runner.cores(),
            idle: table.is_empty(),
        };
        let observed = &mut snapshot.observed;
        observed.running = table
            .into_iter()
            .map(|(key, job)| {
                let inputs = memory.started.get(&key).map(String::as_str).unwrap_or_default();
                let running = running_helm(&job, inputs);
                (key, running)
            })
            .collect_map();
        observed.running.extend(memory.unobserved_processes());
        observed.failures = memory.failures.clone();
        observed.repairs = memory.repairs.clone();
        snapshot.charts = self.charts.snapshot();
        snapshot.responses = memory.responses.clone();
        snapshot.permitted = self.permitted();
        snapshot.uninstalled.clone_from(&memory.uninstalled);
        snapshot.kept = memory.kept.clone();
        snapshot.forget_deleted_namespaces();
        Ok(snapshot)
    }
}

/// Converts a running helm process from the runner's type to the snapshot's type. `inputs` is the release's entry in
/// [`Memory::started`].
fn running_helm(job: &RunningJob, inputs: &str) -> RunningHelm {
    RunningHelm {
        verb: job.verb,
        skips_hooks: inputs == SKIPPED_HOOKS,
        inputs: job.inputs.clone().unwrap_or_default(),
        since: job.since,
        stopping: job.stopping.is_some(),
    }
}

/// Returns the number of helm processes that still render their chart. Rendering uses a whole processor core, so a plan
/// allows at most one such process per core.
///
/// A process still renders if the record of its revision is missing: helm writes the record after rendering, and then
/// mostly waits. A process that has run for longer than [`RENDER_LIMIT`] does not count, even without a record.
fn count_rendering(table: &BTreeMap<ReleaseKey, RunningJob>, snapshot: &Snapshot) -> usize {
    let has_record = |key: &ReleaseKey, job: &RunningJob| {
        let observed = snapshot.observed.releases.get(key);
        observed.is_some_and(|observed| observed.revision >= i64::from(job.attempt.revision()))
    };
    let is_rendering = |(key, job): &(&ReleaseKey, &RunningJob)| {
        let is_stuck = snapshot.now.duration_since(job.since).unsigned_abs() > RENDER_LIMIT;
        job.inputs.is_some() && !is_stuck && !has_record(key, job)
    };
    table.iter().filter(is_rendering).count()
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::extract::Request;
    use osdpl_core::release::Cleanup;

    use super::*;

    #[tokio::test]
    async fn a_read_that_takes_too_long_does_not_stop_the_pass() {
        // The API server never responds to requests about keystone, and has no records of nova.
        let router = Router::new().fallback(async move |request: Request| -> String {
            if request.uri().query().unwrap_or_default().contains("keystone") {
                std::future::pending::<()>().await;
            }
            r#"{"apiVersion": "v1", "kind": "List", "metadata": {}, "items": []}"#.to_owned()
        });
        let reader = Reader::new(kube::Client::new(router, "openstack"));
        let leftovers = |release: &str| {
            let cleanup = Cleanup { revisions: [2].into(), kept: [3].into(), newest: 3 };
            Read::Leftovers { release: ReleaseKey::new("openstack", release), cleanup, others: Vec::new() }
        };
        let reads: BTreeSet<Read> = [leftovers("keystone"), leftovers("nova")].into();
        let mut known = Responses::new();
        execute_reads(&reader, &reads, &mut known, "nimbus", now(), Duration::from_secs(5)).await.unwrap();
        let response = |release: &str| &known[&leftovers(release)].response;
        assert!(matches!(response("keystone"), Response::Leftovers(Err(why)) if why.contains("took too long")));
        assert!(matches!(response("nova"), Response::Leftovers(Ok(None))));
    }
}
