//! Defines the observed state: helm's release records, the workloads and Jobs in the cluster, and the running helm
//! processes.
//!
//! Pure module (no I/O). The operator collects the observed state in each reconcile pass; the modules `plan` and
//! `status` use it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

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
use crate::release::{ChartIdentity, Status, Verb};
pub use crate::release::{PastRevision, ReleaseKey};
pub use cause::Cause;
pub use cluster_info::{ClusterInfo, NodeCount, Range};
pub use comparison::{ComparisonResult, ManifestComparison};
pub use cron::{FinishedRun, ObservedCronJob, Run, RunState};
pub use failed::{Failed, RetryCondition};
pub use node::{LabelLosses, Labels, Node};
pub use rollout::{DaemonPod, DaemonSetGroup, OnDelete, PodState, RolloutPods};
pub use storage::{Claim, ClaimPhase, Class};

/// The state of the cluster that a reconcile pass observed. Together with the desired state, it is the input of `plan`
/// and `status`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The state of each release according to helm's records. A release of which helm has no record has no entry.
    pub releases: BTreeMap<ReleaseKey, ObservedRelease>,
    /// The releases that belong to the cloud: those that the status of the OpenStackDeployment names or, if that status
    /// was lost, those in `recognized`. To uninstall a release outside of this set, osdpl waits for approval, because
    /// anyone who is allowed to write Secrets in the release's namespace can forge the release's records.
    pub owned: BTreeSet<ReleaseKey>,
    /// If the status of the OpenStackDeployment was lost, the releases that osdpl recognized by the labels of their
    /// records; else empty. osdpl manages these releases, but uninstalls them only after approval.
    pub recognized: BTreeSet<ReleaseKey>,
    /// The labels to remove from nodes, by node, even if the removal still waits for approval. Until the whole removal
    /// is finished, the map also contains the labels that osdpl has already removed, so that the target hash stays the
    /// same.
    pub label_losses: LabelLosses,
    /// The Deployments, `StatefulSets` and `DaemonSets` that belong to helm releases.
    pub workloads: Vec<Workload>,
    /// The Jobs that belong to helm releases, including helm's hooks.
    pub jobs: Vec<ObservedJob>,
    /// The `CronJobs` that belong to helm releases.
    pub crons: Vec<ObservedCronJob>,
    /// The container images that pods of workloads run, with their digests.
    pub images: Vec<RunningImages>,
    /// Why workloads and Jobs are not ready: the root causes without duplicates, the most severe cause first.
    pub causes: Vec<Cause>,
    /// The helm processes of this operator that run now, by release.
    pub running: BTreeMap<ReleaseKey, RunningHelm>,
    /// The last failed helm run of osdpl for each release. A release whose last helm run succeeded has no entry.
    pub failures: BTreeMap<ReleaseKey, Failed>,
    /// The number of drift repairs in a row for each release, and the time when the last repair started.
    pub repairs: BTreeMap<ReleaseKey, Repaired>,
    /// The external services for which osdpl has published an address in the cluster. The components of these services
    /// count as available, so helm runs of releases that need them can start.
    pub external_ready: BTreeSet<String>,
    /// The objects of each release that someone changed outside of helm since helm made the release's newest revision.
    ///
    /// osdpl looks for such changes only if the newest revision has the status `deployed` and osdpl itself made it.
    pub drift: Arc<BTreeMap<ReleaseKey, ObservedDrift>>,
    /// The result of the last probe of each release's API. A release has no entry if osdpl does not probe its API, or
    /// if the API accepts no connection.
    pub endpoints: Arc<BTreeMap<ReleaseKey, EndpointProbe>>,
    /// For how long each record with a pending status has been unchanged, by the monotonic clock of this operator
    /// process. If someone else left a record pending, osdpl unlocks it only after it has been unchanged for a while.
    pub unchanged: BTreeMap<ReleaseKey, SignedDuration>,
    /// The differences between the newest revision of each release and the desired state. The map contains a release
    /// only if someone else made its newest revision, or if osdpl adopted this revision and the desired inputs differ
    /// from the revision's inputs.
    pub comparisons: BTreeMap<ReleaseKey, ManifestComparison>,
    /// The namespaces that are being deleted: Kubernetes creates no new objects in them.
    pub terminating: BTreeSet<String>,
    /// The batch size of each rollout that is replacing a batch of pods now. The key is the group of `DaemonSets` whose
    /// pods the rollout replaces. The batch size is the maximum number of nodes without a ready pod.
    pub rolling_batches: BTreeMap<DaemonSetGroup, i32>,
}

/// The state of one release according to helm's records. Unless a field says otherwise, the value is from the newest
/// record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedRelease {
    /// helm's status of the newest revision.
    pub status: Status,
    /// The number of the newest revision.
    pub revision: i64,
    /// When helm created the record of the newest revision.
    pub created_at: Option<Timestamp>,
    /// The uid of the Secret with the record of the newest revision.
    pub uid: Option<String>,
    /// Whether a record of the release shows that helm once deployed a revision successfully.
    pub was_deployed: bool,
    /// The digest of the inputs of the newest revision, from the label `osdpl.dev/inputs` of its record; `None` without
    /// the label.
    pub inputs: Option<String>,
    /// The digest of those inputs of the newest revision that come from the catalogue and not from the spec, from the
    /// label `osdpl.dev/catalog` of its record.
    pub catalog: Option<String>,
    /// The release's name in the catalogue, from the label `osdpl.dev/release` of the newest record. Without the label,
    /// osdpl derives the name from the chart, the spec or the release's name in helm.
    pub release: Option<String>,
    /// The digest of the names of the container images of the release's pods and Jobs, from the label
    /// `osdpl.dev/images` of the newest record.
    pub images: Option<String>,
    /// The digest of the settings on which running OpenStack instances depend, from the label `osdpl.dev/instances` of
    /// the newest record.
    pub instances: Option<String>,
    /// A digest that describes how the chart splits the release's `DaemonSets`, from the label `osdpl.dev/split` of the
    /// newest record.
    pub split: Option<String>,
    /// The baseline of the release: a number that decides which defaults of the catalogue apply to the release
    /// ([`crate::desired::BASELINE`]). It is from the label `osdpl.dev/baseline` of the newest record; 0 without the
    /// label.
    pub baseline: u32,
    /// The chart of the newest revision, from the label `osdpl.dev/chart` of its record; `None` without the label.
    pub chart: Option<ChartIdentity>,
    /// The digest of the inputs that the hooks of the newest revision can read, from the label `osdpl.dev/hooks` of its
    /// record; `None` if osdpl did not write the label for this revision.
    pub hooks: Option<String>,
    /// All revisions whose records helm still has, lowest first.
    pub history: Vec<PastRevision>,
    /// The digest of the inputs of the newest revision that osdpl made, from the record of that revision. Someone else
    /// may have made a newer revision since then.
    pub own_inputs: Option<String>,
    /// The number of the newest revision that osdpl made; `None` if helm no longer has its record.
    pub own_revision: Option<u32>,
    /// The helm run that made the newest record, according to the record's label `osdpl.dev/attempt`; `None` without
    /// the label.
    pub attempt: Option<Attempt>,
    /// The fields of the newest record's payload that osdpl needs; `None` until the operator has read the payload.
    pub body: Option<RecordBody>,
    /// Why osdpl cannot use the release's records: the newest record cannot be decoded, or the metadata of any record
    /// is invalid; `None` if osdpl can use the records.
    pub undecodable: Option<String>,
}

impl Observed {
    /// Whether helm has records of the release, and osdpl made none of the revisions.
    pub fn is_unmanaged(&self, key: &ReleaseKey) -> bool {
        self.releases.get(key).is_some_and(|record| !record.is_ours())
    }

    /// Returns the objects of a release that someone changed outside of helm since helm made the release's newest
    /// revision.
    pub fn drifted(&self, key: &ReleaseKey) -> &[drift::DriftedObject] {
        let revision = self.releases.get(key).map(|record| record.revision);
        let found = self.drift.get(key).filter(|found| Some(found.revision) == revision);
        found.map_or(&[], |found| found.objects.as_slice())
    }

    /// Whether someone scaled the workload to 0 outside of helm.
    ///
    /// Returns false if the manifest in helm's record itself sets 0 replicas. osdpl reads the manifest and not the
    /// values, because the key for the number of replicas differs between charts.
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

/// The number of drift repairs in a row for a release, and the time when the last repair started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The number of drift repairs in a row ([`crate::plan::count_repairs`]).
    pub count: u32,
    /// When the last drift repair started.
    pub last_started_at: Timestamp,
}

impl ObservedRelease {
    /// Whether osdpl made any of the release's revisions.
    pub fn is_ours(&self) -> bool {
        self.attempt.is_some() || self.own_inputs.is_some()
    }

    /// Returns a note for users about an upgrade to `inputs` (a digest) that changes no value of the release: whether
    /// the upgrade changes another input.
    pub fn note_without_values(&self, inputs: &str) -> &'static str {
        // If someone else made the newest revision, helm may have copied the label with the digest from an earlier one.
        let is_own = self.attempt.as_ref().is_some_and(|attempt| attempt.revision == self.revision);
        if is_own && self.inputs.as_deref() == Some(inputs) {
            "(nothing in the release's inputs changes)"
        } else {
            "(no value changes, but the chart, helm's version or helm's flags do)"
        }
    }
}

/// The helm run of osdpl that made a record, according to the record's label `osdpl.dev/attempt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The value of the label `osdpl.dev/attempt`, which identifies the helm run.
    pub label: String,
    /// The revision that `label` names. If the record has another revision, osdpl did not make the record: helm only
    /// copied the label from an earlier record.
    pub revision: i64,
    /// The operator process that started the helm process, and whether that helm process could still be running.
    pub owner: Liveness,
}

/// The operator process that started the helm process that made a record, and whether that helm process could still be
/// running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// This operator process itself started the helm process.
    Us,
    /// The operator process that started the helm process is not the active operator any more, and the helm process has
    /// ended.
    Dead,
    /// Another operator process started the helm process, and the helm process could still be running.
    Alive,
    /// osdpl can't determine whether the helm process still runs, because the user of `osdpl plan` lacks the right to
    /// read Leases.
    Unknown,
}

/// The fields that osdpl needs from the payload of a release record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordBody {
    /// The name of the installed chart.
    pub chart: String,
    /// The version of the installed chart.
    pub chart_version: String,
    /// helm's description of the operation that made the revision, such as `Upgrade complete`.
    pub description: String,
    /// The hook that helm waits for or, if the record's status is `failed`, the hook that failed.
    pub hook: Option<ObservedHook>,
    /// The workloads in the manifest, as (kind, namespace, name). osdpl checks the health of these workloads before it
    /// reports the release as ready.
    pub workloads: BTreeSet<(WorkloadKind, String, String)>,
    /// The workloads for which the manifest sets 0 replicas, as (kind, namespace, name).
    pub scaled_to_zero: BTreeSet<(WorkloadKind, String, String)>,
    /// The Jobs that must complete before the release is ready, as (namespace, name): the Jobs that are not hooks, and
    /// the hook Jobs that helm runs after the install, upgrade or rollback and does not delete afterwards.
    pub jobs: BTreeSet<(String, String)>,
    /// The Jobs that are post-upgrade hooks, as (namespace, name). In each upgrade, helm recreates them after it has
    /// changed the workloads.
    pub hook_jobs: BTreeSet<(String, String)>,
    /// Whether all delete hooks of an unfinished uninstall have completed, according to the record; `None` if the
    /// record's status is not `uninstalling`, or if the operator has not read the newest version of the record's
    /// payload.
    pub delete_hooks_completed: Option<bool>,
    /// The objects in the manifest that osdpl watches for drift, each with the fields that the manifest sets.
    pub applied_objects: Arc<BTreeMap<drift::ObjectId, drift::ExpectedFields>>,
    /// The size in bytes of the payload that the record's Secret contains. [`crate::release::RECORD_LIMIT`] is the
    /// maximum.
    pub stored_bytes: usize,
}

/// A helm hook that runs now or that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedHook {
    /// The hook's event, kind and name: `post-upgrade Job keystone-db-sync`.
    pub name: String,
    /// The name of the hook's Job; `None` if the hook is another kind of object.
    pub job: Option<String>,
    /// When the hook started.
    pub since: Option<Timestamp>,
    /// Whether the hook failed. If so, it does not run any more, and the record's status is `failed`.
    pub failed: bool,
}

/// The container images that pods of one workload run, with their digests. If pods of a workload run different images
/// or digests, there are several of these values for the workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunningImages {
    /// The namespace and name of the helm release, from the label `release_group` of the pods.
    pub release: ReleaseKey,
    /// The name of the workload that owns the pods.
    pub workload: String,
    /// The images of the pods' containers: the name with the tag from the pods' spec, and the digest that runs
    /// (`sha256:…`). Leaves out images whose name contains a digest, because no tag can move them.
    pub images: Vec<(String, String)>,
}

/// A Deployment, `StatefulSet` or `DaemonSet` of a helm release.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The kind of the workload.
    pub kind: WorkloadKind,
    /// The namespace of the workload.
    pub namespace: String,
    /// The name of the workload.
    pub name: String,
    /// The name of the helm release that owns the workload, in the workload's namespace.
    pub release: String,
    /// The values of the labels `application` and `component` on the workload or, if the workload has no such labels,
    /// on its pod template. If neither has the labels, the name of the release and the name of the workload.
    pub component: Component,
    /// The workload's `metadata.generation`.
    pub generation: i64,
    /// The workload's `status.observedGeneration`.
    pub observed_generation: i64,
    /// The desired number of pods; for a `DaemonSet` the number of nodes that should run a pod.
    pub desired: i32,
    /// The number of the workload's ready pods.
    pub ready: i32,
    /// The number of pods that have the newest pod template. With the update strategy `OnDelete`, Kubernetes replaces
    /// no pod by itself, so osdpl sets `updated` to `desired`; for a `DaemonSet`, `on_delete` then counts the nodes
    /// that have no pod with the newest template.
    pub updated: i32,
    /// The state of a `DaemonSet` with the update strategy `OnDelete`; `None` for any other workload.
    pub on_delete: Option<OnDelete>,
    /// The number of a Deployment's pods that have an older pod template. If some of these pods are ready, `ready`
    /// includes them.
    pub outdated_pods: i32,
    /// Whether the workload was ready before: its newest pod template was once rolled out completely, or a pod
    /// that is not ready now has been ready before. If false, the pods may still be starting for the first time.
    pub was_available: bool,
    /// The node selector of a `DaemonSet`, such as `openvswitch=enabled`; empty if it has no node selector.
    pub node_selector: String,
    /// The number of nodes that have a pod of this `DaemonSet` but should not. This number includes `NotReady` nodes
    /// that have a pod, because Kubernetes taints `NotReady` nodes.
    pub misscheduled: i32,
    /// The size in the workload's first template of volume claims, as the template writes it: `10Gi`; `None` if the
    /// workload has no template of volume claims.
    pub claim_size: Option<String>,
    /// The names of the lost nodes that have a pod of this `DaemonSet`. A lost node has been `NotReady` for longer than
    /// its grace period.
    pub lost_nodes: Vec<String>,
    /// Why the workload is not ready, such as `neutron-server-abc: ImagePullBackOff quay.io/…`; `None` if the workload
    /// is ready, or if osdpl does not know the reason.
    pub trouble: Option<Issue>,
}

/// The problem of a pod, workload or Job that is not ready.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Issue {
    /// Whether the object cannot become ready without a fix by a person: for example, it failed, its image cannot be
    /// pulled, or its container crashes repeatedly. If false, the object may become ready by itself.
    pub stuck: bool,
    /// Why the object is not ready, in one line and without secrets.
    pub message: String,
}

/// A Job that belongs to a helm release.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedJob {
    /// The namespace of the Job.
    pub namespace: String,
    /// The name of the Job.
    pub name: String,
    /// The name of the helm release, from helm's annotation or the label `release_group`.
    pub release: String,
    /// Whether the Job completed.
    pub complete: bool,
    /// Whether the Job failed and Kubernetes does not retry it.
    pub failed: bool,
    /// The number of the Job's failed pods.
    pub failures: i32,
    /// Why the Job makes no progress, with the last lines of its pod's log and without secrets; `None` if it has no
    /// problem.
    pub trouble: Option<Issue>,
}

/// A helm process that this operator runs now.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningHelm {
    /// The operation that the helm process runs: an upgrade or an uninstall.
    pub verb: Verb,
    /// The digest of the inputs that the operator passed to helm; empty for an uninstall.
    pub inputs: String,
    /// When the operator started the helm process.
    pub since: Timestamp,
    /// Whether the operator asked the helm process to stop.
    pub stopping: bool,
    /// Whether this helm process runs no hooks (`--no-hooks`).
    pub skips_hooks: bool,
}

/// The result of the last probe of a release's API. The operator stores a result only if the API accepted the
/// connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointProbe {
    /// The label `application` of the component that serves the API.
    pub application: String,
    /// The name of the probed Service.
    pub service: String,
    /// The problem with the API's response in one line: `GET http://…: 503 Service Unavailable`; `None` if the API
    /// responded as expected.
    pub trouble: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::observed_release;

    #[test]
    fn notes_whether_any_input_changes() {
        let own = observed_release(Status::Deployed);
        assert_eq!(own.note_without_values("new"), "(nothing in the release's inputs changes)");
        let other_input = "(no value changes, but the chart, helm's version or helm's flags do)";
        assert_eq!(own.note_without_values("newer"), other_input);
        let foreign = ObservedRelease { revision: own.revision + 1, ..own };
        assert_eq!(foreign.note_without_values("new"), other_input);
    }
}
