//! The resource by which a node is taken out of a cloud for a while, and given back.

#![expect(clippy::duplicated_attributes, reason = "every column has a name and a type")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A node that is to be taken out of the cloud for a while.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "osdpl.dev",
    version = "v1alpha1",
    kind = "NodeMaintenance",
    plural = "nodemaintenances",
    singular = "nodemaintenance",
    shortname = "nm",
    category = "openstack",
    doc = "A node that is taken out of the cloud for a while: its compute service disabled, its instances moved, the node cordoned. Deleting it gives the node back, in reverse.",
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
    /// When it may be done; at once, and without an end, where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<MaintenanceWindow>,
    /// What becomes of the instances on it; `Migrate` where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<InstancePolicy>,
    /// How many instances are migrated at a time; 2 where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32))]
    pub parallel_migrations: Option<u32>,
    /// Why, for people: it becomes a part of the compute service's `disabled_reason`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 160))]
    pub reason: String,
}

/// When a node may be taken out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceWindow {
    /// Nothing is begun before, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), extend("format" = "date-time"))]
    pub start: Option<String>,
    /// A node that is not ready to be drained by then is given back, RFC 3339; one that is stays out until this resource is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), extend("format" = "date-time"))]
    pub end: Option<String>,
}

/// What becomes of the instances on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InstancePolicy {
    /// They are live-migrated to where the scheduler finds room.
    #[default]
    Migrate,
    /// It is waited until someone has emptied the node.
    Wait,
    /// They stay, and end with the node if it goes down.
    Leave,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeMaintenanceStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One word for people; programs read the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<MaintenancePhase>,
    /// One line: what it waits for, or what to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The instances on the node, where it is a compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<InstancesStatus>,
    /// The roles that the node played when it was last seen: they count for the limits while it is gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The UUID of the compute service that this maintenance has disabled, or was about to; it is never taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<String>,
    /// The types of neutron's agents that were alive when the compute service was disabled: they are awaited on the way back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// When the node could be drained first, RFC 3339; it is never taken back, and the end of the window does not count after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_since: Option<String>,
    /// Every step, in order; those back follow once it leads back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepStatus>,
    /// The conditions `ReadyToDrain` and `Blocked`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// One word for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MaintenancePhase {
    /// Nothing was done yet: its time or its turn has not come.
    Waiting,
    /// The compute service is being disabled.
    Disabling,
    /// Instances are leaving.
    Emptying,
    /// The node is being cordoned, or waits until its pods may go.
    Cordoning,
    /// It can be drained.
    ReadyToDrain,
    /// The node is being given back.
    Returning,
    /// Its window ended before the node could be drained, and the node is given back.
    Expired,
}

/// The instances on a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstancesStatus {
    /// `3/5`: how many have left, of those that were there.
    pub moved: String,
    /// How many were there.
    pub total: u32,
    /// How many are there.
    pub remaining: u32,
    /// How many are being migrated.
    pub migrating: u32,
    /// Those that do not leave by themselves, at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedInstance>,
    /// Nova's number of the last migration that was there before: later ones are this maintenance's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// Since when none is there, and none on its way there, RFC 3339: a second look must say the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_since: Option<String>,
    /// When nova was asked last while the node could be drained, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked: Option<String>,
}

/// An instance that does not leave by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedInstance {
    /// Its UUID.
    pub id: String,
    /// What its owner calls it.
    pub name: String,
    /// Why it does not, and what to do.
    pub reason: String,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepStatus {
    /// Which.
    pub name: MaintenanceStep,
    /// How far it is.
    pub state: StepState,
    /// Since when, RFC 3339.
    pub since: String,
    /// What is to be said of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The steps there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MaintenanceStep {
    /// Its window is open, and the limits and quorums allow one node more.
    Turn,
    /// The scheduler gives the node no instances any more.
    DisableCompute,
    /// The instances are gone, or may stay.
    Instances,
    /// Databases and brokers keep their quorum without the node's pods, and no disruption budget forbids their eviction.
    Quorum,
    /// The node takes no new pods.
    Cordon,
    /// The node takes pods again.
    Uncordon,
    /// The node and the daemons on it are ready, and nova and neutron hear of their agents.
    Agents,
    /// The scheduler gives the node instances again.
    EnableCompute,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StepState {
    /// Its turn has not come.
    Pending,
    /// It is being done.
    Active,
    /// It waits for something.
    Waiting,
    /// It is done.
    Done,
    /// There was nothing to do, or nothing that is ours to do.
    Skipped,
}

/// How many nodes may be in maintenance at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceLimits {
    /// By role; 1 for each that is not named.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = serde_json::json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 1000})))]
    pub limits: std::collections::BTreeMap<String, u32>,
}

/// The condition types of a `NodeMaintenance`.
pub mod maintenance_condition {
    /// The node can be drained.
    pub const READY_TO_DRAIN: &str = "ReadyToDrain";
    /// It can't go on without a person.
    pub const BLOCKED: &str = "Blocked";
}
