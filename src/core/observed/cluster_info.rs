//! The properties of the Kubernetes cluster that validation rules need.

use std::collections::BTreeMap;

use super::Class;

/// The known properties of the cluster. Fields are empty if they could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterInfo {
    /// The nodes, by their labels.
    pub nodes: Option<NodeCount>,
    /// The `StorageClass`es.
    pub classes: Option<Vec<Class>>,
    /// The networks of pods and Services.
    pub networks: Vec<Range>,
}

/// The number of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeCount {
    /// This many nodes, each with every label. A person stated the number for a cluster that osdpl does not inspect.
    All(usize),
    /// The number of nodes by label `(key, value)`, for the labels that were counted.
    Labelled(BTreeMap<(String, String), usize>),
}

/// A network of the cluster itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its display name: `the pods of node n1`.
    pub description: String,
    /// Whether it is a pod network; otherwise a Service network.
    pub is_of_pods: bool,
    /// The addresses: `10.244.0.0/24`.
    pub cidr: String,
}

impl NodeCount {
    /// Returns the number of nodes with a label; `None` if they were not counted.
    pub fn count(&self, key: &str, value: &str) -> Option<usize> {
        match self {
            Self::All(count) => Some(*count),
            Self::Labelled(counts) => counts.get(&(key.to_owned(), value.to_owned())).copied(),
        }
    }
}
