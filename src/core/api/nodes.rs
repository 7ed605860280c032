//! The settings in `spec.nodes`: the roles of nodes, and values for daemons on some nodes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{MaintenanceLimits, Rollout, free_form_schema};

/// Settings for nodes: their roles, values for the pods on some nodes, the rollout of the data plane, and limits for
/// maintenance. If unset, the operator sets no labels on nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// The nodes of each role (`control-plane`, `compute`, `network`, `gateway`, `storage`, `sriov`, or a role of your
    /// own). The operator sets the role's labels on these nodes. When a node leaves the role, the operator removes the
    /// role's labels, in batches of nodes and after approval (see `rollout`). The operator does not change labels that
    /// someone else set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub roles: BTreeMap<String, RoleNodes>,
    /// Values for the pods of daemons on some nodes. If several entries name a node, or have the same `selector`, later
    /// entries override earlier ones. If entries with different selectors match a node, or if one entry names the node
    /// and the `selector` of another one matches it, the effect depends on the chart. With nova and neutron, the node
    /// gets the values of only one entry: the entry that names the node, or else the last entry. With libvirt and ovn,
    /// the daemon runs no pod on this node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub overrides: Vec<NodeOverride>,
    /// The settings for the replacement of the pods of the data plane after a change of their pod template, and for the
    /// removal of labels from nodes that left a role.
    #[serde(default, skip_serializing_if = "Rollout::is_empty")]
    pub rollout: Rollout,
    /// The limits on the number of nodes that are in maintenance (`NodeMaintenance`) at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<MaintenanceLimits>,
}

impl Nodes {
    /// Whether no field of `spec.nodes` is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The nodes that have a role, and the labels that the operator sets on them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleNodes {
    /// The names of nodes that have the role.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(min = 1, max = 253)))]
    pub names: Vec<String>,
    /// Selects further nodes by labels, in addition to the nodes in `names`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<NodeSelector>,
    /// The labels that the operator sets on the nodes of the role. A role of your own must set labels. If the catalogue
    /// has the role, these labels replace the labels in the catalogue.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = label_value()))]
    pub labels: BTreeMap<String, String>,
}

/// Selects nodes by labels, like a label selector in Kubernetes. A node must meet all requirements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelector {
    /// Labels that the node must have, each with its value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = label_value()))]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements on labels of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub match_expressions: Vec<NodeRequirement>,
}

/// A requirement that a label of the node must meet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRequirement {
    /// The label's key.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// The comparison operator for the label and `values`: `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: NodeOperator,
    /// The values with which the operators `In` and `NotIn` compare the label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 63)))]
    pub values: Vec<String>,
}

/// The comparison operator for the label of a node and the values of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NodeOperator {
    /// The node has the label with one of the values.
    In,
    /// The node does not have the label, or has it with another value.
    NotIn,
    /// The node has the label, with any value.
    Exists,
    /// The node does not have the label.
    DoesNotExist,
}

/// Values of releases for the pods on some nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverride {
    /// The name of the entry in messages. Each entry needs a unique name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Selects the nodes by one label: with one entry of `matchLabels`, or with one entry of `matchExpressions` that
    /// has the operator `In`. The charts support no other selectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<NodeSelector>,
    /// The names of the nodes, if the entry has no `selector`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    pub nodes: Vec<String>,
    /// The values for the selected nodes, by the release's name in the catalogue.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8))]
    pub releases: BTreeMap<String, NodeValues>,
}

/// The values of one release for the pods on some nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeValues {
    /// The daemons whose pods get the values, such as `ovs-agent` of neutron. Not needed if the release has only one
    /// daemon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 63)))]
    pub daemonsets: Vec<String>,
    /// Helm values. For the pods of the daemons on the selected nodes, they override all other values of the release.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "free_form_schema")]
    pub values: Map<String, Value>,
}

fn label_value() -> Value {
    json!({ "type": "string", "maxLength": 63 })
}
