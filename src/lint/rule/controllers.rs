//! Checks that the cluster has enough nodes to run each server of a release, such as a database server, on its own
//! node.
//!
//! Otherwise some servers stay pending if the values require anti-affinity. If the values do not require it, several
//! servers share a node and fail together.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cloud::Cloud;
use osdpl_core::api::{OpenStackDeploymentSpec, RoleNodes};
use osdpl_core::catalog::{Catalog, SeparateServers};
use osdpl_core::desired::role_labels;
use osdpl_core::finding::Finding;
use osdpl_values::{CollectSorted, Path, Values, get};

/// The node label by which upstream's charts select nodes for control plane pods, such as APIs (`labels.*` of the
/// charts' values).
const CONTROL_PLANE: &str = "openstack-control-plane";
/// The value that a node label must have so that upstream's charts select the node.
const ENABLED: &str = "enabled";
/// The type of anti-affinity with which a pod stays pending rather than share a node (`pod.affinity.anti.type` of the
/// charts' values).
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
/// The field that assigns labels to nodes.
const ROLES_FIELD: &str = "spec.nodes.roles";
/// The maximum number of servers that a message names.
const SHOWN: usize = 3;

/// The effect of having fewer nodes than servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// No node has the label that the servers' pods require, so no server starts.
    NoneStarts,
    /// The values require that each server has a node of its own, so some servers never start.
    SomeWait,
    /// Some servers share a node. If this node fails, the majority of the servers may be lost.
    MajorityAtRisk,
    /// Some servers share a node and fail together, so the additional servers do not improve availability.
    NoGain,
}

/// The number of nodes with the label by which the servers' pods select nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Nodes {
    count: usize,
    /// Whether osdpl counted the nodes that the spec lists. If false, osdpl counted nodes of the cluster.
    is_from_spec: bool,
}

/// The properties that all servers of one finding have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    /// The finding's field.
    field: String,
    /// The key and the value of the node label.
    key: String,
    value: String,
    effect: Effect,
    nodes: Nodes,
}

/// Servers of a release, such as database servers. A value below `pod.replicas` sets their number.
struct Servers {
    group: Group,
    description: String,
    count: u64,
}

/// Returns the node labels for which the check of a spec needs the number of nodes.
///
/// These are the labels by which charts select nodes, and the labels of node roles. The caller must count the nodes
/// with each of these labels. osdpl does not check pods that select their nodes by any other label.
pub fn node_labels(spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> BTreeSet<(String, String)> {
    let keys = catalog
        .cross_checks
        .separate_servers
        .iter()
        .filter_map(|servers| servers.node.as_deref())
        .chain([CONTROL_PLANE]);
    let of_charts = keys.map(|key| (key.to_owned(), ENABLED.to_owned()));
    let known = catalog.roles.values().flat_map(|role| role.labels.clone());
    let own = spec.nodes.roles.iter().flat_map(|(name, role)| role_labels(name, role, catalog));
    of_charts.chain(known).chain(own).collect_set()
}

/// Reports servers for which there are fewer nodes than servers.
///
/// Reports nothing if osdpl does not know the number of nodes. osdpl knows the number if it has counted the nodes of
/// the cluster, or if the spec names each node of a role.
pub(super) fn check(cloud: &Cloud<'_>) -> Vec<Finding> {
    let mut groups: BTreeMap<Group, Vec<(u64, String)>> = BTreeMap::new();
    for servers in cloud.values.iter().flat_map(|(release, values)| servers_without_nodes(cloud, release, values)) {
        let Servers { group, description, count } = servers;
        groups.entry(group).or_default().push((count, description));
    }
    let findings = groups.into_iter().map(|(group, mut servers)| {
        servers.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        let message = message(&group, &servers);
        Finding::warning("controllers", group.field, message)
    });
    findings.collect()
}

fn message(group: &Group, servers: &[(u64, String)]) -> String {
    let Group { key, value, effect, nodes, .. } = group;
    let named = servers.iter().take(SHOWN).map(|(count, description)| match count {
        1 => description.clone(),
        _ => format!("{count} {description}"),
    });
    let named: Vec<String> = named.collect();
    let more = servers.len().saturating_sub(SHOWN);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let available = match (nodes.count, nodes.is_from_spec) {
        (0, _) => format!("no node carries {key}={value}"),
        (1, false) => format!("1 node carries {key}={value}"),
        (count, false) => format!("{count} nodes carry {key}={value}"),
        (1, true) => format!("{ROLES_FIELD} names 1 node for {key}={value}"),
        (count, true) => format!("{ROLES_FIELD} names {count} nodes for {key}={value}"),
    };
    let fewer = format!(
        "label more nodes ({ROLES_FIELD}), or run fewer servers: choose a smaller size, or remove the preset ha"
    );
    let (effect, remedy) = match effect {
        Effect::NoneStarts => ("none of the servers starts", format!("label nodes ({ROLES_FIELD})")),
        Effect::SomeWait => ("each server needs its own node, so some servers stay pending", fewer),
        Effect::MajorityAtRisk => {
            ("some servers share a node, and if this node fails, the majority may be lost", fewer)
        }
        Effect::NoGain => {
            ("servers on one node fail together, so additional servers do not improve availability", fewer)
        }
    };
    format!("{}{more} are configured, but {available}: {effect}; {remedy}", named.join(", "))
}

/// Returns the groups of servers of a release, such as database servers, for which the cluster has too few nodes.
fn servers_without_nodes(cloud: &Cloud<'_>, release: &str, values: &Values) -> Vec<Servers> {
    let chart = cloud.catalog.release(release).map_or("", |(_, entry)| entry.chart.as_str());
    let replicas: Path = ["pod", "replicas"].into_iter().collect();
    let names = get(values, &replicas).and_then(Value::as_object).into_iter().flat_map(|names| names.keys());
    let found = names.filter_map(|name| {
        let path: Path = replicas.keys().iter().chain([name]).cloned().collect();
        let known = &cloud.catalog.cross_checks.separate_servers;
        let known = known.iter().find(|known| known.chart == chart && known.replicas == path);
        servers(cloud, release, values, &path, known)
    });
    found.collect()
}

/// Returns a group of servers of the release if the nodes available to them are fewer than the servers. Returns `None`
/// if there are enough nodes, or if osdpl does not know their number. The value at `path` is the number of servers.
///
/// `known` is the entry about these servers in `values/rules.yaml`; `None` if the file has no such entry.
fn servers(
    cloud: &Cloud<'_>,
    release: &str,
    values: &Values,
    path: &Path,
    known: Option<&SeparateServers>,
) -> Option<Servers> {
    let count = get(values, path)?.as_u64().filter(|count| *count > 0)?;
    let name = path.keys().last()?;
    let labels = known.and_then(|known| known.labels.clone());
    let labels = labels.unwrap_or_else(|| ["labels", name.as_str()].into_iter().collect());
    let configured = |key: &str| {
        let path: Path = labels.keys().iter().map(String::as_str).chain([key]).map(str::to_owned).collect();
        get(values, &path).and_then(Value::as_str).map(str::to_owned)
    };
    let default = known.and_then(|known| known.node.as_deref()).unwrap_or(CONTROL_PLANE);
    let key = configured("node_selector_key").unwrap_or_else(|| default.to_owned());
    let value = configured("node_selector_value").unwrap_or_else(|| ENABLED.to_owned());
    let nodes = nodes(cloud, &key, &value)?;
    if u64::try_from(nodes.count).is_ok_and(|nodes| nodes >= count) {
        return None;
    }
    let effect = match known {
        _ if nodes.count == 0 => Effect::NoneStarts,
        _ if is_required(values, name) => Effect::SomeWait,
        Some(_) => Effect::MajorityAtRisk,
        None => Effect::NoGain,
    };
    let description =
        known.map_or_else(|| format!("pods of {name} of {release}"), |known| format!("{} ({release})", known.what));
    // If no node has the label, the finding names the field that assigns labels. If some nodes have the label, the
    // finding names the field with the number of servers.
    let field = if nodes.count == 0 { ROLES_FIELD.to_owned() } else { cloud.field(release, path) };
    Some(Servers { group: Group { field, key, value, effect, nodes }, description, count })
}

/// Returns the number of nodes with a label; `None` if osdpl does not know the number.
///
/// If osdpl has read the nodes of the cluster, the function counts the nodes with the label. Otherwise it counts the
/// nodes that `spec.nodes.roles` names for the roles with this label.
fn nodes(cloud: &Cloud<'_>, key: &str, value: &str) -> Option<Nodes> {
    if let Some(counts) = &cloud.cluster_info().nodes {
        return Some(Nodes { count: counts.count(key, value)?, is_from_spec: false });
    }
    let roles = cloud.spec.nodes.roles.iter();
    let roles: Vec<&RoleNodes> = roles
        .filter(|(name, role)| role_labels(name, role, cloud.catalog).get(key).is_some_and(|own| own == value))
        .map(|(_, role)| role)
        .collect();
    if roles.is_empty() || roles.iter().any(|role| role.selector.is_some() || role.names.is_empty()) {
        return None;
    }
    let names: BTreeSet<&String> = roles.iter().flat_map(|role| &role.names).collect_set();
    Some(Nodes { count: names.len(), is_from_spec: true })
}

/// Whether the values forbid that pods of a component share a node. `name` is the component's key in `pod.replicas`.
fn is_required(values: &Values, name: &str) -> bool {
    let kinds: Path = ["pod", "affinity", "anti", "type"].into_iter().collect();
    let kinds = get(values, &kinds);
    let own = kinds.and_then(|kinds| kinds.get(name).or_else(|| kinds.get("default")));
    own.and_then(Value::as_str) == Some(REQUIRED)
}
