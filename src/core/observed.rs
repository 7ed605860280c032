//! The observed state: helm's release records, workloads and Jobs in the cluster, root causes, and running helm
//! processes.
//!
//! Pure module (no I/O). `osdpl-operator` collects this data; `plan` and `status` read it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::catalog::{Component, WorkloadKind};
use crate::drift;

mod cause;
mod cluster_info;
mod comparison;
mod cron;
mod failed;
mod node;
mod rollout;
mod storage;

pub use crate::drift::ObservedDrift;
pub use crate::release::{PastRevision, ReleaseKey};
use crate::release::{Status, Verb};
pub use cause::Cause;
pub use cluster_info::{ClusterInfo, NodeCount, Range};
pub use comparison::{ComparisonResult, ManifestComparison};
pub use cron::{FinishedRun, ObservedCronJob, Run, RunState};
pub use failed::{Failed, RetryCondition};
pub use node::{Labels, Node};
pub use rollout::{DaemonPod, DaemonSetGroup, OnDelete, PodState, RolloutPods};
pub use storage::{Claim, ClaimPhase, Class};

/// The observed state of a pass: the input of `plan` and `status`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Helm's newest record of each release.
    pub releases: BTreeMap<ReleaseKey, ObservedRelease>,
    /// Deployments, `StatefulSets` and `DaemonSets` of releases.
    pub workloads: Vec<Workload>,
    /// Jobs of releases, hooks included.
    pub jobs: Vec<ObservedJob>,
    /// `CronJobs` of releases.
    pub crons: Vec<ObservedCronJob>,
    /// The root causes of workloads and Jobs that are not ready, each once, the most severe first.
    pub causes: Vec<Cause>,
    /// The helm processes that run now.
    pub running: BTreeMap<ReleaseKey, RunningHelm>,
    /// The failures of osdpl's operations on a release, until an operation on it succeeds.
    pub failures: BTreeMap<ReleaseKey, Failed>,
    /// The number of drift repairs in a row, by release.
    pub repairs: BTreeMap<ReleaseKey, Repaired>,
    /// The external services whose address osdpl published. A need for a component of such a service is met.
    pub external_ready: BTreeSet<String>,
    /// Drift by release. Only for releases whose drift is watched and whose newest revision osdpl made and helm
    /// deployed.
    pub drift: Arc<BTreeMap<ReleaseKey, ObservedDrift>>,
    /// The last probe of each release's API, for services that are probed and reachable.
    pub endpoints: Arc<BTreeMap<ReleaseKey, EndpointProbe>>,
    /// By release, the comparison of its newest revision with the desired state. Only for revisions that osdpl did not
    /// make.
    pub comparisons: BTreeMap<ReleaseKey, ManifestComparison>,
    /// Namespaces that are being deleted: Kubernetes starts no pod in them.
    pub terminating: BTreeSet<String>,
    /// The `DaemonSets` of which a rollout replaces a batch of pods now. The value is the number of nodes that may miss
    /// a pod.
    pub rolling_batches: BTreeMap<DaemonSetGroup, i32>,
}

/// Helm's newest record of a release.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedRelease {
    /// Helm's status of the newest record (highest revision).
    pub status: Status,
    /// The number of the newest revision.
    pub revision: i64,
    /// When the newest record was created.
    pub created_at: Option<Timestamp>,
    /// Whether helm ever deployed a revision of the release.
    pub was_deployed: bool,
    /// The label of the newest record with the digest of the inputs.
    pub inputs: Option<String>,
    /// The label of the newest record with the digest of the inputs that come from the catalogue.
    pub catalog: Option<String>,
    /// The release's name in the catalogue, from a label of the newest record; without that label, derived from other
    /// data.
    pub release: Option<String>,
    /// The label of the newest record with the digest of the images.
    pub images: Option<String>,
    /// The label of the newest record with the digest of the settings that running instances depend on.
    pub instances: Option<String>,
    /// The label of the newest record that says how the release's `DaemonSets` are split by node, as a digest.
    pub split: Option<String>,
    /// All revisions that helm has a record of, lowest first.
    pub history: Vec<PastRevision>,
    /// The digest of the inputs of the newest revision that osdpl made: the inputs that osdpl applied last.
    pub own_inputs: Option<String>,
    /// The newest revision that osdpl made, if helm still has its record.
    pub own_revision: Option<u32>,
    /// The helm run that made the newest record, according to its label.
    pub attempt: Option<Attempt>,
    /// The content of the newest record's body; `None` until the operator has read it.
    pub body: Option<RecordBody>,
    /// Why the newest record cannot be decoded; `None` if it can.
    pub undecodable: Option<String>,
}

impl Observed {
    /// Whether the release exists and osdpl made none of its revisions.
    pub fn is_unmanaged(&self, key: &ReleaseKey) -> bool {
        self.releases.get(key).is_some_and(|record| !record.is_ours())
    }

    /// Returns the objects of a release that someone changed outside of helm since the newest revision.
    pub fn drifted(&self, key: &ReleaseKey) -> &[drift::DriftedObject] {
        let revision = self.releases.get(key).map(|record| record.revision);
        let found = self.drift.get(key).filter(|found| Some(found.revision) == revision);
        found.map_or(&[], |found| found.objects.as_slice())
    }

    /// Whether someone scaled the workload to 0 outside of helm.
    ///
    /// Compares with the newest revision's manifest: some charts set 0 replicas themselves.
    pub fn is_scaled_to_zero(&self, workload: &Workload) -> bool {
        if workload.kind == WorkloadKind::DaemonSet || workload.desired != 0 {
            return false;
        }
        let key = ReleaseKey::new(&workload.namespace, &workload.release);
        let identity = (workload.kind, workload.namespace.clone(), workload.name.clone());
        let body = self.releases.get(&key).and_then(|record| record.body.as_ref());
        body.is_some_and(|body| body.workloads.contains(&identity) && !body.scaled_to_zero.contains(&identity))
    }
}

/// The drift repairs of a release in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The number of repairs in a row.
    pub count: u32,
    /// When the last repair started.
    pub last_started_at: Timestamp,
}

impl ObservedRelease {
    /// Whether osdpl made any revision of the release.
    pub fn is_ours(&self) -> bool {
        self.attempt.is_some() || self.own_inputs.is_some()
    }
}

/// The helm run that made a record, according to the record's label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The name of the operator process that started helm.
    pub instance: String,
    /// The revision that the label was made for. If the record has another revision, the label is not from the run that
    /// made it: helm copied the label from an earlier revision, in an upgrade or a rollback by someone else.
    pub revision: i64,
    /// Whether that operator process is still running.
    pub owner: Liveness,
}

/// Whether the operator process that made a record still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// The record was made by this operator process.
    Us,
    /// The record was made by an operator process that ended, together with its helm process.
    Dead,
    /// The record was made by an operator process that is still running.
    Alive,
    /// Whether the process still runs is unknown, for example because it ran on another machine.
    Unknown,
}

/// The content of the body of a helm release record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordBody {
    /// The chart's name.
    pub chart: String,
    /// The chart's version.
    pub chart_version: String,
    /// Helm's description of the operation that made the record: `Upgrade complete`, or an error.
    pub description: String,
    /// The hook that runs now, or that failed the operation.
    pub hook: Option<ObservedHook>,
    /// The workloads in the manifest as (kind, namespace, name). The release is ready once they are available.
    pub workloads: BTreeSet<(WorkloadKind, String, String)>,
    /// The workloads whose replica count in the manifest is 0, as (kind, namespace, name).
    pub scaled_to_zero: BTreeSet<(WorkloadKind, String, String)>,
    /// The plain Jobs and post-hook Jobs of this revision, as (namespace, name). The release is ready once they
    /// complete.
    pub jobs: BTreeSet<(String, String)>,
    /// The post-upgrade hook Jobs, as (namespace, name). Each upgrade recreates them after it changed the workloads.
    pub hook_jobs: BTreeSet<(String, String)>,
    /// Whether all pre-install hooks completed. It decides how the operator recovers a pending install.
    pub pre_install_satisfied: bool,
    /// The objects in the manifest that are watched for drift, each with the fields that helm applied.
    pub applied_objects: Arc<BTreeMap<drift::ObjectId, drift::ExpectedFields>>,
    /// The size of the stored record in bytes; see [`crate::release::RECORD_LIMIT`].
    pub stored_bytes: usize,
}

/// A helm hook that runs now, or that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedHook {
    /// The hook's event, kind and name: `post-upgrade Job keystone-db-sync`.
    pub name: String,
    /// The name of the hook's Job; `None` if the hook is another object.
    pub job: Option<String>,
    /// When the hook started.
    pub since: Option<Timestamp>,
    /// Whether the hook failed. A failed hook does not run any more, and the record's status is `failed`.
    pub failed: bool,
}

/// A Deployment, `StatefulSet` or `DaemonSet` of a release.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The workload's kind.
    pub kind: WorkloadKind,
    /// The workload's namespace.
    pub namespace: String,
    /// The workload's name.
    pub name: String,
    /// The helm release that owns the workload.
    pub release: String,
    /// The labels `application` and `component` of the workload, or of its pods if it has none itself.
    pub component: Component,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    pub observed_generation: i64,
    /// The desired number of pods; for a `DaemonSet` the number of nodes.
    pub desired: i32,
    /// The number of ready pods.
    pub ready: i32,
    /// The number of pods of the newest template; equal to `desired` with the update strategy `OnDelete`.
    pub updated: i32,
    /// What a rollout needs to know; only for a `DaemonSet` with the update strategy `OnDelete`.
    pub on_delete: Option<OnDelete>,
    /// The number of a Deployment's pods of older templates. The ready pods may be among them.
    pub outdated_pods: i32,
    /// Whether all pods of the newest template were available at some time. A pod that is missing now was lost
    /// afterwards.
    pub was_available: bool,
    /// The node selector of a `DaemonSet`, if it has one: `openvswitch=enabled`.
    pub node_selector: String,
    /// The number of nodes with a pod of this `DaemonSet` that should not run there, for example because the node is
    /// `NotReady`.
    pub misscheduled: i32,
    /// The `NotReady` nodes whose pod of this `DaemonSet` is not ready.
    pub lost_nodes: Vec<String>,
    /// Why pods are not ready; only the first reason: `neutron-server-abc: ImagePullBackOff quay.io/…`.
    pub trouble: Option<Issue>,
}

/// Why a pod is not ready.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Issue {
    /// Whether the pod cannot recover without help: the image pull fails, it crashes in a loop, or it failed. If false,
    /// the pod is starting or waits.
    pub stuck: bool,
    /// The reason on one line, without secrets.
    pub message: String,
}

/// A Job of a release.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedJob {
    /// The Job's namespace.
    pub namespace: String,
    /// The Job's name.
    pub name: String,
    /// The Job's helm release, from helm's ownership annotation or the label `release_group`.
    pub release: String,
    /// Whether the Job is complete.
    pub complete: bool,
    /// Whether the Job failed for good, so that Kubernetes starts no more pods for it.
    pub failed: bool,
    /// The number of the Job's failed pods.
    pub failures: i32,
    /// Why the Job makes no progress, with the last log lines of its pod, without secrets.
    pub trouble: Option<Issue>,
}

/// A running helm process of the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningHelm {
    /// What helm does: an upgrade or an uninstall.
    pub verb: Verb,
    /// The digest of the inputs that helm applies; empty for an uninstall.
    pub inputs: String,
    /// When the operator started the process.
    pub since: Timestamp,
    /// Whether the operator asked the process to stop.
    pub stopping: bool,
    /// Whether the operator has not started the process yet, because all helm slots are taken.
    pub queued: bool,
    /// Whether helm was started with `--no-hooks`.
    pub skips_hooks: bool,
}

/// The last probe of a release's API; made only while the API is reachable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointProbe {
    /// The label `application` of the component that responds.
    pub application: String,
    /// The Service that was probed.
    pub service: String,
    /// The problem in one line: `GET http://…: 503 Service Unavailable`.
    pub trouble: Option<String>,
}
