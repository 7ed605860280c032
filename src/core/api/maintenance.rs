//! The resource `NodeMaintenance`, with which a person takes a node out of a cloud for maintenance and returns it.

#![expect(clippy::duplicated_attributes, reason = "every `printcolumn` repeats the attributes `name` and `type_`")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A node that is taken out of the cloud for maintenance.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "osdpl.dev",
    version = "v1alpha1",
    kind = "NodeMaintenance",
    plural = "nodemaintenances",
    singular = "nodemaintenance",
    shortname = "nm",
    category = "openstack",
    doc = "A node that is taken out of the cloud for maintenance: its compute service is disabled, its instances are moved, and the node is cordoned. Deleting the resource returns the node, in reverse order.",
    annotation("helm.sh/resource-policy", "keep"),
    status = "NodeMaintenanceStatus",
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.node"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Instances", type_ = "string", json_path = ".status.instances.moved"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct NodeMaintenanceSpec {
    /// The node's name. It can't be changed.
    #[schemars(length(min = 1, max = 253))]
    pub node: String,
    /// The time window of the maintenance. If unset, it starts at once and has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<MaintenanceWindow>,
    /// The handling of the instances on the node; `Migrate` if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<InstancePolicy>,
    /// The number of instances that are migrated at a time; 2 if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32))]
    pub parallel_migrations: Option<u32>,
    /// The reason, for people. It becomes part of the compute service's `disabled_reason`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 160))]
    pub reason: String,
}

/// The time window of a maintenance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceWindow {
    /// Nothing starts before this time, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), extend("format" = "date-time"))]
    pub start: Option<String>,
    /// A node that is not ready to be drained by then is returned, RFC 3339. A node that is ready stays out until this
    /// resource is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), extend("format" = "date-time"))]
    pub end: Option<String>,
}

/// The handling of the instances on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InstancePolicy {
    /// The operator has Nova live-migrate the instances to hosts that Nova's scheduler selects.
    #[default]
    Migrate,
    /// The operator waits until someone has emptied the node.
    Wait,
    /// The instances stay on the node, and stop if the node goes down.
    Leave,
}

/// The progress of a maintenance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeMaintenanceStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// A summary for people. Programs should read the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<MaintenancePhase>,
    /// The reason for waiting, or the action to take, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The instances on the node, if it is a compute node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<InstancesStatus>,
    /// The roles of the node when it last existed. They count for the limits while it is deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The UUID of the compute service that this maintenance disabled, or was about to disable. It is never unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<String>,
    /// The types of neutron's agents that were alive when the compute service was disabled. They are awaited when the
    /// node is returned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The time when the node was first ready to be drained, RFC 3339. It is never unset, and the end of the window has
    /// no effect after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_since: Option<String>,
    /// All steps, in order. The steps of the return are added when it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepStatus>,
    /// The conditions `ReadyToDrain` and `Blocked`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::status::conditions")]
    pub conditions: Vec<Condition>,
}

/// A summary for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MaintenancePhase {
    /// The operator has done nothing yet, because the window is not open, or limits do not allow it.
    Waiting,
    /// The operator is disabling the node's compute service.
    Disabling,
    /// Instances are leaving the node.
    Emptying,
    /// The operator is cordoning the node, or waits until the pods on the node may be evicted.
    Cordoning,
    /// A person can drain the node.
    ReadyToDrain,
    /// The operator is returning the node to the cloud.
    Returning,
    /// The window ended before the node could be drained, so the operator is returning the node to the cloud.
    Expired,
}

/// The instances on a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstancesStatus {
    /// `3/5`: instances that have left, of the initial number.
    pub moved: String,
    /// The initial number of instances.
    pub total: u32,
    /// The number of instances that are still on the node.
    pub remaining: u32,
    /// The number of instances that are being migrated.
    pub migrating: u32,
    /// Instances that do not leave by themselves, at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedInstance>,
    /// The id of nova's last migration before this maintenance. Migrations with higher ids belong to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// The time since which the node has no instances and none on their way to it, RFC 3339. A second check must
    /// confirm it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_since: Option<String>,
    /// The time when nova was last queried while the node could be drained, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<String>,
}

/// An instance that does not leave by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedInstance {
    /// Its UUID.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The reason, and what to do.
    pub reason: String,
}

/// A step of a maintenance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepStatus {
    /// The name of the step.
    pub name: MaintenanceStep,
    /// The state of the step.
    pub state: StepState,
    /// The start of the state, RFC 3339.
    pub since: String,
    /// Details for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The steps of a maintenance and of the return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MaintenanceStep {
    /// Wait until the window is open, and the limits and quorums allow one more node in maintenance.
    Turn,
    /// Disable the compute service, so that the scheduler places no more instances on the node.
    DisableCompute,
    /// Migrate the instances to other nodes, or wait until someone has moved them, unless they may stay.
    Instances,
    /// Wait until databases and brokers keep their quorum without the node's pods, and no `PodDisruptionBudget` forbids
    /// the eviction of these pods.
    Quorum,
    /// Cordon the node, so that it takes no new pods.
    Cordon,
    /// Uncordon the node, so that it takes pods again.
    Uncordon,
    /// Wait until the node and the daemons on it are ready, and their agents report to Nova and Neutron.
    Agents,
    /// Enable the compute service, so that the scheduler places instances on the node again.
    EnableCompute,
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StepState {
    /// Earlier steps are not done yet.
    Pending,
    /// The step is in progress.
    Active,
    /// The step has started and waits for something, which its message names.
    Waiting,
    /// The step is done.
    Done,
    /// The operator skipped the step: there was nothing to do, or nothing that the operator owns.
    Skipped,
}

/// The number of nodes that may be in maintenance at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceLimits {
    /// The limit for each role; 1 for roles without an entry.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = serde_json::json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 1000})))]
    pub limits: std::collections::BTreeMap<String, u32>,
}

/// The condition types of a `NodeMaintenance`.
pub mod maintenance_condition {
    /// A person can drain the node: it is cordoned, and its instances have left or may stay.
    pub const READY_TO_DRAIN: &str = "ReadyToDrain";
    /// The maintenance can't continue until a person acts.
    pub const BLOCKED: &str = "Blocked";
}
