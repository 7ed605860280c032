//! Computes the labels that the node roles of a spec give to each node, decides when the operator removes labels, and
//! warns about mistakes in roles and per-node values.
//!
//! The operator owns a label of a node if it applied the label because of a role. An annotation on the node lists the
//! labels that the operator owns, separately for each cloud. The operator applies these labels with a separate field
//! manager, so the API server records who owns each label. If another writer has set a label to the same value, both
//! own the label, and the node keeps the label after the operator has given it up.
//!
//! * If another writer set a label to a value that differs from the role's value, the operator keeps the writer's value
//!   and warns about the label.
//! * When someone removes a role from the spec, the operator removes only labels that it owns, and only after approval.
//! * If the selector of a role matches no node, the operator removes no label of that role. The same is true for a role
//!   without a selector if none of its named nodes exists.
//! * The operator does not remove a label that it set for another cloud, because that cloud may have been detached, and
//!   its pods could still be running. If the operator set the label for two clouds, the label stays until the
//!   annotation lists it for neither cloud.
//!
//! Pure module (no I/O).

mod overrides;
mod removal;
mod roles;

use std::collections::{BTreeMap, BTreeSet};

use osdpl_values::CollectSorted;

use crate::api::{OpenStackDeploymentSpec, RoleStatus};
use crate::catalog::Catalog;
use crate::finding::Finding;
use crate::observed::{Labels, Node, NodeCount};

pub use removal::{
    LabelApproval, LabelBatch, LabelRemoval, after_batch, losses, next_batch, removal_target, unfinished,
};

/// The nodes of the cluster, by name.
pub type Inventory = BTreeMap<String, Node>;

/// The effects of a spec's node roles and per-node values on the nodes of the cluster: label changes, the status of
/// each role, and findings.
#[derive(Debug, Default)]
pub struct NodeInventory {
    /// The label changes that the operator must apply, by node.
    pub changes: BTreeMap<String, LabelChange>,
    /// The status of each role in the spec, by role name.
    pub roles: BTreeMap<String, RoleStatus>,
    /// The findings about roles and per-node values.
    pub findings: Vec<Finding>,
}

/// The changes of one node's labels that the operator must apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelChange {
    /// The uid of the node. The operator does not change a new node that has the same name but another uid.
    pub uid: String,
    /// The cloud's owner label. The node's annotation `osdpl.dev/labels` lists the operator's labels separately for
    /// each owner label.
    pub owner: String,
    /// All labels that the operator owns on the node for this cloud after the change.
    pub labels: Labels,
    /// The labels that the change adds to the node, each as a string such as `openvswitch=enabled`.
    pub gains: Vec<String>,
    /// The cloud's labels that the change removes from the node, each as a string such as `openvswitch=enabled`.
    pub losses: Vec<String>,
}

impl LabelChange {
    /// Whether the change removes the label `key` with the value `value`.
    fn removes(&self, key: &str, value: &str) -> bool {
        self.losses.iter().any(|label| label.split_once('=') == Some((key, value)))
    }

    /// Whether the change adds or removes a label. If not, the change only updates the annotation that lists the
    /// operator's labels.
    pub fn changes_labels(&self) -> bool {
        !self.gains.is_empty() || !self.losses.is_empty()
    }

    /// Returns a copy of this change that removes no label; `None` if the copy adds no label.
    ///
    /// If this change replaces the value of a label, the copy keeps the label's current value.
    pub fn without_losses(&self) -> Option<Self> {
        let kept: Labels = self.losses.iter().filter_map(|label| label.split_once('=')).map(owned).collect_map();
        let is_kept = |label: &String| label.split_once('=').is_some_and(|(key, _)| kept.contains_key(key));
        let gains: Vec<String> = self.gains.iter().filter(|label| !is_kept(label)).cloned().collect();
        let labels = self.labels.clone().into_iter().chain(kept.clone()).collect_map();
        (!gains.is_empty()).then(|| Self { labels, gains, losses: Vec::new(), ..self.clone() })
    }
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// Computes the label changes of all nodes, the status of each role, and the findings about roles and per-node values.
///
/// `owner` is the owner label of the cloud with this spec.
pub fn build_inventory(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    nodes: &Inventory,
    owner: &str,
) -> NodeInventory {
    let mut inventory = NodeInventory::default();
    roles::assign_roles(&spec.nodes, catalog, nodes, owner, &mut inventory);
    if !spec.nodes.overrides.is_empty() {
        // Check the entries of `spec.nodes.overrides` against the labels that the nodes will have after the label
        // changes, because the entries may select nodes by these labels.
        let labelled = nodes.iter().map(|(name, node)| (name.clone(), apply(node, inventory.changes.get(name))));
        overrides::check_overrides(&spec.nodes, catalog, &labelled.collect_map(), &mut inventory.findings);
    }
    inventory
}

fn apply(node: &Node, change: Option<&LabelChange>) -> Node {
    let mut node = node.clone();
    if let Some(change) = change {
        node.labels.retain(|key, value| !change.removes(key, value));
        node.labels.extend(change.labels.clone());
    }
    node
}

/// Counts, for each of `labels`, the nodes that will have the label after the operator has applied `changes`.
pub fn count_labelled_nodes(
    nodes: &Inventory,
    changes: &BTreeMap<String, LabelChange>,
    labels: impl IntoIterator<Item = (String, String)>,
) -> NodeCount {
    let labels: BTreeSet<(String, String)> = labels.into_iter().collect_set();
    let carries = |name: &String, node: &Node, (key, value): &(String, String)| {
        let has = |labels: &Labels| labels.get(key) == Some(value);
        match changes.get(name) {
            None => has(&node.labels),
            Some(change) => has(&change.labels) || (has(&node.labels) && !change.removes(key, value)),
        }
    };
    let count = |label: &(String, String)| nodes.iter().filter(|(name, node)| carries(name, node, label)).count();
    NodeCount::Labelled(labels.into_iter().map(|label| (label.clone(), count(&label))).collect_map())
}

/// Returns the changes that remove from each node all labels that the operator has set there for the cloud `owner`,
/// except for labels that it has also set for another cloud.
pub fn labels_to_remove(nodes: &Inventory, owner: &str) -> BTreeMap<String, LabelChange> {
    build_inventory(&OpenStackDeploymentSpec::default(), &Catalog::default(), nodes, owner).changes
}

impl std::fmt::Display for LabelChange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gains = (!self.gains.is_empty()).then(|| format!("gets {}", self.gains.join(", ")));
        let losses = (!self.losses.is_empty()).then(|| format!("loses {}", self.losses.join(", ")));
        let parts: Vec<_> = gains.into_iter().chain(losses).collect();
        formatter.write_str(if parts.is_empty() { "gets an updated annotation with osdpl's labels" } else { "" })?;
        formatter.write_str(&parts.join(", "))
    }
}

/// Formats the first few of `count` node names, and the number of the other nodes: `n1, n2 and 47 more`.
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
