//! Node roles: computes the labels of each node from the spec and the existing nodes, and warns about roles and
//! per-node values.
//!
//! Pure module (no I/O). The operator owns a label only if it set it: it keeps and reports values of other writers, and
//! when a role is removed, it removes only its own labels. The API server records the owner of
//! each label (server-side apply with a separate field manager); an annotation on the node lists the operator's labels.

mod overrides;
mod roles;

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{OpenStackDeploymentSpec, RoleStatus};
use crate::catalog::Catalog;
use crate::desired::Finding;
use crate::observed::{Labels, Node, NodeCount};

/// The existing nodes, by name.
pub type Inventory = BTreeMap<String, Node>;

/// The node labels and role statuses that follow from a spec.
#[derive(Debug, Default)]
pub struct NodeInventory {
    /// The nodes whose labels must change.
    pub changes: BTreeMap<String, LabelChange>,
    /// The status of each role.
    pub roles: BTreeMap<String, RoleStatus>,
    /// Problems and remarks.
    pub findings: Vec<Finding>,
}

/// The change of a node's labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelChange {
    /// The node's uid.
    pub uid: String,
    /// All labels that the node must have from the operator.
    pub labels: Labels,
    /// Labels that the node does not have yet, such as `openvswitch=enabled`.
    pub gains: Vec<String>,
    /// Labels from the operator that must be removed.
    pub losses: Vec<String>,
}

impl LabelChange {
    /// Whether a label is added or removed, and not only the annotation changed.
    pub fn changes_labels(&self) -> bool {
        !self.gains.is_empty() || !self.losses.is_empty()
    }
}

/// Computes the labels of all nodes and the findings.
pub fn build_inventory(spec: &OpenStackDeploymentSpec, catalog: &Catalog, nodes: &Inventory) -> NodeInventory {
    let mut inventory = NodeInventory::default();
    roles::assign_roles(&spec.nodes, catalog, nodes, &mut inventory);
    if !spec.nodes.overrides.is_empty() {
        // Match the entries against the new labels of the nodes.
        let labelled = nodes.iter().map(|(name, node)| (name.clone(), apply(node, inventory.changes.get(name))));
        overrides::check_overrides(&spec.nodes, catalog, &labelled.collect(), &mut inventory.findings);
    }
    inventory
}

fn apply(node: &Node, change: Option<&LabelChange>) -> Node {
    let mut node = node.clone();
    if let Some(change) = change {
        node.labels.retain(|key, value| node.ours.get(key) != Some(value));
        node.labels.extend(change.labels.clone());
    }
    node
}

/// Counts the nodes with each of these labels after applying `changes`.
pub fn count_labelled_nodes(
    nodes: &Inventory,
    changes: &BTreeMap<String, LabelChange>,
    labels: impl IntoIterator<Item = (String, String)>,
) -> NodeCount {
    let labels: BTreeSet<(String, String)> = labels.into_iter().collect();
    let carries = |name: &String, node: &Node, (key, value): &(String, String)| {
        let has = |labels: &Labels| labels.get(key) == Some(value);
        match changes.get(name) {
            None => has(&node.labels),
            Some(change) => has(&change.labels) || (has(&node.labels) && !has(&node.ours)),
        }
    };
    let count = |label: &(String, String)| nodes.iter().filter(|(name, node)| carries(name, node, label)).count();
    NodeCount::Labelled(labels.into_iter().map(|label| (label.clone(), count(&label))).collect())
}

/// Returns the labels to remove from nodes when there are no roles any more.
pub fn labels_to_remove(nodes: &Inventory) -> BTreeMap<String, LabelChange> {
    build_inventory(&OpenStackDeploymentSpec::default(), &Catalog::default(), nodes).changes
}

impl std::fmt::Display for LabelChange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gains = (!self.gains.is_empty()).then(|| format!("gets {}", self.gains.join(", ")));
        let losses = (!self.losses.is_empty()).then(|| format!("loses {}", self.losses.join(", ")));
        let parts: Vec<_> = gains.into_iter().chain(losses).collect();
        formatter.write_str(if parts.is_empty() { "is recorded as ours" } else { "" })?;
        formatter.write_str(&parts.join(", "))
    }
}

/// Formats the first few of `count` names: `n1, n2 and 47 more`.
pub fn format_names<'a>(names: impl IntoIterator<Item = &'a str>, count: usize) -> String {
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
