//! The observed state of a node.

use std::collections::BTreeMap;

/// The labels of a node, by key.
pub type Labels = BTreeMap<String, String>;

/// The observed state of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The node's uid. A new node may have the same name, but never the same uid.
    pub uid: String,
    /// All labels of the node.
    pub labels: Labels,
    /// The labels that the operator set, from the annotation [`crate::api::NODE_LABELS`].
    pub ours: Labels,
    /// The node's pod networks, if Kubernetes assigns networks to nodes: `10.244.3.0/24`.
    pub pod_networks: Vec<String>,
    /// Whether the node is lost: its kubelet reports that the node is not ready, or the kubelet does not report at all.
    pub missing: bool,
}

impl Node {
    /// Returns a node with these labels. `annotation` is the value of its annotation [`crate::api::NODE_LABELS`].
    pub fn new(uid: Option<&str>, labels: Option<&Labels>, annotation: Option<&str>) -> Self {
        let pairs = annotation.unwrap_or_default().split(',').filter_map(|pair| pair.split_once('='));
        let ours = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Self {
            uid: uid.unwrap_or_default().to_owned(),
            labels: labels.cloned().unwrap_or_default(),
            ours,
            pod_networks: Vec::new(),
            missing: false,
        }
    }

    /// Formats labels as the value of the annotation [`crate::api::NODE_LABELS`].
    pub fn annotation(labels: &Labels) -> String {
        labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    }
}
