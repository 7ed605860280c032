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
    /// A summary of the state of the cloud in one word. Programs should read the conditions instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The reason why the operator waits, or the action that a person must take, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The number of ready releases and of all desired releases, such as `12/13`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub releases: String,
    /// The number of ready components and of all desired components, such as `33/34`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub components: String,
    /// The OpenStack release that the spec requests, and the release that is deployed.
    #[serde(default)]
    pub openstack_release: ReleaseStatus,
    /// The version of helm that the operator runs. A new major version of helm changes the inputs of all releases. So
    /// `osdpl plan` computes the inputs for the version in this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<String>,
    /// The hash that a person passes to `osdpl approve`; set only while changes wait for approval. This is the target
    /// hash: a hash of the desired inputs of all releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// The target hash that a person approved last; only with `spec.approval: Always`. As long as the desired inputs of
    /// the releases have this hash, changes need no further approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_target: Option<String>,
    /// The digest of the approved settings of node roles, external services and Ceph; only with
    /// `spec.approval: Always`. As long as the settings have this digest, the operator applies them even while changes
    /// of releases wait for approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_objects: Option<String>,
    /// The conditions Ready, Progressing, Degraded, Paused, Reconciling and Stalled. The list contains `CephReady` only
    /// if the spec declares a Ceph cluster, and `RolledOut` only after the first rollout has begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// The nodes of each role in the spec, by the role's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, RoleStatus>,
    /// The state of each helm release, by the release's name in the catalogue.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub children: BTreeMap<String, HelmReleaseStatus>,
    /// The helm releases that the operator installed or adopted, as `namespace/name`. The operator adds a release here
    /// before it first runs helm for the release. If a release is missing from this list, the operator uninstalls it
    /// only after a person's approval. If the list itself is missing, for example after a restore without the status,
    /// the operator recognizes the releases by the labels of their records. A new cloud has an empty list, so that the
    /// operator does not recognize releases in this way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned_releases: Option<Vec<String>>,
    /// The digest of the approved content of each ConfigMap in `spec.catalog`, by the ConfigMap's name. Changed content
    /// needs approval: a person approves the target hash, or the spec sets the new digest or `approval: Automatic`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub catalog: BTreeMap<String, String>,
    /// The digest of each chart from a repository, by `chart@version`; at most 256 charts. The operator records the
    /// digest when it first pulls the chart. If the repository later serves other content under the same version, the
    /// operator refuses the new content, unless the spec sets the digest of the new content.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub charts: BTreeMap<String, String>,
    /// The newest rollout of each component of the data plane, by `application/component`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rollouts: BTreeMap<String, RolloutStatus>,
    /// The approved removal of node labels that is in progress; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_removal: Option<LabelRemovalStatus>,
    /// The root causes of components and Jobs that are not ready, at most 20, the most severe first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<RootCauseStatus>,
    /// The result of the last run of each test, by the `application/component` of the test's CronJob.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tests: BTreeMap<String, TestStatus>,
    /// The health of each component. The key of the outer map is the component's label `application`, and the key of
    /// the inner map is its label `component`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub health: BTreeMap<String, BTreeMap<String, ComponentStatus>>,
}

/// The state of the cloud in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// The operator is installing the releases of a new cloud. As soon as any release has been upgraded once, the phase
    /// is `Updating` instead, even while the operator installs another release.
    Installing,
    /// The operator changes releases, waits for the workloads of releases, or replaces pods of the data plane.
    Updating,
    /// The cloud does not work as desired: for example, a component is not available, or an input of a release is
    /// missing.
    Degraded,
    /// The cloud is available and matches the spec.
    Ready,
    /// Changes wait until a person approves them.
    AwaitingApproval,
    /// The spec has `paused` set.
    Paused,
    /// The operator can't continue until a person corrects the spec or the cluster.
    Failed,
    /// The resource is being deleted.
    Deleting,
}

/// The OpenStack release that the spec requests, and the release that is deployed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseStatus {
    /// The OpenStack release in the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The deployed OpenStack release. The operator sets the field when the first helm release of a new cloud is in
    /// sync. After that, the operator changes the field only when the spec names another OpenStack release and all helm
    /// releases are in sync with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed: Option<String>,
}

/// The nodes of one role, and the labels that the operator sets on these nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleStatus {
    /// The labels that the operator sets on the nodes of the role, such as `openstack-compute-node=enabled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The number of nodes of the role.
    #[serde(default)]
    pub count: i32,
    /// The names of the role's nodes, at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// An approved removal of the operator's labels from nodes. The operator writes the removal to the status before it
/// removes the first label. The approval covers exactly the labels in `nodes`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelRemovalStatus {
    /// Maps the name of each node to the labels that the operator removes from the node, such as
    /// `l3-agent=enabled,openvswitch=enabled`. All entries stay here until the whole removal is finished.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, String>,
    /// The target hash with which a person approved this removal; empty if the spec approves removals with
    /// `spec.nodes.rollout.approval: Automatic`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
    /// When the operator last removed labels from a batch of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_batch: Option<Time>,
}

/// The state of one helm release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmReleaseStatus {
    /// Helm's status of the release (`deployed`, `pending-upgrade`, …), or a status that only the operator uses:
    /// `absent` if helm has no record of the release, `starting` if helm is about to install it, or `unmanaged` if
    /// someone else installed it.
    pub status: String,
    /// Whether the release has the desired inputs, its workloads are ready, the Jobs of its newest revision are done,
    /// and its API responds. Also true if the operator does not manage the release (`managed: false`).
    pub ready: bool,
    /// The number of the release's newest revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// The name of the release's chart.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub chart: String,
    /// The version of the chart in the newest revision; before the first revision, the desired version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The digest of the chart that the operator has fetched. `osdpl plan` reads the digest from this field, so that it
    /// does not need to fetch the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart_digest: Option<String>,
    /// The first 12 digits of the digest of the newest revision's inputs (chart, values and flags).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The time when helm created the newest revision, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The name of the hook that helm is waiting for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<String>,
    /// The reason why the release waits or failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The paths of the values that an upgrade will change, at most 20 of them; only while the upgrade waits for
    /// approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// The images with moving tags that pods of the release run, with their digests, as `name:tag@digest`; at most 20.
    /// While no pod runs an image, the list contains the digest that ran last. If pods run an image with several
    /// digests, the list contains all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// The digests with which pods ran the images before the tags moved, as `name:tag@digest`; at most 20. For each
    /// image, the list contains only the digests before its last change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub previous_images: Vec<String>,
    /// The objects of the release that someone edited or deleted without helm, at most 10 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<ObjectDrift>,
}

/// An object of a release that someone edited or deleted without helm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectDrift {
    /// The kind and the name of the object, such as `Deployment keystone-api`.
    pub object: String,
    /// The change of the object: `deleted`, or `edited:` and the paths of the changed or removed fields.
    pub change: String,
    /// The field manager that changed the object, from the object's `managedFields`; unset if someone deleted the
    /// object or removed a field, because `managedFields` does not record removals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The time of the change, RFC 3339; if that time is unknown, the time when the operator noticed the change.
    pub at: String,
}

/// The result of the last run of a scheduled test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestStatus {
    /// Whether the last finished run of the test succeeded; unset before the first run has finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// The time when the last run finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub time: Option<Time>,
    /// The Job of the last run, as `namespace/name`. As long as Kubernetes keeps the Job, its pod has the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Why the last run failed; empty if it succeeded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The location of the results of the test, for example a volume claim.
    pub results: String,
}

/// The health of one component, with the number of its ready pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    /// The health of the component.
    pub status: ComponentHealth,
    /// The `metadata.generation` that the component's workload had when the operator determined the health.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The number of ready pods and of all desired pods of the component, such as `2/3`.
    pub ready: String,
    /// Why the component is not `Ready`; empty if the component is `Ready`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Whether the pods of a component are available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ComponentHealth {
    /// All desired pods are available.
    Ready,
    /// All desired pods are available except those on nodes that are `NotReady`. For a component that a CronJob runs:
    /// its last run did not succeed.
    Degraded,
    /// The component is being created or updated.
    Progressing,
    /// The component is no longer available, or it can't become available.
    Unhealthy,
    /// The operator has not observed the component yet, or no node has the label that the component's `DaemonSet`
    /// selects.
    Unknown,
}

/// The types of all conditions that the operator sets on an `OpenStackDeployment`.
pub mod condition {
    /// The cloud is available and matches the spec.
    pub const READY: &str = "Ready";
    /// The operator is working towards the desired state.
    pub(crate) const PROGRESSING: &str = "Progressing";
    /// Something in the cloud does not work, for example because a release failed or a component is not available.
    pub const DEGRADED: &str = "Degraded";
    /// The spec has `paused` set, so the operator installs, upgrades and uninstalls nothing.
    pub const PAUSED: &str = "Paused";
    /// Always has the same status as `Progressing`. Tools that use the library kstatus, such as Flux, look for a
    /// condition of this name.
    pub const RECONCILING: &str = "Reconciling";
    /// The operator can't continue until a person acts. Tools that use the library kstatus, such as Flux, look for a
    /// condition of this name.
    pub const STALLED: &str = "Stalled";
    /// The operator has read the settings of the Ceph cluster, and has written them to the ConfigMaps and Secrets that
    /// the pods mount. The status has this condition only if the spec declares a Ceph cluster.
    pub const CEPH_READY: &str = "CephReady";
    /// All pods of the data plane have the newest pod template of their workload. The status has this condition only
    /// after the first rollout has begun.
    pub const ROLLED_OUT: &str = "RolledOut";
}

/// The reasons of all conditions that the operator sets on an `OpenStackDeployment`.
pub mod reason {
    /// The cloud is available and matches the spec.
    pub const READY: &str = "Ready";
    /// The operator is installing or changing releases.
    pub const RELEASES: &str = "ReleasesInProgress";
    /// All releases are in sync, but some of their workloads are not available yet.
    pub(crate) const WORKLOADS: &str = "WorkloadsNotReady";
    /// helm failed for a release, or the operator can't continue with a release, for example because a hook keeps
    /// failing.
    pub const FAILED: &str = "ReleaseFailed";
    /// A component is not available.
    pub const UNHEALTHY: &str = "ComponentsUnhealthy";
    /// Changes wait until a person approves them.
    pub const APPROVAL: &str = "AwaitingApproval";
    /// The operator refuses the spec, because the spec has errors. On `CephReady`: a setting of Ceph in the spec is
    /// invalid.
    pub const INVALID: &str = "InvalidSpec";
    /// The operator reconciles only the oldest `OpenStackDeployment` in the cluster, and this resource is not the
    /// oldest.
    pub const OLDER_RESOURCE: &str = "OlderResourceExists";
    /// The operator has no rights in the namespace of the resource, so it ignores the resource.
    pub const OUTSIDE: &str = "NamespaceOutOfScope";
    /// No node has the label that a `DaemonSet` of the cloud selects, so this `DaemonSet` has no pods.
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
    pub(crate) const FAILING: &str = "ReconcileError";
    /// Someone edited or deleted objects of a release without helm.
    pub const DRIFTED: &str = "Drifted";
    /// The operator must not change a release or a CRD. Either someone else owns it, or someone changed the release
    /// with helm after osdpl's last change.
    pub const FOREIGN: &str = "ForeignRelease";
    /// The Secret that describes Ceph does not exist or can't be read.
    pub(crate) const CEPH_SECRET: &str = "SecretUnavailable";
    /// The Secret that describes Ceph is incomplete or malformed.
    pub(crate) const CEPH_INVALID: &str = "SecretInvalid";
    /// The operator can't write an object that the cloud needs to use Ceph, because someone else has created an object
    /// of this name.
    pub(crate) const CEPH_OCCUPIED: &str = "ObjectConflict";
    /// The spec declares another Ceph cluster than the one that contains the cloud's data.
    pub const CEPH_ANOTHER: &str = "CephClusterChanged";
    /// Rook has not created an object that the cloud needs, or reports a problem.
    pub const CEPH_ROOK: &str = "RookPending";
    /// The operator is recreating pods of the data plane.
    pub(crate) const ROLLING: &str = "RolloutInProgress";
    /// A pod with the newest pod template does not become ready, so the operator recreates no more pods.
    pub const ROLLOUT_STOPPED: &str = "RolloutStopped";
    /// There is nothing to explain about the condition, for example because there is no problem.
    pub(crate) const NONE: &str = "AsExpected";
}

/// Returns the schema of a list of Kubernetes' conditions (`meta/v1.Condition`). The schema is written by hand, because
/// the crate `k8s-openapi` provides it only with a cargo feature that makes the crate's build take three times as long.
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
                "message": text("A human-readable message with details. May be empty."),
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
