//! Assigns roles to nodes: determines which nodes have each role, and which labels the operator sets on each node.

use std::collections::{BTreeMap, BTreeSet};

use super::{Inventory, LabelChange, NodeInventory, format_names};
use crate::api::{NodeOperator, NodeSelector, Nodes, RoleNodes, RoleStatus};
use crate::catalog::{Catalog, Level, did_you_mean};
use crate::desired::{Finding, role_labels};
use crate::observed::{Labels, Node};

/// The maximum number of node names that the status lists for a role.
const NAMED: usize = 20;

/// The labels that a node should have because of its roles: label key → label value → names of the roles that set this
/// value.
type LabelRoles<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<&'a str>>>;

/// The warnings about nodes, as a map from (field of the spec, message) to the names of the nodes to which the warning
/// applies.
type Warnings = BTreeMap<(String, String), Vec<String>>;

/// Adds to the inventory the status of each role, the label changes of each node, and the warnings.
///
/// `owner` is the owner label ([`crate::api::owner_label`]) of the cloud with these roles.
pub(super) fn assign_roles(
    spec: &Nodes,
    catalog: &Catalog,
    nodes: &Inventory,
    owner: &str,
    inventory: &mut NodeInventory,
) {
    let roles: Vec<_> =
        spec.roles.iter().map(|(name, role)| (name.as_str(), role, role_labels(name, role, catalog))).collect();
    for (name, role, labels) in &roles {
        inventory.findings.extend(absent(name, role, labels, nodes, owner));
        let members: Vec<_> =
            nodes.iter().filter(|(name, node)| has_role(role, name, node)).map(|(name, _)| name).collect();
        let status = RoleStatus {
            labels: labels.iter().map(|(key, value)| format!("{key}={value}")).collect(),
            count: i32::try_from(members.len()).unwrap_or(i32::MAX),
            nodes: members.into_iter().take(NAMED).cloned().collect(),
        };
        inventory.roles.insert((*name).to_owned(), status);
    }
    let unmatched: Vec<_> = roles.iter().filter(|(_, role, _)| is_unmatched(role, nodes)).collect();
    let mut warnings = Warnings::new();
    for (name, node) in nodes {
        let mut wanted = LabelRoles::new();
        for (role, _, labels) in roles.iter().filter(|(_, role, _)| has_role(role, name, node)) {
            for (key, value) in labels {
                wanted.entry(key).or_default().entry(value).or_default().insert(role);
            }
        }
        // If a role is unmatched, keep its labels on the nodes on which osdpl has set them for this cloud: a typo in
        // the selector must not remove the labels from all nodes.
        for (role, _, labels) in &unmatched {
            for (key, value) in labels.iter().filter(|label| has_set(node, owner, *label)) {
                wanted.entry(key).or_default().entry(value).or_default().insert(role);
            }
        }
        let labels = granted(name, node, owner, &wanted, &mut warnings);
        inventory.changes.extend(change(node, owner, labels).map(|change| (name.clone(), change)));
    }
    let findings = warnings.into_iter().map(|((field, message), names)| {
        let message = message.replace("{nodes}", &format_names(names.iter().map(String::as_str), names.len()));
        Finding::new(Level::Warning, field, message)
    });
    inventory.findings.extend(findings);
}

fn has_role(role: &RoleNodes, name: &str, node: &Node) -> bool {
    let selected = role.selector.as_ref().is_some_and(|selector| selector_matches(selector, &node.labels));
    selected || role.names.iter().any(|named| named == name)
}

/// Whether the selector of a role matches no node. If the role has no selector: whether none of its named nodes exists.
/// If the role has a selector, named nodes do not count: a typing error in the selector must not remove the labels from
/// the other nodes, even if the role also names nodes.
fn is_unmatched(role: &RoleNodes, nodes: &Inventory) -> bool {
    match &role.selector {
        Some(selector) => !nodes.values().any(|node| selector_matches(selector, &node.labels)),
        None => !role.names.iter().any(|named| nodes.contains_key(named)),
    }
}

/// Whether the operator has set a label on a node for the cloud with the owner label `owner`, and the node still has
/// the label with the same value.
fn has_set(node: &Node, owner: &str, (key, value): (&String, &String)) -> bool {
    node.is_ours(owner, key, value) && node.labels.get(key) == Some(value)
}

/// Returns the last sentence of a warning about a role. If the role is unmatched ([`is_unmatched`]), the sentence names
/// the nodes that still have the role's labels. Otherwise, or if there is no such node, the result is empty.
fn holders(name: &str, role: &RoleNodes, labels: &Labels, nodes: &Inventory, owner: &str) -> String {
    let holds = |node: &Node| labels.iter().any(|label| has_set(node, owner, label));
    let left = |(name, node): &(&String, &Node)| !has_role(role, name, node) && holds(node);
    let names: Vec<&str> = nodes.iter().filter(left).map(|(name, _)| name.as_str()).collect();
    if names.is_empty() || !is_unmatched(role, nodes) {
        return String::new();
    }
    let count = names.len();
    format!(
        ". Until then, osdpl does not remove the role's labels from {}; to have osdpl remove them, remove role {name} from the spec",
        format_names(names, count)
    )
}

/// Returns a warning if the selector of a role matches no node, and another one if the role names nodes that do not
/// exist.
fn absent(name: &str, role: &RoleNodes, labels: &Labels, nodes: &Inventory, owner: &str) -> Vec<Finding> {
    let is_selector_unmatched = role.selector.is_some() && is_unmatched(role, nodes);
    let about_selector = is_selector_unmatched.then(|| {
        "its selector matches no node; correct the selector, or label the nodes that should have the role".to_owned()
    });
    let missing: Vec<_> = role.names.iter().map(String::as_str).filter(|named| !nodes.contains_key(*named)).collect();
    let about_names = match missing.as_slice() {
        [] => None,
        [one] => {
            let hint = did_you_mean(one, nodes.keys().map(String::as_str));
            Some(format!(
                "there is no node {one:?}{hint}; correct the name, or add the node: it gets its labels when it joins"
            ))
        }
        several_names => {
            let names = format_names(several_names.iter().copied(), several_names.len());
            Some(format!(
                "there are no nodes {names}; correct the names, or add the nodes: they get their labels when they join"
            ))
        }
    };
    let mut messages: Vec<String> = about_selector.into_iter().chain(about_names).collect();
    // The first warning is about the reason why the role is unmatched: the selector if the role has one, otherwise the
    // names.
    if let Some(first) = messages.first_mut() {
        first.push_str(&holders(name, role, labels, nodes, owner));
    }
    let field = format!("spec.nodes.roles.{name}");
    messages.into_iter().map(|message| Finding::new(Level::Warning, field.clone(), message)).collect()
}

/// Returns the labels that the operator must set or keep on a node for the cloud with the owner label `owner`. Adds a
/// warning for each label that the operator can't set to the value that a role requires.
///
/// The result contains a label in two cases:
///
/// * All roles want the same value for the label. If the node has another value, the operator set that value, and only
///   for this cloud.
/// * The roles want different values for the label. The operator set the current value, and one of the roles wants it.
fn granted(name: &str, node: &Node, owner: &str, wanted: &LabelRoles<'_>, warnings: &mut Warnings) -> Labels {
    let mut granted = Labels::new();
    for (key, values) in wanted {
        let current = node.labels.get(*key).map(String::as_str);
        let is_ours = |value: &str| node.is_ours(owner, key, value);
        let mut warn = |field: String, message: String| {
            warnings.entry((field, message)).or_default().push(name.to_owned());
        };
        let mut all = values.iter();
        if let (Some((value, roles)), None) = (all.next(), all.next()) {
            let may_replace = |current: &str| is_ours(current) && !node.is_of_another(owner, key, current);
            if current.is_none_or(|current| current == *value || may_replace(current)) {
                granted.insert((*key).to_owned(), (*value).to_owned());
            } else {
                let role = roles.first().copied().unwrap_or_default();
                warn(format!("spec.nodes.roles.{role}"), foreign(key, value, current.unwrap_or_default()));
            }
            continue;
        }
        warn("spec.nodes.roles".into(), conflict(key, values));
        // Keep the label if the operator set its current value and a role wants this value. If the node lost the label,
        // the pods that select nodes by the label would stop.
        if let Some(current) = current.filter(|current| is_ours(current) && values.contains_key(current)) {
            granted.insert((*key).to_owned(), current.to_owned());
        }
    }
    granted
}

/// Returns the warning about a label that a role wants to set, but that has another value, which another writer set, or
/// which the operator set for another cloud. The caller replaces `{nodes}` with the names of the nodes.
fn foreign(key: &str, value: &str, current: &str) -> String {
    format!(
        "another writer or another cloud set label {key} to {current:?} on {{nodes}}, so osdpl keeps that value; to have osdpl set it to {value:?}, make sure that no pod needs the old value, then remove the label: kubectl label node <node> {key}-"
    )
}

/// Returns the warning about a label that several roles want to set to different values. The caller replaces `{nodes}`
/// with the names of the nodes.
fn conflict(key: &str, values: &BTreeMap<&str, BTreeSet<&str>>) -> String {
    let sides = values.iter().map(|(value, roles)| {
        let roles = roles.iter().copied().collect::<Vec<_>>().join(", ");
        format!("{roles} to {value:?}")
    });
    let sides = sides.collect::<Vec<_>>().join(", ");
    format!(
        "roles set label {key} to different values ({sides}) on {{nodes}}: osdpl sets no new value; give each node only one of these roles, or set the same value in all of them"
    )
}

/// Returns the change after which the operator owns exactly the labels `labels` on a node, for the cloud with the owner
/// label `owner`; `None` if the node needs no change. The change also updates the annotation that lists the operator's
/// labels.
///
/// The change does not remove a label that the operator has also set for another cloud.
fn change(node: &Node, owner: &str, labels: Labels) -> Option<LabelChange> {
    let pair = |(key, value): (&String, &String)| format!("{key}={value}");
    let exists = |(key, value): &(&String, &String)| node.labels.get(*key) == Some(*value);
    let gains: Vec<_> = labels.iter().filter(|label| !exists(label)).map(pair).collect();
    let losses = node.ours(owner).filter(|(key, value)| labels.get(*key) != Some(*value));
    let losses = losses.filter(|(key, value)| !node.is_of_another(owner, key, value));
    let losses: Vec<_> = losses.filter(exists).map(pair).collect();
    // An annotation that an older osdpl wrote lists labels without an owner label. A node with such an annotation needs
    // a change that writes the annotation with `owner`, even if no label changes.
    let is_listed = !node.listed.contains_key("") && node.listed.get(owner).unwrap_or(&Labels::new()) == &labels;
    let is_known = gains.is_empty() && is_listed;
    (!is_known).then(|| LabelChange { uid: node.uid.clone(), owner: owner.to_owned(), labels, gains, losses })
}

/// Whether a selector matches a node with these labels, as Kubernetes evaluates selectors
/// (`k8s.io/apimachinery/pkg/labels`): an empty selector matches every node.
pub(super) fn selector_matches(selector: &NodeSelector, labels: &Labels) -> bool {
    let same = selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value));
    let holds = selector.match_expressions.iter().all(|required| {
        let value = labels.get(&required.key);
        let named = value.is_some_and(|value| required.values.contains(value));
        match required.operator {
            NodeOperator::In => named,
            NodeOperator::NotIn => !named,
            NodeOperator::Exists => value.is_some(),
            NodeOperator::DoesNotExist => value.is_none(),
        }
    });
    same && holds
}
