//! More servers than nodes for them: those that insist on a node each wait for ever, the others are lost together.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Cloud, Judged};
use osdpl_core::api::{NodeRole, OpenStackDeploymentSpec};
use osdpl_core::catalog::{Apart, Catalog};
use osdpl_core::desired::role_labels;
use osdpl_values::{Path, Values, get};

/// The label by which upstream's charts choose the nodes of APIs and the like (`labels.*` of their values).
const CONTROL_PLANE: &str = "openstack-control-plane";
/// The value of upstream's labels.
const ENABLED: &str = "enabled";
/// The kind of anti-affinity that leaves a pod waiting rather than beside its like (`pod.affinity.anti.type` of the charts' values).
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
/// Where nodes are given their labels.
const LABELLED: &str = "spec.nodes.roles";
/// How many are named.
const SHOWN: usize = 3;

/// How servers that are more than their nodes fare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// None starts.
    Nowhere,
    /// Some never start.
    Wait,
    /// Some share a node, and the majority goes with it.
    Outvoted,
    /// Some share a node, to no avail.
    Idle,
}

/// How many nodes there are for servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Nodes {
    count: usize,
    /// Whether the spec names them, and nobody has counted.
    is_of_spec: bool,
}

/// Servers, as the values of a release want them.
struct Servers {
    field: String,
    label: (String, String),
    nodes: Nodes,
    fate: Fate,
    what: String,
    count: u64,
}

/// The labels whose nodes are to be counted for a spec: those that the charts choose nodes by, and those of roles. Where values name another, nothing is
/// said of it.
pub fn labels(spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> BTreeSet<(String, String)> {
    let keys = catalog.judgements.apart.iter().filter_map(|apart| apart.node.as_deref()).chain([CONTROL_PLANE]);
    let usual = keys.map(|key| (key.to_owned(), ENABLED.to_owned()));
    let known = catalog.roles.values().flat_map(|role| role.labels.clone());
    let own = spec.nodes.roles.iter().flat_map(|(name, role)| role_labels(name, role, catalog));
    usual.chain(known).chain(own).collect()
}

/// What servers are told of together by: the field, the label, how they fare, and how many nodes there are.
type Group = (String, (String, String), Fate, Nodes);

/// What a cloud asks of its nodes that they are too few for; nothing where neither anybody has counted nor the spec names them one by one.
pub(super) fn judge(cloud: &Cloud<'_>) -> Vec<Judged> {
    let mut groups: BTreeMap<Group, Vec<(u64, String)>> = BTreeMap::new();
    for servers in cloud.values.iter().flat_map(|(release, values)| too_many(cloud, release, values)) {
        let Servers { field, label, nodes, fate, what, count } = servers;
        groups.entry((field, label, fate, nodes)).or_default().push((count, what));
    }
    let said = groups.into_iter().map(|((field, label, fate, nodes), mut servers)| {
        servers.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        Judged::warning("controllers", field, message(&label, nodes, fate, &servers))
    });
    said.collect()
}

fn message((key, value): &(String, String), nodes: Nodes, fate: Fate, servers: &[(u64, String)]) -> String {
    let named = servers.iter().take(SHOWN).map(|(count, what)| match count {
        1 => what.clone(),
        _ => format!("{count} {what}"),
    });
    let named: Vec<String> = named.collect();
    let more = servers.len().saturating_sub(SHOWN);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let there = match (nodes.count, nodes.is_of_spec) {
        (0, _) => format!("no node carries {key}={value}"),
        (1, false) => format!("1 node carries {key}={value}"),
        (count, false) => format!("{count} nodes carry {key}={value}"),
        (1, true) => format!("{LABELLED} names 1 node for {key}={value}"),
        (count, true) => format!("{LABELLED} names {count} nodes for {key}={value}"),
    };
    let fewer =
        format!("give more nodes the label ({LABELLED}), or want fewer (a smaller size, without the preset ha)");
    let (then, remedy) = match fate {
        Fate::Nowhere => ("none of them starts", format!("give nodes the label ({LABELLED})")),
        Fate::Wait => ("each needs one of its own, so that the others wait for ever", fewer),
        Fate::Outvoted => ("some share a node, and with it the majority is lost", fewer),
        Fate::Idle => ("those that share a node are lost with it, and the others have nothing from them", fewer),
    };
    format!("{}{more} are wanted, and {there}: {then}; {remedy}", named.join(", "))
}

/// The servers of a release that are more than the nodes for them.
fn too_many(cloud: &Cloud<'_>, release: &str, values: &Values) -> Vec<Servers> {
    let chart = cloud.catalog.release(release).map_or("", |(_, entry)| entry.chart.as_str());
    let replicas: Path = ["pod", "replicas"].into_iter().collect();
    let names = get(values, &replicas).and_then(Value::as_object).into_iter().flat_map(|names| names.keys());
    let found = names.filter_map(|name| {
        let path: Path = replicas.keys().iter().chain([name]).cloned().collect();
        let apart = &cloud.catalog.judgements.apart;
        let apart = apart.iter().find(|apart| apart.chart == chart && apart.replicas == path);
        servers(cloud, (release, values), &path, apart)
    });
    found.collect()
}

fn servers(
    cloud: &Cloud<'_>,
    (release, values): (&str, &Values),
    path: &Path,
    apart: Option<&Apart>,
) -> Option<Servers> {
    let count = get(values, path)?.as_u64().filter(|count| *count > 0)?;
    let name = path.keys().last()?;
    let labels = apart.and_then(|apart| apart.labels.clone());
    let labels = labels.unwrap_or_else(|| ["labels", name.as_str()].into_iter().collect());
    let said = |key: &str| {
        let path: Path = labels.keys().iter().map(String::as_str).chain([key]).map(str::to_owned).collect();
        get(values, &path).and_then(Value::as_str).map(str::to_owned)
    };
    let usual = apart.and_then(|apart| apart.node.as_deref()).unwrap_or(CONTROL_PLANE);
    let label = (
        said("node_selector_key").unwrap_or_else(|| usual.to_owned()),
        said("node_selector_value").unwrap_or_else(|| ENABLED.to_owned()),
    );
    let nodes = nodes(cloud, &label)?;
    if u64::try_from(nodes.count).is_ok_and(|nodes| nodes >= count) {
        return None;
    }
    let fate = match apart {
        _ if nodes.count == 0 => Fate::Nowhere,
        _ if is_required(values, name) => Fate::Wait,
        Some(_) => Fate::Outvoted,
        None => Fate::Idle,
    };
    let what =
        apart.map_or_else(|| format!("pods of {name} of {release}"), |apart| format!("{} ({release})", apart.what));
    // Where no node has the label, it is the nodes that lack it, and not each of the servers that is one too many.
    let field = if nodes.count == 0 { LABELLED.to_owned() } else { cloud.field(release, path) };
    Some(Servers { field, label, nodes, fate, what, count })
}

/// How many nodes carry a label: as they were counted, or else as the spec names them, where it does so one by one.
fn nodes(cloud: &Cloud<'_>, (key, value): &(String, String)) -> Option<Nodes> {
    if let Some(census) = &cloud.site().nodes {
        return Some(Nodes { count: census.count(key, value)?, is_of_spec: false });
    }
    let roles = cloud.spec.nodes.roles.iter();
    let roles: Vec<&NodeRole> = roles
        .filter(|(name, role)| role_labels(name, role, cloud.catalog).get(key) == Some(value))
        .map(|(_, role)| role)
        .collect();
    if roles.is_empty() || roles.iter().any(|role| role.selector.is_some() || role.names.is_empty()) {
        return None;
    }
    let names: BTreeSet<&String> = roles.iter().flat_map(|role| &role.names).collect();
    Some(Nodes { count: names.len(), is_of_spec: true })
}

/// Whether the pods insist on nodes without their like.
fn is_required(values: &Values, name: &str) -> bool {
    let kinds: Path = ["pod", "affinity", "anti", "type"].into_iter().collect();
    let kinds = get(values, &kinds);
    let own = kinds.and_then(|kinds| kinds.get(name).or_else(|| kinds.get("default")));
    own.and_then(Value::as_str) == Some(REQUIRED)
}
