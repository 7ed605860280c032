//! The properties of the Kubernetes cluster that validation rules need.

use std::collections::BTreeMap;

use super::Class;

/// The properties of the Kubernetes cluster that validation rules use. A property that the operator could not read is
/// `None` or an empty list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterInfo {
    /// For each node label, the number of nodes that have it; `None` if the operator could not read the nodes.
    pub nodes: Option<NodeCount>,
    /// The storage classes of the cluster; `None` if the operator could not read them.
    pub classes: Option<Vec<Class>>,
    /// The address ranges that the cluster uses for pods and Services.
    pub networks: Vec<Range>,
}

/// For each node label, the number of nodes that have it: counted in the cluster, or given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeCount {
    /// The cluster has this number of nodes, according to an option on the command line. osdpl assumes that every node
    /// has every label.
    All(usize),
    /// The number of nodes with each label `(key, value)`. Contains only the labels for which the operator counted the
    /// nodes.
    Labelled(BTreeMap<(String, String), usize>),
}

/// An address range that the Kubernetes cluster uses for pods or for Services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The pods or Services that use the address range, in words for messages: `the pods of node n1`.
    pub description: String,
    /// Whether pods use the address range. If false, Services use it.
    pub is_of_pods: bool,
    /// The address range as a CIDR: `10.244.0.0/24`.
    pub cidr: String,
}

impl NodeCount {
    /// Returns the number of nodes with a label; `None` if the operator did not count the nodes with that label.
    pub fn count(&self, key: &str, value: &str) -> Option<usize> {
        match self {
            Self::All(count) => Some(*count),
            Self::Labelled(counts) => counts.get(&(key.to_owned(), value.to_owned())).copied(),
        }
    }
}
