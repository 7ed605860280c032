//! `spec.nodes`: the roles of nodes, and values for daemons on some nodes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::MaintenanceLimits;
use super::Rollout;
use super::spec::free_form_schema;

/// The roles of nodes, and the values that differ on some of them. If unset, no node is changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// The nodes of each role (`control-plane`, `compute`, `network`, `gateway`, `storage`, `sriov`, or a role of your
    /// own). The operator sets the role's labels on these nodes and removes them when a node leaves the role. Other
    /// labels are not changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub roles: BTreeMap<String, RoleNodes>,
    /// Values for some nodes, of releases that run on every node. Later entries win, and an entry by name wins over
    /// entries by label. With libvirt and ovn, a node that matches two entries runs no pod at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub overrides: Vec<NodeOverride>,
    /// The rollout of the data plane's pods.
    #[serde(default, skip_serializing_if = "Rollout::is_empty")]
    pub rollout: Rollout,
    /// The number of nodes of each role that may be in maintenance (`NodeMaintenance`) at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<MaintenanceLimits>,
}

impl Nodes {
    /// Whether no field of `spec.nodes` is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The nodes of a role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleNodes {
    /// Nodes by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(min = 1, max = 253)))]
    pub names: Vec<String>,
    /// Nodes by their labels, in addition to those by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<NodeSelector>,
    /// The labels of the role. They are required for a role of your own, and replace those of the catalogue for a known
    /// role.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = label_value()))]
    pub labels: BTreeMap<String, String>,
}

/// Nodes by their labels, as in Kubernetes' label selectors. All requirements must be met.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelector {
    /// Labels with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = label_value()))]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements on labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub match_expressions: Vec<NodeRequirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRequirement {
    /// The label's key.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: NodeOperator,
    /// Values, for `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 63)))]
    pub values: Vec<String>,
}

/// The operator of a label requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NodeOperator {
    /// The label has one of the values.
    In,
    /// The label has none of the values, or does not exist.
    NotIn,
    /// The label exists.
    Exists,
    /// The label does not exist.
    DoesNotExist,
}

/// Values for some nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverride {
    /// A name for messages.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Nodes by one label: one entry of `matchLabels`, or one of `matchExpressions` with the operator `In`. The charts
    /// support no other selectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<NodeSelector>,
    /// Nodes by name, instead of a selector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    pub nodes: Vec<String>,
    /// The values that differ, by release.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8))]
    pub releases: BTreeMap<String, NodeValues>,
}

/// The values of one release that differ on some nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeValues {
    /// The daemons of the release, such as `ovs-agent` of neutron. Not needed if the release has only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 63)))]
    pub daemonsets: Vec<String>,
    /// Helm values, merged over those of all other layers.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "free_form_schema")]
    pub values: Map<String, Value>,
}

fn label_value() -> Value {
    json!({ "type": "string", "maxLength": 63 })
}
