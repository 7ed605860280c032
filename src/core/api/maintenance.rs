//! The resource `NodeMaintenance`, with which a person takes a node out of a cloud for maintenance and returns it.

#![expect(clippy::duplicated_attributes, reason = "every `printcolumn` repeats the attributes `name` and `type_`")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The node that the operator takes out of the cloud for maintenance, the time window, and the policy for its
/// instances.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "osdpl.dev",
    version = "v1alpha1",
    kind = "NodeMaintenance",
    plural = "nodemaintenances",
    singular = "nodemaintenance",
    shortname = "nm",
    category = "openstack",
    doc = "The maintenance of one node: the operator disables the node's compute service, migrates its instances, and cordons the node, so that a person can drain it. When someone deletes the resource, the operator returns the node to the cloud.",
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
    /// The name of the node, which can't be changed later.
    #[schemars(length(min = 1, max = 253))]
    pub node: String,
    /// The time window of the maintenance. If unset, the maintenance starts at once and has no time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<MaintenanceWindow>,
    /// The policy for the instances on the node; `Migrate` if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<InstancePolicy>,
    /// The maximum number of instances that the operator migrates at the same time; 2 if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32))]
    pub parallel_migrations: Option<u32>,
    /// Why the node is in maintenance, in your own words. The operator adds this reason to the `disabled_reason` of the
    /// compute service.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 160))]
    pub reason: String,
}

/// The time in which the operator may empty the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceWindow {
    /// The maintenance does not start before this time, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), extend("format" = "date-time"))]
    pub start: Option<String>,
    /// The end of the window, RFC 3339. If the node is not ready to be drained at this time, the operator returns it to
    /// the cloud. If the node is ready, it stays out of the cloud until someone deletes this resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), extend("format" = "date-time"))]
    pub end: Option<String>,
}

/// The policy for the instances on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InstancePolicy {
    /// The operator requests from Nova the live migration of all instances. Nova's scheduler selects the new hosts.
    /// Nova can migrate only active and paused instances live: a person must start, move or delete the others.
    #[default]
    Migrate,
    /// The operator waits until someone has moved or deleted all instances of the node.
    Wait,
    /// The instances stay on the node, and stop if the node goes down.
    Leave,
}

/// The progress of the maintenance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeMaintenanceStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// A summary of the maintenance in one word. Programs should read the conditions instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<MaintenancePhase>,
    /// The reason why the maintenance waits, or the action that a person must take, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The instances on the node, and the progress of their migration; unset until Nova has reported a compute service
    /// for the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<InstancesStatus>,
    /// The roles of the node. If someone deletes the node or removes its labels, the status keeps the roles, so that
    /// the node still counts towards the limits of these roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The UUID of the compute service that this maintenance has disabled or is about to disable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<String>,
    /// The types of the node's Neutron agents that were enabled and alive when the operator disabled the compute
    /// service. When the operator returns the node, it waits until these agents are alive again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The time when the node was first ready to be drained, RFC 3339. From then on, the operator ignores the end of
    /// the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_since: Option<String>,
    /// All steps of the maintenance, in order. When the operator begins to return the node to the cloud, it adds the
    /// steps of the return.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepStatus>,
    /// The conditions `ReadyToDrain` and `Blocked`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::status::conditions")]
    pub conditions: Vec<Condition>,
}

/// The state of a maintenance in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MaintenancePhase {
    /// The operator has done nothing yet, because the window is not open, the limits do not allow one more node in
    /// maintenance, or the pods on the node may not be evicted yet.
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
    /// The window ended before the node could be drained. The operator returns the node to the cloud, or has already
    /// returned it.
    Expired,
}

/// The number of instances on a node, and the progress of their migration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstancesStatus {
    /// The share of the `total` instances that have left the node, such as `3/5`.
    pub moved: String,
    /// The highest number of instances on the node since the maintenance began.
    pub total: u32,
    /// The number of instances that are still on the node.
    pub remaining: u32,
    /// The number of instances that the operator is migrating or is about to migrate.
    pub migrating: u32,
    /// The instances that can't be migrated until a person acts, at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedInstance>,
    /// The id of Nova's newest migration at the time when this maintenance began to migrate instances, or when a person
    /// last requested a retry. The operator ignores failed migrations with this id or a lower one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// The time, RFC 3339, when the operator first found the node empty: no instance was on the node or on its way to
    /// it. An instance can still arrive late, so the step `Instances` ends only when a later query of Nova confirms
    /// that the node is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_since: Option<String>,
    /// The time when the operator last queried Nova while the node was ready to be drained, RFC 3339. While the node is
    /// ready, the operator queries Nova only once a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<String>,
}

/// An instance that can't be migrated until a person acts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedInstance {
    /// The UUID of the instance.
    pub id: String,
    /// The name of the instance.
    pub name: String,
    /// Why the instance can't be migrated, and what to do.
    pub reason: String,
}

/// The state of one step in which the operator takes a node out of the cloud or returns it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepStatus {
    /// The name of the step.
    pub name: MaintenanceStep,
    /// The state of the step.
    pub state: StepState,
    /// The time when the step entered this state, RFC 3339.
    pub since: String,
    /// A human-readable message: what the operator is doing in this step, what the step waits for, or why the operator
    /// skipped it. May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The steps in which the operator takes a node out of the cloud and returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MaintenanceStep {
    /// Wait until the window is open, the limits allow one more node in maintenance, and the pods on the node may be
    /// evicted.
    Turn,
    /// Disable the compute service, so that the scheduler places no more instances on the node.
    DisableCompute,
    /// Migrate the instances to other nodes, or wait until someone has moved them. The operator skips this step if the
    /// spec lets the instances stay.
    Instances,
    /// Wait until the pods on the node may be evicted: databases and brokers keep their quorum without these pods, and
    /// no `PodDisruptionBudget` forbids the eviction.
    Quorum,
    /// Cordon the node, so that it takes no new pods.
    Cordon,
    /// Uncordon the node, so that it takes pods again.
    Uncordon,
    /// Wait until the node and the daemons on it are ready, and the node's agents report to Nova and Neutron.
    Agents,
    /// Enable the compute service, so that the scheduler places instances on the node again.
    EnableCompute,
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StepState {
    /// The step has not started, because earlier steps are not done.
    Pending,
    /// The step is in progress.
    Active,
    /// The step has started and is waiting. Its message says for what.
    Waiting,
    /// The step is done.
    Done,
    /// The operator skipped the step: there was nothing to do, someone else had cordoned the node or disabled the
    /// compute service, or the operator began to return the node before the step was done.
    Skipped,
}

/// The limits on the number of nodes that are in maintenance at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceLimits {
    /// The maximum number of nodes of each role that are in maintenance at the same time; 1 for a role without an
    /// entry.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = serde_json::json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 1000})))]
    pub limits: std::collections::BTreeMap<String, u32>,
}

/// The types of the conditions that the operator sets on a `NodeMaintenance`.
pub mod maintenance_condition {
    /// A person can drain the node: it is cordoned, and its instances have left or may stay.
    pub const READY_TO_DRAIN: &str = "ReadyToDrain";
    /// The maintenance can't continue until a person acts.
    pub const BLOCKED: &str = "Blocked";
}
