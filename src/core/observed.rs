//! The observed state: helm's release records, workloads and Jobs in the cluster, and running helm processes.
//!
//! Pure module (no I/O). The operator collects this data; `plan` and `status` read it.

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

/// The input of `plan` and `status`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Helm's records by release.
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
    /// The failures of our operations, by release, until an operation succeeds.
    pub failures: BTreeMap<ReleaseKey, Failed>,
    /// Consecutive drift repairs by release.
    pub repairs: BTreeMap<ReleaseKey, Repaired>,
    /// The external services whose address is published. Needs for their components are met.
    pub external_ready: BTreeSet<String>,
    /// Drift by release, for releases that are watched and whose newest revision is ours and deployed.
    pub drift: Arc<BTreeMap<ReleaseKey, ObservedDrift>>,
    /// The API probes by release, for services that are probed and reachable.
    pub endpoints: Arc<BTreeMap<ReleaseKey, EndpointProbe>>,
    /// The comparisons with the desired state, by release, for newest revisions that osdpl did not make.
    pub comparisons: BTreeMap<ReleaseKey, ManifestComparison>,
    /// Namespaces that are being deleted: nothing can start in them.
    pub terminating: BTreeSet<String>,
    /// The `DaemonSets` of which a batch of pods is being replaced, with the number of nodes that may miss a pod.
    pub rolling_batches: BTreeMap<DaemonSetGroup, i32>,
}

/// Helm's newest record of a release.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedRelease {
    /// Helm's status of the newest record (highest revision).
    pub status: Status,
    /// The newest revision.
    pub revision: i64,
    /// When the newest record was created.
    pub created_at: Option<Timestamp>,
    /// Whether any revision was ever deployed.
    pub was_deployed: bool,
    /// The newest record's label with the digest of the inputs.
    pub inputs: Option<String>,
    /// The newest record's label with the digest of the inputs that come from the catalogue.
    pub catalog: Option<String>,
    /// The catalogue name, from the label of the newest record or, without that label, derived from other data.
    pub release: Option<String>,
    /// The newest record's label with the digest of the images.
    pub images: Option<String>,
    /// The newest record's label with the digest of settings that running instances depend on.
    pub instances: Option<String>,
    /// The newest record's label with the digest of the split of its `DaemonSets` by node.
    pub split: Option<String>,
    /// All revisions that helm has a record of, lowest first.
    pub history: Vec<PastRevision>,
    /// The inputs of the newest revision that we made: the last applied inputs.
    pub own_inputs: Option<String>,
    /// The newest revision that we made, if helm still has its record.
    pub own_revision: Option<u32>,
    /// The helm run that made the newest record, according to its label.
    pub attempt: Option<Attempt>,
    /// The content of the record's body, once it was read.
    pub body: Option<RecordBody>,
    /// The reason if the newest record cannot be decoded.
    pub undecodable: Option<String>,
}

impl Observed {
    /// Whether the release exists and is not managed by us.
    pub fn is_unmanaged(&self, key: &ReleaseKey) -> bool {
        self.releases.get(key).is_some_and(|record| !record.is_ours())
    }

    /// Returns the objects of a release that others changed since its newest revision.
    pub fn drifted(&self, key: &ReleaseKey) -> &[drift::DriftedObject] {
        let revision = self.releases.get(key).map(|record| record.revision);
        let found = self.drift.get(key).filter(|found| Some(found.revision) == revision);
        found.map_or(&[], |found| found.objects.as_slice())
    }

    /// Whether someone scaled the workload to 0 outside of helm.
    ///
    /// The applied manifest decides, because each chart has another value for the number of replicas.
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

/// Consecutive repairs of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The number of repairs.
    pub count: u32,
    /// When the last repair started.
    pub last_started_at: Timestamp,
}

impl ObservedRelease {
    /// Whether we made any of its revisions.
    pub fn is_ours(&self) -> bool {
        self.attempt.is_some() || self.own_inputs.is_some()
    }
}

/// The helm run that made a record, according to the record's label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The operator process.
    pub instance: String,
    /// The revision that the label was made for. If it differs from the record's revision, the label was inherited or
    /// restored by a rollback.
    pub revision: i64,
    /// Whether the operator process is still running.
    pub owner: Liveness,
}

/// The liveness of the process that made a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// This process.
    Us,
    /// An operator process that ended, together with its helm process.
    Dead,
    /// An operator process that is still running.
    Alive,
    /// Unknown, such as for a process on another machine.
    Unknown,
}

/// The content of a record's body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordBody {
    /// The chart's name.
    pub chart: String,
    /// The chart's version.
    pub chart_version: String,
    /// Helm's description of the last operation.
    pub description: String,
    /// The hook that runs now, or that failed the operation.
    pub hook: Option<ObservedHook>,
    /// The workloads in the manifest, which must become available.
    pub workloads: BTreeSet<(WorkloadKind, String, String)>,
    /// The workloads with 0 replicas in the manifest.
    pub scaled_to_zero: BTreeSet<(WorkloadKind, String, String)>,
    /// The plain Jobs and post-hook Jobs of this revision, as (namespace, name), which must complete.
    pub jobs: BTreeSet<(String, String)>,
    /// The post-upgrade hook Jobs, as (namespace, name): every upgrade recreates them after it changed the workloads.
    pub hook_jobs: BTreeSet<(String, String)>,
    /// Whether all pre-install hooks completed, which decides how to recover a pending install.
    pub pre_install_satisfied: bool,
    /// The objects in the manifest that are watched for drift, with their applied state.
    pub applied_objects: Arc<BTreeMap<drift::ObjectId, drift::ExpectedFields>>,
    /// The size of the stored record in bytes; see [`crate::release::RECORD_LIMIT`].
    pub stored_bytes: usize,
}

/// A hook that runs now or failed.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedHook {
    /// Its event, kind and name: `post-upgrade Job keystone-db-sync`.
    pub name: String,
    /// The name of its Job, if it is a Job.
    pub job: Option<String>,
    /// When it started.
    pub since: Option<Timestamp>,
    /// Whether it failed. If so, it does not run any more, and the record's status is `failed`.
    pub failed: bool,
}

/// A Deployment, `StatefulSet` or `DaemonSet`.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its kind.
    pub kind: WorkloadKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The helm release that owns it.
    pub release: String,
    /// The labels `application` and `component`, from its pods if it has none itself.
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
    /// The state of a `DaemonSet` with the update strategy `OnDelete`.
    pub on_delete: Option<OnDelete>,
    /// The number of a Deployment's pods of older templates. The ready pods may be among them.
    pub outdated_pods: i32,
    /// Whether all pods of this template were available at some time. Pods that are missing now were then lost.
    pub was_available: bool,
    /// The node selector of a `DaemonSet`, if it has one: `openvswitch=enabled`.
    pub node_selector: String,
    /// The number of nodes with a pod of this `DaemonSet` that should not run there, such as `NotReady` nodes.
    pub misscheduled: i32,
    /// The `NotReady` nodes whose pod of this `DaemonSet` is not ready.
    pub lost_nodes: Vec<String>,
    /// Why pods are not ready, first cause only: `neutron-server-abc: ImagePullBackOff quay.io/…`.
    pub trouble: Option<Issue>,
}

/// Why a pod is not ready.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Issue {
    /// Whether it cannot recover without help (image pull, crash loop, failed). Otherwise it waits or starts.
    pub stuck: bool,
    /// One line, without secrets.
    pub message: String,
}

/// A Job.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedJob {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The helm release, from the ownership annotation or the label `release_group`.
    pub release: String,
    /// Whether it is complete.
    pub complete: bool,
    /// Whether it failed for good.
    pub failed: bool,
    /// The number of failed pods.
    pub failures: i32,
    /// Why it makes no progress, with the last log lines, without secrets.
    pub trouble: Option<Issue>,
}

/// A running helm process.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningHelm {
    /// Its operation.
    pub verb: Verb,
    /// The digest of its inputs; empty for an uninstall.
    pub inputs: String,
    /// When it started.
    pub since: Timestamp,
    /// Whether it was asked to stop.
    pub stopping: bool,
    /// Whether it waits for a free slot.
    pub queued: bool,
    /// Whether it was started without hooks.
    pub skips_hooks: bool,
}

/// The last probe of a release's API, if it is reachable at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointProbe {
    /// The label `application` of the component that responds.
    pub application: String,
    /// The probed Service.
    pub service: String,
    /// The problem in one line: `GET http://…: 503 Service Unavailable`.
    pub trouble: Option<String>,
}
