//! A node.

use std::collections::BTreeMap;

/// Labels by key.
pub type Labels = BTreeMap<String, String>;

/// What counts of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its uid: another node may come by its name.
    pub uid: String,
    /// Its labels.
    pub labels: Labels,
    /// The labels that the operator has given it, by the annotation [`crate::api::NODE_LABELS`].
    pub ours: Labels,
    /// The addresses of its pods, where Kubernetes itself hands them out: `10.244.3.0/24`.
    pub pod_networks: Vec<String>,
    /// Whether its kubelet is not heard of, or says that it takes no pods.
    pub missing: bool,
}

impl Node {
    /// A node of these labels, with what the annotation says.
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

    /// The text of the annotation for these labels.
    pub fn annotation(labels: &Labels) -> String {
        labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    }
}
