//! Checks that there are enough nodes for the servers: with required anti-affinity some stay pending, otherwise they
//! share nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Cloud;
use osdpl_core::api::{OpenStackDeploymentSpec, RoleNodes};
use osdpl_core::catalog::{Catalog, SeparateServers};
use osdpl_core::desired::role_labels;
use osdpl_core::finding::Finding;
use osdpl_values::{Path, Values, get};

/// The label by which upstream's charts select the nodes of APIs and similar pods (`labels.*` of their values).
const CONTROL_PLANE: &str = "openstack-control-plane";
/// The value of upstream's node labels.
const ENABLED: &str = "enabled";
/// The anti-affinity type that keeps a pod pending instead of sharing a node (`pod.affinity.anti.type` of the charts'
/// values).
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
/// The field that assigns labels to nodes.
const LABELLED: &str = "spec.nodes.roles";
/// The number of servers that a message names.
const SHOWN: usize = 3;

/// The effect of having more servers than nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// No server starts.
    NoneStarts,
    /// Some servers never start.
    SomeWait,
    /// Some servers share a node, and losing it loses the majority.
    MajorityAtRisk,
    /// Some servers share a node, without gain in availability.
    NoGain,
}

/// The number of nodes for servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Nodes {
    count: usize,
    /// Whether the number comes from the spec and not from the cluster.
    is_of_spec: bool,
}

/// Servers as configured in the values of a release.
struct Servers {
    field: String,
    label: (String, String),
    nodes: Nodes,
    effect: Effect,
    what: String,
    count: u64,
}

/// Returns the labels whose nodes are counted for a spec: those that the charts select nodes by, and those of roles.
///
/// Other labels in values are not checked.
pub fn labels(spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> BTreeSet<(String, String)> {
    let keys =
        catalog.cross_checks.separate_servers.iter().filter_map(|apart| apart.node.as_deref()).chain([CONTROL_PLANE]);
    let default = keys.map(|key| (key.to_owned(), ENABLED.to_owned()));
    let known = catalog.roles.values().flat_map(|role| role.labels.clone());
    let own = spec.nodes.roles.iter().flat_map(|(name, role)| role_labels(name, role, catalog));
    default.chain(known).chain(own).collect()
}

/// The key by which servers share one message: field, label, effect and number of nodes.
type Group = (String, (String, String), Effect, Nodes);

/// Reports servers that have too few nodes; nothing if the nodes are neither counted nor named one by one in the spec.
pub(super) fn check(cloud: &Cloud<'_>) -> Vec<Finding> {
    let mut groups: BTreeMap<Group, Vec<(u64, String)>> = BTreeMap::new();
    for servers in cloud.values.iter().flat_map(|(release, values)| too_many(cloud, release, values)) {
        let Servers { field, label, nodes, effect, what, count } = servers;
        groups.entry((field, label, effect, nodes)).or_default().push((count, what));
    }
    let findings = groups.into_iter().map(|((field, label, effect, nodes), mut servers)| {
        servers.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        Finding::warning("controllers", field, message(&label, nodes, effect, &servers))
    });
    findings.collect()
}

fn message((key, value): &(String, String), nodes: Nodes, effect: Effect, servers: &[(u64, String)]) -> String {
    let named = servers.iter().take(SHOWN).map(|(count, what)| match count {
        1 => what.clone(),
        _ => format!("{count} {what}"),
    });
    let named: Vec<String> = named.collect();
    let more = servers.len().saturating_sub(SHOWN);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let available = match (nodes.count, nodes.is_of_spec) {
        (0, _) => format!("no node carries {key}={value}"),
        (1, false) => format!("1 node carries {key}={value}"),
        (count, false) => format!("{count} nodes carry {key}={value}"),
        (1, true) => format!("{LABELLED} names 1 node for {key}={value}"),
        (count, true) => format!("{LABELLED} names {count} nodes for {key}={value}"),
    };
    let fewer = format!("give more nodes the label ({LABELLED}), or run fewer (a smaller size, without the preset ha)");
    let (then, remedy) = match effect {
        Effect::NoneStarts => ("none of them starts", format!("give nodes the label ({LABELLED})")),
        Effect::SomeWait => ("each needs a node of its own, so that the others stay pending", fewer),
        Effect::MajorityAtRisk => ("some share a node, and if it fails the majority is lost", fewer),
        Effect::NoGain => {
            ("those that share a node are lost together, so the additional ones add no availability", fewer)
        }
    };
    format!("{}{more} are wanted, and {available}: {then}; {remedy}", named.join(", "))
}

/// Returns the servers of a release that have too few nodes.
fn too_many(cloud: &Cloud<'_>, release: &str, values: &Values) -> Vec<Servers> {
    let chart = cloud.catalog.release(release).map_or("", |(_, entry)| entry.chart.as_str());
    let replicas: Path = ["pod", "replicas"].into_iter().collect();
    let names = get(values, &replicas).and_then(Value::as_object).into_iter().flat_map(|names| names.keys());
    let found = names.filter_map(|name| {
        let path: Path = replicas.keys().iter().chain([name]).cloned().collect();
        let apart = &cloud.catalog.cross_checks.separate_servers;
        let apart = apart.iter().find(|apart| apart.chart == chart && apart.replicas == path);
        servers(cloud, (release, values), &path, apart)
    });
    found.collect()
}

fn servers(
    cloud: &Cloud<'_>,
    (release, values): (&str, &Values),
    path: &Path,
    apart: Option<&SeparateServers>,
) -> Option<Servers> {
    let count = get(values, path)?.as_u64().filter(|count| *count > 0)?;
    let name = path.keys().last()?;
    let labels = apart.and_then(|apart| apart.labels.clone());
    let labels = labels.unwrap_or_else(|| ["labels", name.as_str()].into_iter().collect());
    let configured = |key: &str| {
        let path: Path = labels.keys().iter().map(String::as_str).chain([key]).map(str::to_owned).collect();
        get(values, &path).and_then(Value::as_str).map(str::to_owned)
    };
    let default = apart.and_then(|apart| apart.node.as_deref()).unwrap_or(CONTROL_PLANE);
    let label = (
        configured("node_selector_key").unwrap_or_else(|| default.to_owned()),
        configured("node_selector_value").unwrap_or_else(|| ENABLED.to_owned()),
    );
    let nodes = nodes(cloud, &label)?;
    if u64::try_from(nodes.count).is_ok_and(|nodes| nodes >= count) {
        return None;
    }
    let effect = match apart {
        _ if nodes.count == 0 => Effect::NoneStarts,
        _ if is_required(values, name) => Effect::SomeWait,
        Some(_) => Effect::MajorityAtRisk,
        None => Effect::NoGain,
    };
    let what =
        apart.map_or_else(|| format!("pods of {name} of {release}"), |apart| format!("{} ({release})", apart.what));
    // Without any labelled node the problem is the nodes' labels, not the number of servers.
    let field = if nodes.count == 0 { LABELLED.to_owned() } else { cloud.field(release, path) };
    Some(Servers { field, label, nodes, effect, what, count })
}

/// Returns the number of nodes with a label: as counted in the cluster, or as the spec names them one by one.
fn nodes(cloud: &Cloud<'_>, (key, value): &(String, String)) -> Option<Nodes> {
    if let Some(census) = &cloud.site().nodes {
        return Some(Nodes { count: census.count(key, value)?, is_of_spec: false });
    }
    let roles = cloud.spec.nodes.roles.iter();
    let roles: Vec<&RoleNodes> = roles
        .filter(|(name, role)| role_labels(name, role, cloud.catalog).get(key) == Some(value))
        .map(|(_, role)| role)
        .collect();
    if roles.is_empty() || roles.iter().any(|role| role.selector.is_some() || role.names.is_empty()) {
        return None;
    }
    let names: BTreeSet<&String> = roles.iter().flat_map(|role| &role.names).collect();
    Some(Nodes { count: names.len(), is_of_spec: true })
}

/// Whether the pods require nodes without pods of the same kind.
fn is_required(values: &Values, name: &str) -> bool {
    let kinds: Path = ["pod", "affinity", "anti", "type"].into_iter().collect();
    let kinds = get(values, &kinds);
    let own = kinds.and_then(|kinds| kinds.get(name).or_else(|| kinds.get("default")));
    own.and_then(Value::as_str) == Some(REQUIRED)
}
