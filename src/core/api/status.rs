//! The status of an `OpenStackDeployment`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RolloutStatus, RootCauseStatus};

/// The observed state of the cloud.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenStackDeploymentStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// A summary for people. Programs should read the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The reason for waiting, or the action to take, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `12/13`: ready releases, of the desired number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub releases: String,
    /// `33/34`: ready components, of the desired number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub components: String,
    /// The desired and the deployed OpenStack release.
    #[serde(default)]
    pub openstack_release: ReleaseStatus,
    /// The version of the operator's helm. It is one of the inputs that decide whether a release is up to date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<String>,
    /// The hash for `osdpl approve` to approve the waiting changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// The conditions Ready, Progressing, Degraded, Paused, Reconciling and Stalled; `CephReady` if the spec names a
    /// Ceph, `RolledOut` if there were rollouts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// The nodes of each role, if the spec names roles.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, RoleStatus>,
    /// The releases, by their name in the catalogue.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub children: BTreeMap<String, HelmReleaseStatus>,
    /// The rollouts of the data plane's components, by `application/component`: active ones, and the last one of each
    /// component.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rollouts: BTreeMap<String, RolloutStatus>,
    /// Root causes that need a fix, each once with the objects it affects, the most severe first; at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<RootCauseStatus>,
    /// The results of the last test runs, by `application/component`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tests: BTreeMap<String, TestStatus>,
    /// The health of each application's components.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub health: BTreeMap<String, BTreeMap<String, ComponentStatus>>,
}

/// A summary for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// The operator has done nothing yet.
    Pending,
    /// The operator is installing releases for the first time.
    Installing,
    /// The operator is changing releases.
    Updating,
    /// All releases are installed, but something is not available.
    Degraded,
    /// The cloud is as the spec describes it, and available.
    Ready,
    /// Changes wait until a person approves them.
    AwaitingApproval,
    /// The spec has `paused` set.
    Paused,
    /// The operator can't continue until a person changes something.
    Failed,
    /// The resource is being deleted.
    Deleting,
}

/// The desired and the deployed OpenStack release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseStatus {
    /// The release in the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The release that every helm release was last installed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed: Option<String>,
}

/// The nodes of a role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleStatus {
    /// The labels that its nodes have from the role: `openstack-compute-node=enabled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The number of its nodes.
    #[serde(default)]
    pub count: i32,
    /// Their names, at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// One helm release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmReleaseStatus {
    /// Helm's status (`deployed`, `pending-upgrade`, …) or the operator's (`starting`, `absent`, `unmanaged`).
    pub status: String,
    /// Whether the release is in sync, its workloads are ready, and the Jobs of this revision are done.
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
    /// The digest of the operator's copy of the chart. With it, `osdpl plan` does not need the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart_digest: Option<String>,
    /// The first digits of the digest of the release's inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The creation time of the newest revision, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The hook that helm is waiting for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<String>,
    /// The reason for waiting, or the error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The paths of the values that a change waiting for approval would change, at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// The objects of the release that someone edited or deleted without helm, at most 10 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<ObjectDrift>,
}

/// An object that differs from its state after the release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectDrift {
    /// `Deployment keystone-api`.
    pub object: String,
    /// `deleted`, `edited: spec.replicas`, or that data was removed.
    pub change: String,
    /// The writer's name in the object's `managedFields`; unset for a deletion, which leaves no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The time of the change, RFC 3339; if that is unknown, the time of its detection.
    pub at: String,
}

/// The results of a scheduled test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestStatus {
    /// Whether the last finished run succeeded; unset before the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// The time when it finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub time: Option<Time>,
    /// Its Job, whose pod has the log while both exist: `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The reason if it did not succeed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The place of the results.
    pub results: String,
}

/// The health of one component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    /// The health of the component.
    pub status: ComponentHealth,
    /// The generation of the workload that the health result describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// `2/3`: ready pods, of the desired number.
    pub ready: String,
    /// The reason if the component is not Ready.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The health of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ComponentHealth {
    /// All desired pods are available.
    Ready,
    /// All desired pods are available except those on nodes that are `NotReady`. For a CronJob: its last run did not
    /// succeed.
    Degraded,
    /// The component is being created or updated.
    Progressing,
    /// The component was available and is not any more, or it can't become available.
    Unhealthy,
    /// The operator has not observed the component yet.
    Unknown,
}

/// The condition types of an `OpenStackDeployment`. The operator sets no others.
pub mod condition {
    /// The cloud is as the spec describes it, and available.
    pub const READY: &str = "Ready";
    /// The operator is working towards the desired state.
    pub const PROGRESSING: &str = "Progressing";
    /// The cloud does not work as desired: for example, a release failed, or a component is not available.
    pub const DEGRADED: &str = "Degraded";
    /// The spec has `paused` set, so the operator installs, upgrades and uninstalls nothing.
    pub const PAUSED: &str = "Paused";
    /// The same as `Progressing`, under the name that kstatus evaluates.
    pub const RECONCILING: &str = "Reconciling";
    /// The operator can't continue until a person acts. kstatus evaluates this name.
    pub const STALLED: &str = "Stalled";
    /// The operator knows the declared Ceph and has written its objects for the charts. Only present if the spec
    /// declares a Ceph.
    pub const CEPH_READY: &str = "CephReady";
    /// Every pod of the data plane has the newest template. Only present if there is or was a rollout.
    pub const ROLLED_OUT: &str = "RolledOut";
}

/// The reasons of conditions. The operator sets no others.
pub mod reason {
    /// The cloud is as the spec describes it, and available.
    pub const READY: &str = "Ready";
    /// The operator is installing or changing releases.
    pub const RELEASES: &str = "ReleasesInProgress";
    /// All releases are in sync, but some of their workloads are not available yet.
    pub const WORKLOADS: &str = "WorkloadsNotReady";
    /// A release failed or can't continue, for example because one of its hooks failed.
    pub const FAILED: &str = "ReleaseFailed";
    /// A component is not available.
    pub const UNHEALTHY: &str = "ComponentsUnhealthy";
    /// Changes wait until a person approves them.
    pub const APPROVAL: &str = "AwaitingApproval";
    /// The operator refuses the spec because of errors.
    pub const INVALID: &str = "InvalidSpec";
    /// Another `OpenStackDeployment` in the cluster is older, and only the oldest is reconciled.
    pub const OLDER_RESOURCE: &str = "NotTheOne";
    /// A `DaemonSet` has no node with the label that it selects.
    pub const NO_NODES: &str = "NoNodes";
    /// The last runs of `CronJobs` failed, but everything else works.
    pub const CRON_JOBS: &str = "CronJobsFailing";
    /// Nodes are `NotReady`, but everything else works.
    pub const NODES: &str = "NodesNotReady";
    /// The spec has `paused` set, so the operator installs, upgrades and uninstalls nothing.
    pub const PAUSED: &str = "Paused";
    /// The resource is being deleted.
    pub const DELETING: &str = "Deleting";
    /// The operator can't get a chart.
    pub const CHART: &str = "ChartUnavailable";
    /// The operator is fetching a chart.
    pub const CHART_PENDING: &str = "ChartPending";
    /// A Secret, `ConfigMap` or other input of a release is missing or can't be read.
    pub const INPUTS: &str = "InputsMissing";
    /// The API server rejects a request of the operator, or does not respond. The operator retries.
    pub const FAILING: &str = "ReconcileError";
    /// Someone edited or deleted objects of a release without helm.
    pub const DRIFTED: &str = "Drifted";
    /// osdpl does not own a release, or someone else changed it with helm, so the operator does not touch it.
    pub const FOREIGN: &str = "ForeignRelease";
    /// The Secret that describes Ceph does not exist or can't be read.
    pub const CEPH_SECRET: &str = "SecretUnavailable";
    /// The Secret that describes Ceph is incomplete or malformed.
    pub const CEPH_INVALID: &str = "SecretInvalid";
    /// An object that osdpl did not create has the name of an object that osdpl must write for the charts.
    pub const CEPH_OCCUPIED: &str = "ObjectInTheWay";
    /// The declared Ceph is another one than the Ceph that contains the cloud's data.
    pub const CEPH_ANOTHER: &str = "AnotherCeph";
    /// Rook has not created an object that the cloud needs, or reports a problem.
    pub const CEPH_ROOK: &str = "RookPending";
    /// The operator is recreating pods of the data plane.
    pub const ROLLING: &str = "RolloutInProgress";
    /// A pod with a new template does not become ready, so the operator recreates no more pods.
    pub const ROLLOUT_STOPPED: &str = "RolloutStopped";
    /// The condition needs no explanation, for example because it reports that there is no problem.
    pub const NONE: &str = "AsExpected";
}

/// Returns the schema of a list of conditions, as in Kubernetes: `meta/v1.Condition`.
///
/// With schemas of its own, the crate `k8s-openapi` takes three times as long to build.
pub(super) fn conditions(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let text = |description: &str| serde_json::json!({"description": description, "type": "string"});
    schemars::json_schema!({
        "type": "array",
        "items": {
            "description": "One aspect of the current state of the resource.",
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "The time when the status of the condition last changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": text("Details for people. It may be empty."),
                "observedGeneration": {
                    "description": "The generation of the resource that the condition describes.",
                    "type": "integer",
                    "format": "int64",
                },
                "reason": text("The reason for the status, in CamelCase. The runbook lists all reasons."),
                "status": text("True, False or Unknown."),
                "type": text("The type of the condition, in CamelCase."),
            },
        },
    })
}
