//! Roles of nodes: from the spec and the nodes that are there to the labels that each is to have, and what a person should know of that and of
//! the values for some nodes alone.
//!
//! Pure room. Each label is the operator's only where it set it: a label of another's hand with another value is respected and told, and taking a
//! role away takes what the operator gave. The API server keeps the account of who set what (server-side apply with a field manager of its own);
//! an annotation on the node is the index to it.

mod reach;
mod roles;
mod selector;

use std::collections::{BTreeMap, BTreeSet};

pub use selector::matches;

use crate::api::{OpenStackDeploymentSpec, RoleStatus};
use crate::catalog::Catalog;
use crate::desired::Finding;
use crate::observed::{Census, Labels, Node};

/// The nodes that are there, by name.
pub type Inventory = BTreeMap<String, Node>;

/// What the spec means for the nodes that are there.
#[derive(Debug, Default)]
pub struct Survey {
    /// The nodes whose labels are to change.
    pub changes: BTreeMap<String, Change>,
    /// Who plays which role.
    pub roles: BTreeMap<String, RoleStatus>,
    /// What a person should know.
    pub findings: Vec<Finding>,
}

/// What is to change of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The node's uid.
    pub uid: String,
    /// Every label that it is to have from the operator.
    pub labels: Labels,
    /// Labels that it does not have yet: `openvswitch=enabled`.
    pub gains: Vec<String>,
    /// Labels from the operator that it is to have no more.
    pub losses: Vec<String>,
}

impl Change {
    /// Whether a label comes or goes, and not only our account of them.
    pub fn is_seen(&self) -> bool {
        !self.gains.is_empty() || !self.losses.is_empty()
    }
}

/// Looks through the nodes.
pub fn survey(spec: &OpenStackDeploymentSpec, catalog: &Catalog, nodes: &Inventory) -> Survey {
    let mut survey = Survey::default();
    roles::survey(&spec.nodes, catalog, nodes, &mut survey);
    if !spec.nodes.overrides.is_empty() {
        // Which nodes are reached is judged by the labels that they are about to have.
        let labelled = nodes.iter().map(|(name, node)| (name.clone(), after(node, survey.changes.get(name))));
        reach::survey(&spec.nodes, catalog, &labelled.collect(), &mut survey.findings);
    }
    survey
}

fn after(node: &Node, change: Option<&Change>) -> Node {
    let mut node = node.clone();
    if let Some(change) = change {
        node.labels.retain(|key, value| node.ours.get(key) != Some(value));
        node.labels.extend(change.labels.clone());
    }
    node
}

/// How many nodes carry each of these labels once `changes` are made.
pub fn census(
    nodes: &Inventory,
    changes: &BTreeMap<String, Change>,
    labels: impl IntoIterator<Item = (String, String)>,
) -> Census {
    let labels: BTreeSet<(String, String)> = labels.into_iter().collect();
    let carries = |name: &String, node: &Node, (key, value): &(String, String)| {
        let has = |labels: &Labels| labels.get(key) == Some(value);
        match changes.get(name) {
            None => has(&node.labels),
            Some(change) => has(&change.labels) || (has(&node.labels) && !has(&node.ours)),
        }
    };
    let count = |label: &(String, String)| nodes.iter().filter(|(name, node)| carries(name, node, label)).count();
    Census::Labelled(labels.into_iter().map(|label| (label.clone(), count(&label))).collect())
}

/// The labels that nodes are to lose when there are no roles any more.
pub fn farewell(nodes: &Inventory) -> BTreeMap<String, Change> {
    survey(&OpenStackDeploymentSpec::default(), &Catalog::default(), nodes).changes
}

impl std::fmt::Display for Change {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gains = (!self.gains.is_empty()).then(|| format!("gets {}", self.gains.join(", ")));
        let losses = (!self.losses.is_empty()).then(|| format!("loses {}", self.losses.join(", ")));
        let told: Vec<_> = gains.into_iter().chain(losses).collect();
        formatter.write_str(if told.is_empty() { "is written down as ours" } else { "" })?;
        formatter.write_str(&told.join(", "))
    }
}

/// Names for a sentence, the first few of `count`: `n1, n2 and 47 more`.
pub fn several<'a>(names: impl IntoIterator<Item = &'a str>, count: usize) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> = names.into_iter().take(SHOWN).collect();
    let (more, shown) = (count - shown.len().min(count), shown.join(", "));
    match (count, more) {
        (0, _) => "no node".into(),
        (_, 0) => shown,
        _ => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests;
