//! `spec.nodes`: which nodes play which role, and what daemons are given on some nodes alone.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::MaintenanceLimits;
use super::Rollout;
use super::spec::free_form;

/// Which nodes play which role, and what is different on some of them. No node is touched where it is unset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// Roles (`control-plane`, `compute`, `network`, `gateway`, `storage`, `sriov`, or one of your own) and who plays them: the operator gives those nodes the
    /// role's labels, takes them away when they play it no more, and leaves every label of others as it is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub roles: BTreeMap<String, NodeRole>,
    /// Values of releases that run on every node, for some nodes alone. Later entries win, and an entry by name wins over those by label; but libvirt
    /// and ovn run no pod at all on a node that two entries fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub overrides: Vec<NodeOverride>,
    /// How the data plane's pods are made anew.
    #[serde(default, skip_serializing_if = "Rollout::is_empty")]
    pub rollout: Rollout,
    /// How many nodes of each role may be in maintenance (`NodeMaintenance`) at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<MaintenanceLimits>,
}

impl Nodes {
    /// Whether nothing is asked of any node.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Who plays a role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRole {
    /// Nodes by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(min = 1, max = 253)))]
    pub names: Vec<String>,
    /// Nodes by their labels, beside those by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<NodeSelector>,
    /// The labels that the role stands for: needed for a role of your own, in place of the catalogue's for one that it knows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = label_value()))]
    pub labels: BTreeMap<String, String>,
}

/// Nodes by their labels, as in Kubernetes' label selectors: all of it must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelector {
    /// Labels with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = label_value()))]
    pub match_labels: BTreeMap<String, String>,
    /// What must hold of labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub match_expressions: Vec<NodeRequirement>,
}

/// What must hold of one label.
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

/// How a label is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NodeOperator {
    /// It has one of the values.
    In,
    /// It has none of the values, or is not there.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

/// Values for some nodes alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverride {
    /// What people call it.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Nodes by one label: one entry of `matchLabels`, or one of `matchExpressions` with the operator `In`; charts can tell nodes apart by nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<NodeSelector>,
    /// Nodes by name, instead of a selector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    pub nodes: Vec<String>,
    /// What is different there, by release.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8))]
    pub releases: BTreeMap<String, NodeValues>,
}

/// What is different on those nodes for one release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeValues {
    /// Which of the release's daemons, such as `ovs-agent` of neutron; where it has but one, that one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 63)))]
    pub daemonsets: Vec<String>,
    /// Helm values over those of every other layer.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "free_form")]
    pub values: Map<String, Value>,
}

fn label_value() -> Value {
    json!({ "type": "string", "maxLength": 63 })
}
