//! Warns about entries of `spec.nodes.overrides` that select no node, and about nodes that do not get the values of all
//! entries that select them.

use std::collections::{BTreeMap, BTreeSet};

use osdpl_values::CollectSorted;

use super::{Inventory, format_names};
use crate::api::{NodeOverride, NodeValues, Nodes};
use crate::catalog::{Catalog, Form, Level};
use crate::desired::{NodeTarget, OVERRIDES, parse_target};
use crate::finding::Finding;

/// The node label that contains the host name. If an entry of `spec.nodes.overrides` names a node, charts select the
/// node by this label.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// A valid entry of `spec.nodes.overrides`, with the nodes of the cluster that it selects.
struct Entry<'a> {
    index: usize,
    given: &'a NodeOverride,
    target: NodeTarget,
    nodes: BTreeSet<&'a str>,
}

/// Warns about each entry of `spec.nodes.overrides` that selects no node or names a node that does not exist, and about
/// nodes that get the values of only some of the entries that select them.
pub(super) fn check_overrides(spec: &Nodes, catalog: &Catalog, nodes: &Inventory, findings: &mut Vec<Finding>) {
    let entries = spec.overrides.iter().enumerate().filter_map(|(index, entry)| {
        let target = parse_target(entry).ok()?;
        let fits = nodes.iter().filter(|(name, node)| target.fits(name, &node.labels)).map(|(name, _)| name.as_str());
        Some(Entry { index, given: entry, nodes: fits.collect_set(), target })
    });
    let entries: Vec<_> = entries.collect();
    for entry in &entries {
        findings.extend(without_nodes(entry, nodes));
    }
    for (index, later) in entries.iter().enumerate() {
        for earlier in &entries[..index] {
            findings.extend(overlap(earlier, later, catalog));
        }
    }
}

fn warning(index: usize, message: String) -> Finding {
    Finding::new(Level::Warning, format!("{OVERRIDES}[{index}]"), message)
}

/// Returns the warning about an entry of `spec.nodes.overrides` whose label no node has, or that names nodes that do
/// not exist or that have another name in their label [`HOSTNAME`]; `None` if the entry has no such problem.
fn without_nodes(entry: &Entry<'_>, nodes: &Inventory) -> Option<Finding> {
    let message = match &entry.target {
        NodeTarget::Label(key, values) if entry.nodes.is_empty() => {
            let values = values.iter().map(String::as_str).collect::<Vec<_>>().join(" or ");
            format!(
                "no node has the label {key}={values}; label the nodes that should get these values, for example with a role (spec.nodes.roles)"
            )
        }
        NodeTarget::Label(..) => return None,
        NodeTarget::Hosts(names) => {
            let known = |name: &&str| {
                let hostname = nodes.get(*name).map(|node| node.labels.get(HOSTNAME));
                hostname.is_some_and(|hostname| hostname.is_none_or(|hostname| hostname == *name))
            };
            let missing: Vec<_> = names.iter().map(String::as_str).filter(|name| !known(name)).collect();
            if missing.is_empty() {
                return None;
            }
            let count = missing.len();
            format!(
                "no node has the name {} in its label {HOSTNAME}; correct the name, or remove it from the entry",
                format_names(missing, count)
            )
        }
    };
    Some(warning(entry.index, message))
}

/// Returns the warnings about nodes that the two entries `earlier` and `later` select, but that do not get the values
/// of both entries.
///
/// The effect on such a node depends on how the chart takes values for single nodes ([`Form`]). With the form `conf`,
/// the node gets the values of only one entry. With the form `root`, the node runs no pod of the `DaemonSet` at all.
fn overlap(earlier: &Entry<'_>, later: &Entry<'_>, catalog: &Catalog) -> Vec<Finding> {
    let both: Vec<_> = earlier.nodes.intersection(&later.nodes).copied().collect();
    if both.is_empty() || earlier.target == later.target {
        return Vec::new();
    }
    let mut findings = BTreeMap::new();
    for (name, given) in &later.given.releases {
        let Some((other, (_, release))) = earlier.given.releases.get(name).zip(catalog.release(name)) else { continue };
        let Some(form) =
            release.daemonsets.values().map(|own| own.form).next().filter(|_| change_same_daemonset(given, other))
        else {
            continue;
        };
        let chart = &release.chart;
        let nodes = format_names(both.iter().copied(), both.len());
        // If the chart takes the values in the form `conf`, an entry that names the node has priority over an entry
        // that selects the node by label, whatever the order of the entries. If both entries select by label, the later
        // entry has priority.
        let by_name = matches!(earlier.target, NodeTarget::Hosts(_)) && matches!(later.target, NodeTarget::Label(..));
        let (lost, winner) = if by_name { (later.index, earlier.index) } else { (earlier.index, later.index) };
        let finding = match form {
            Form::Conf if select_by_name(earlier, later) => continue,
            Form::Conf => warning(
                lost,
                format!(
                    "the values for {name} do not apply to {nodes}, because {OVERRIDES}[{winner}] also selects these nodes: chart {chart} gives a node the values of only one entry; repeat the values in that entry, or select different nodes"
                ),
            ),
            Form::Root if can_be_merged(&earlier.target, &later.target) => continue,
            Form::Root => warning(
                later.index,
                format!(
                    "this entry and {OVERRIDES}[{}] both select {nodes}: chart {chart} runs no pod of {name} on a node that two entries select; select different nodes",
                    earlier.index
                ),
            ),
        };
        findings.insert(name, finding);
    }
    findings.into_values().collect()
}

/// Whether two entries of `spec.nodes.overrides` change the same `DaemonSet` of a release. An entry that names no
/// `DaemonSet` changes all `DaemonSets` of the release.
fn change_same_daemonset(one: &NodeValues, other: &NodeValues) -> bool {
    let any = one.daemonsets.is_empty() || other.daemonsets.is_empty();
    any || one.daemonsets.iter().any(|name| other.daemonsets.contains(name))
}

/// Whether both entries of `spec.nodes.overrides` select nodes by name. If so, a node that both entries name gets the
/// values of both.
fn select_by_name(one: &Entry<'_>, other: &Entry<'_>) -> bool {
    matches!((&one.target, &other.target), (NodeTarget::Hosts(_), NodeTarget::Hosts(_)))
}

/// Whether a chart that takes the values in the form `root` gives a node the values of both entries that select the
/// node.
///
/// The chart does so if both entries select nodes by name, or if both select them by the same label key.
fn can_be_merged(one: &NodeTarget, other: &NodeTarget) -> bool {
    match (one, other) {
        (NodeTarget::Hosts(_), NodeTarget::Hosts(_)) => true,
        (NodeTarget::Label(key, _), NodeTarget::Label(other, _)) => key == other,
        (NodeTarget::Label(..), NodeTarget::Hosts(_)) | (NodeTarget::Hosts(_), NodeTarget::Label(..)) => false,
    }
}
