//! The status of an `OpenStackDeployment`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CauseStatus, RolloutStatus};

/// What the operator sees of the cloud.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenStackDeploymentStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One word for people; programs read the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// One line: what it waits for, or what to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `12/13`: releases that are ready, of those wanted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub releases: String,
    /// `33/34`: components that are ready, of those wanted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub components: String,
    /// The OpenStack release, wanted and deployed.
    #[serde(default)]
    pub openstack_release: ReleaseStatus,
    /// The version of the operator's helm: it is part of what decides whether a release is up to date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<String>,
    /// The hash with which `osdpl approve` lets the waiting changes go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// The conditions Ready, Progressing, Degraded, Paused, Reconciling and Stalled; `CephReady` where the spec names a Ceph, `RolledOut` where there
    /// were rollouts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Who plays which role, where the spec names roles.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, RoleStatus>,
    /// Each release by its name in the catalogue.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub children: BTreeMap<String, ChildStatus>,
    /// The rollouts of the data plane's components, by `application/component`: those that are on, and the last one of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rollouts: BTreeMap<String, RolloutStatus>,
    /// What is to be mended, each thing once with what waits for it, the gravest first; at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<CauseStatus>,
    /// How the last runs of tests ended, by `application/component`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tests: BTreeMap<String, TestStatus>,
    /// The health of each application's components.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub health: BTreeMap<String, BTreeMap<String, ComponentStatus>>,
}

/// One word for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Nothing was done yet.
    Pending,
    /// Releases are being installed for the first time.
    Installing,
    /// Releases are being changed.
    Updating,
    /// Everything is installed, something is not available.
    Degraded,
    /// Everything holds.
    Ready,
    /// Changes wait for a person.
    AwaitingApproval,
    /// The spec says `paused`.
    Paused,
    /// It can't go on without a change by a person.
    Failed,
    /// The resource is being deleted.
    Deleting,
}

/// The OpenStack release, wanted and deployed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseStatus {
    /// What the spec asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// What every release was last installed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed: Option<String>,
}

/// Who plays a role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleStatus {
    /// The labels that its nodes have from it: `openstack-compute-node=enabled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// How many nodes play it.
    #[serde(default)]
    pub count: i32,
    /// Their names, at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// One helm release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildStatus {
    /// Helm's word (`deployed`, `pending-upgrade`, …) or ours (`starting`, `absent`, `unmanaged`).
    pub status: String,
    /// Whether the release is in sync and its workloads and this revision's Jobs are done.
    pub ready: bool,
    /// The newest revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// The chart's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub chart: String,
    /// The chart's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The digest of the chart that the operator has for it: with this, `osdpl plan` needs no chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart_digest: Option<String>,
    /// The first digits of the digest of the release's inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When the newest revision was made, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The hook that helm waits for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<String>,
    /// What it waits for or what went wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The values that a change which waits for approval would change: paths alone, at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// The objects of the release that someone edited or deleted beside helm, at most 10 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<ObjectDrift>,
}

/// An object that is not as its release left it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectDrift {
    /// `Deployment keystone-api`.
    pub object: String,
    /// `deleted`, `edited: spec.replicas`, or that data was taken out.
    pub change: String,
    /// Who, as the object's `managedFields` call it; a deletion leaves no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When, RFC 3339; of what leaves no time, when it was noticed.
    pub at: String,
}

/// Tests that run on a schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestStatus {
    /// Whether the last run that ended was a success; unset before there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Its Job, whose pod has the log while both are there: `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Why it was no success.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Where results are kept.
    pub results: String,
}

/// The health of one component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    /// The verdict.
    pub status: ComponentVerdict,
    /// The generation of the workload that the verdict speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// `2/3`: ready pods, of those desired.
    pub ready: String,
    /// Why it is not Ready.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The verdict on one component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ComponentVerdict {
    /// All that is desired is available.
    Ready,
    /// All that is desired is available but for what is on nodes that are `NotReady`; of a CronJob: its last run was no success.
    Degraded,
    /// On its way.
    Progressing,
    /// Was available, or can't become it.
    Unhealthy,
    /// Not seen yet.
    Unknown,
}

/// The condition types, a closed set.
pub mod condition {
    /// The cloud is as wanted.
    pub const READY: &str = "Ready";
    /// Something is on its way.
    pub const PROGRESSING: &str = "Progressing";
    /// Something is broken.
    pub const DEGRADED: &str = "Degraded";
    /// The spec says `paused`.
    pub const PAUSED: &str = "Paused";
    /// kstatus: the controller is at work.
    pub const RECONCILING: &str = "Reconciling";
    /// kstatus: it can't go on without a person.
    pub const STALLED: &str = "Stalled";
    /// The Ceph that the spec declares is known, and what the charts mount of it is written; only where one is declared.
    pub const CEPH_READY: &str = "CephReady";
    /// Every pod of the data plane is of the newest template; only where a rollout is on, or was.
    pub const ROLLED_OUT: &str = "RolledOut";
}

/// The reasons of conditions, a closed set.
pub mod reason {
    /// Everything holds.
    pub const READY: &str = "Ready";
    /// Releases are being installed or changed.
    pub const RELEASES: &str = "ReleasesInProgress";
    /// Releases are in sync, workloads are not available yet.
    pub const WORKLOADS: &str = "WorkloadsNotReady";
    /// A release failed.
    pub const FAILED: &str = "ReleaseFailed";
    /// A component is not available.
    pub const UNHEALTHY: &str = "ComponentsUnhealthy";
    /// Changes wait for a person.
    pub const APPROVAL: &str = "AwaitingApproval";
    /// The spec can't be carried out.
    pub const INVALID: &str = "InvalidSpec";
    /// Another resource is older.
    pub const NOT_THE_ONE: &str = "NotTheOne";
    /// A DaemonSet that is needed has no node.
    pub const NO_NODES: &str = "NoNodes";
    /// The last runs of CronJobs failed, and nothing else is wrong.
    pub const CRON_JOBS: &str = "CronJobsFailing";
    /// Nodes are `NotReady`, and nothing else is wrong.
    pub const NODES: &str = "NodesNotReady";
    /// The spec says `paused`.
    pub const PAUSED: &str = "Paused";
    /// The resource is being deleted.
    pub const DELETING: &str = "Deleting";
    /// A chart can't be had.
    pub const CHART: &str = "ChartUnavailable";
    /// A chart is on its way.
    pub const CHART_PENDING: &str = "ChartPending";
    /// Something the spec refers to is missing or unreadable.
    pub const INPUTS: &str = "InputsMissing";
    /// The API server refuses, or does not answer, what the operator can't go on without; it is tried again.
    pub const FAILING: &str = "ReconcileError";
    /// Objects of a release were edited or deleted beside helm.
    pub const DRIFTED: &str = "Drifted";
    /// A release is foreign or was changed by others.
    pub const FOREIGN: &str = "ForeignRelease";
    /// The Secret that describes Ceph is not there, or can't be read.
    pub const CEPH_SECRET: &str = "SecretUnavailable";
    /// The Secret that describes Ceph lacks something, or holds something malformed.
    pub const CEPH_INVALID: &str = "SecretInvalid";
    /// An object that is not ours has the name of one that the charts mount.
    pub const CEPH_OCCUPIED: &str = "ObjectInTheWay";
    /// What describes Ceph describes another one than the one that the charts use.
    pub const CEPH_ANOTHER: &str = "AnotherCeph";
    /// Rook has not made what the charts need yet, or can't.
    pub const CEPH_ROOK: &str = "RookPending";
    /// Pods of the data plane are being made anew.
    pub const ROLLING: &str = "RolloutInProgress";
    /// A pod of a new template does not come up: nothing more is made anew.
    pub const ROLLOUT_STOPPED: &str = "RolloutStopped";
    /// Nothing to say.
    pub const NONE: &str = "AsExpected";
}
