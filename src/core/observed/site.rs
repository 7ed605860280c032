//! The cluster that a cloud runs in, as far as rules ask about it.

use std::collections::BTreeMap;

use super::Class;

/// What is known of the cluster; nothing of what nobody could look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// The nodes, by their labels.
    pub nodes: Option<Census>,
    /// The `StorageClass`es.
    pub classes: Option<Vec<Class>>,
    /// The networks of pods and Services.
    pub networks: Vec<Range>,
}

/// How many nodes there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Census {
    /// This many, each with every label: what a person says of a cluster that nobody looks at.
    All(usize),
    /// By label, `(key, value)`, of those labels that were asked about.
    Labelled(BTreeMap<(String, String), usize>),
}

/// A network of the cluster's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Whose it is, for people: `the pods of node n1`.
    pub what: String,
    /// Whether pods have addresses in it; Services otherwise.
    pub is_of_pods: bool,
    /// The addresses: `10.244.0.0/24`.
    pub cidr: String,
}

impl Census {
    /// How many nodes carry a label; `None` where nobody has counted.
    pub fn count(&self, key: &str, value: &str) -> Option<usize> {
        match self {
            Self::All(count) => Some(*count),
            Self::Labelled(counts) => counts.get(&(key.to_owned(), value.to_owned())).copied(),
        }
    }
}
