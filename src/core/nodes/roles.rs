//! Who plays which role, and which labels that means.

use std::collections::{BTreeMap, BTreeSet};

use super::{Change, Inventory, Survey, matches, several};
use crate::api::{NodeRole, Nodes, RoleStatus};
use crate::catalog::{Catalog, Level, did_you_mean};
use crate::desired::{Finding, role_labels};
use crate::observed::{Labels, Node};

/// How many names a status carries for a role.
const NAMED: usize = 20;

/// The roles that want a label, by the value that they want.
type Wishes<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<&'a str>>>;

/// What stands in the way of a label, and on which nodes.
type Troubles = BTreeMap<(String, String), Vec<String>>;

pub(super) fn survey(spec: &Nodes, catalog: &Catalog, nodes: &Inventory, survey: &mut Survey) {
    let roles: Vec<_> =
        spec.roles.iter().map(|(name, role)| (name.as_str(), role, role_labels(name, role, catalog))).collect();
    for (name, role, labels) in &roles {
        survey.findings.extend(absent(name, role, nodes));
        let players: Vec<_> = nodes.iter().filter(|(node, seen)| plays(role, node, seen)).map(|(n, _)| n).collect();
        let told = RoleStatus {
            labels: labels.iter().map(|(key, value)| format!("{key}={value}")).collect(),
            count: i32::try_from(players.len()).unwrap_or(i32::MAX),
            nodes: players.into_iter().take(NAMED).cloned().collect(),
        };
        survey.roles.insert((*name).to_owned(), told);
    }
    let mut troubles = Troubles::new();
    for (name, node) in nodes {
        let mut wishes = Wishes::new();
        for (role, _, labels) in roles.iter().filter(|(_, role, _)| plays(role, name, node)) {
            for (key, value) in labels {
                wishes.entry(key).or_default().entry(value).or_default().insert(role);
            }
        }
        let labels = granted(name, node, &wishes, &mut troubles);
        survey.changes.extend(change(node, labels).map(|change| (name.clone(), change)));
    }
    let told = troubles.into_iter().map(|((field, message), names)| {
        let message = message.replace("{nodes}", &several(names.iter().map(String::as_str), names.len()));
        Finding { level: Level::Warning, field, message }
    });
    survey.findings.extend(told);
}

fn plays(role: &NodeRole, name: &str, node: &Node) -> bool {
    let selected = role.selector.as_ref().is_some_and(|selector| matches(selector, &node.labels));
    selected || role.names.iter().any(|named| named == name)
}

/// Names that no node has, and a selector that no node fits.
fn absent(name: &str, role: &NodeRole, nodes: &Inventory) -> Option<Finding> {
    let field = format!("spec.nodes.roles.{name}");
    let warning = |message| Some(Finding { level: Level::Warning, field: field.clone(), message });
    let missing: Vec<_> = role.names.iter().map(String::as_str).filter(|named| !nodes.contains_key(*named)).collect();
    let fits = |selector| nodes.values().any(|node| matches(selector, &node.labels));
    match (missing.as_slice(), &role.selector) {
        ([], Some(selector)) if !fits(selector) => {
            warning("its selector fits no node; correct it, or label the nodes that it is meant for".into())
        }
        ([], _) => None,
        ([one], _) => {
            let hint = did_you_mean(one, nodes.keys().map(String::as_str));
            warning(format!("there is no node {one:?}{hint}; it gets its labels when it comes, or correct the name"))
        }
        (several_names, _) => {
            let names = several(several_names.iter().copied(), several_names.len());
            warning(format!("there are no nodes {names}; they get their labels when they come, or correct the names"))
        }
    }
}

/// The labels that a node gets: those that one value is wanted for and nobody else has set to another.
fn granted(name: &str, node: &Node, wishes: &Wishes<'_>, troubles: &mut Troubles) -> Labels {
    let mut granted = Labels::new();
    for (key, values) in wishes {
        let stands = node.labels.get(*key).map(String::as_str);
        let ours = node.ours.get(*key).map(String::as_str);
        let mut tell = |field: String, message: String| {
            troubles.entry((field, message)).or_default().push(name.to_owned());
        };
        let mut all = values.iter();
        if let (Some((value, roles)), None) = (all.next(), all.next()) {
            if stands.is_none_or(|stands| stands == *value || Some(stands) == ours) {
                granted.insert((*key).to_owned(), (*value).to_owned());
            } else {
                let role = roles.first().copied().unwrap_or_default();
                tell(format!("spec.nodes.roles.{role}"), foreign(key, value, stands.unwrap_or_default()));
            }
            continue;
        }
        tell("spec.nodes.roles".into(), fight(key, values));
        // What runs there by one of them goes on.
        if let Some(stands) = stands.filter(|stands| ours == Some(*stands) && values.contains_key(stands)) {
            granted.insert((*key).to_owned(), stands.to_owned());
        }
    }
    granted
}

fn foreign(key: &str, value: &str, stands: &str) -> String {
    format!(
        "label {key} has the value {stands:?} by another hand on {{nodes}}, which is respected; to have it set to {value}: kubectl label node <node> {key}-"
    )
}

fn fight(key: &str, values: &BTreeMap<&str, BTreeSet<&str>>) -> String {
    let sides = values.iter().map(|(value, roles)| {
        let roles = roles.iter().copied().collect::<Vec<_>>().join(", ");
        format!("{roles} to {value:?}")
    });
    let sides = sides.collect::<Vec<_>>().join(", ");
    format!(
        "roles want label {key} set differently ({sides}) on {{nodes}}: it stays as it is there; let each node play one of them, or give both the same value"
    )
}

/// What has to be written: what is not there, and what is there and not written down, or written down and not wanted.
fn change(node: &Node, labels: Labels) -> Option<Change> {
    let pair = |(key, value): (&String, &String)| format!("{key}={value}");
    let there = |(key, value): &(&String, &String)| node.labels.get(*key) == Some(*value);
    let gains: Vec<_> = labels.iter().filter(|label| !there(label)).map(pair).collect();
    let losses = node.ours.iter().filter(|(key, value)| labels.get(*key) != Some(*value));
    let losses: Vec<_> = losses.filter(there).map(pair).collect();
    let is_known = gains.is_empty() && node.ours == labels;
    (!is_known).then(|| Change { uid: node.uid.clone(), labels, gains, losses })
}
