//! Renders values for some nodes in the two forms (`conf` and `root`) that upstream charts accept.
//!
//! The module also finds the values and nodes that these forms can't express.

use serde_json::{Map, Value, json};

use super::{EntryValues, NodeTarget, Subject, is_subdomain};
use crate::catalog::{DaemonSet, Form};
use osdpl_values::{Path, Values, leaves, merge};

/// The node label with the host name, by which charts of the form `root` select a node that an entry names.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The number of characters of the host name that charts put into the name of a `DaemonSet` (helm-toolkit,
/// `daemonset_overrides`).
const HOST_CHARACTERS: usize = 20;

/// Returns the path at which a chart expects the values by node of one `DaemonSet`. `key` is the `DaemonSet`'s name in
/// the values of the chart, such as `neutron_ovs-agent`.
pub(super) fn values_path(form: Form, key: &str) -> Path {
    match form {
        Form::Conf => ["conf", "overrides", key].into_iter().collect(),
        Form::Root => ["overrides", key].into_iter().collect(),
    }
}

/// Renders the entries for one `DaemonSet` as the value that its chart expects at [`values_path`].
pub(super) fn render(form: Form, parts: &[EntryValues<'_>]) -> Value {
    match form {
        Form::Conf => conf(parts),
        Form::Root => root(parts),
    }
}

/// Renders the form `conf`: a list of labels and a list of hosts, each item with its helm values. An entry that selects
/// several values of one label becomes one item.
fn conf(parts: &[EntryValues<'_>]) -> Value {
    let mut labels: Vec<(Value, Values)> = Vec::new();
    let mut hosts: Vec<(Value, Values)> = Vec::new();
    for part in parts {
        let conf = part.values.get("conf").and_then(Value::as_object).cloned().unwrap_or_default();
        match &part.target {
            NodeTarget::Label(key, values) => add(&mut labels, json!({"key": key, "values": values}), &conf),
            NodeTarget::Hosts(names) => names.iter().for_each(|name| add(&mut hosts, json!(name), &conf)),
        }
    }
    let list = |field: &str, entries: Vec<(Value, Values)>| -> Vec<Value> {
        entries.into_iter().map(|(nodes, conf)| json!({field: nodes, "conf": conf})).collect()
    };
    let lists = [("labels", list("label", labels)), ("hosts", list("name", hosts))];
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    Value::Object(lists.map(|(name, list)| (name.to_owned(), Value::Array(list))).collect())
}

/// Renders the form `root`: a map with a key `<label>::<value>` for each value of a label.
fn root(parts: &[EntryValues<'_>]) -> Value {
    let mut entries: Vec<(Value, Values)> = Vec::new();
    for part in parts {
        let (key, values) = match &part.target {
            NodeTarget::Label(key, values) => (key.as_str(), values),
            NodeTarget::Hosts(names) => (HOSTNAME, names),
        };
        for value in values {
            add(&mut entries, format!("{key}::{value}").into(), part.values);
        }
    }
    let entry =
        |(nodes, values): (Value, Values)| (nodes.as_str().unwrap_or_default().to_owned(), json!({ "values": values }));
    let labels: Map<String, Value> = entries.into_iter().map(entry).collect();
    json!({ "labels": labels })
}

/// Merges values into the item in `entries` that has the same `nodes`, and moves this item to the end.
///
/// If several items match a node, charts use the last one.
fn add(entries: &mut Vec<(Value, Values)>, nodes: Value, values: &Values) {
    let known = entries.iter().position(|(known, _)| *known == nodes);
    let mut merged = known.map(|index| entries.remove(index).1).unwrap_or_default();
    merge(&mut merged, values.clone());
    entries.push((nodes, merged));
}

/// Returns an error message for each value and node of an entry that the chart's form can't express.
pub(super) fn problems(
    chart: &str,
    name: &str,
    own: &DaemonSet,
    target: &NodeTarget,
    values: &Values,
) -> Vec<(Subject, String)> {
    let mut problems = Vec::new();
    for (path, _) in leaves(values) {
        let first = path.keys().first().map(String::as_str).unwrap_or_default();
        let second = path.keys().get(1).map(String::as_str);
        if first == "overrides" || (first == "conf" && second == Some("overrides")) {
            let message =
                "is reserved: osdpl writes the values for single nodes there; set each value at its usual path instead"
                    .to_owned();
            problems.push((Subject::Value(path), message));
        } else if own.form == Form::Conf && (first != "conf" || second.is_none()) {
            let why = format!("lets only the values below conf differ between the pods of {name}");
            problems.push((Subject::Value(path), shared(chart, &why)));
        } else if own.shared.iter().any(|shared| shared.covers(&path) || path.covers(shared)) {
            let why = "puts this value into scripts or pod templates that all nodes share";
            problems.push((Subject::Value(path), shared(chart, why)));
        }
    }
    if own.form == Form::Conf {
        problems.extend(bad_names(chart, name, target));
    }
    problems
}

fn shared(chart: &str, why: &str) -> String {
    format!(
        "can't differ by node: chart {chart} {why}; set the value for all nodes in spec.services, or remove the value"
    )
}

/// Returns an error message for a label or host name from which the chart can't build a valid name of a `DaemonSet`.
///
/// For each label and host of the form `conf`, the chart creates a separate `DaemonSet`. Its name contains the label's
/// key or the beginning of the host name.
fn bad_names(chart: &str, name: &str, target: &NodeTarget) -> Vec<(Subject, String)> {
    let fits = |part: &str| is_subdomain(&format!("{chart}-{name}-{part}-00000000").to_lowercase().replace('_', "-"));
    match target {
        NodeTarget::Label(key, _) if !fits(key) => {
            let message = format!(
                "selects by label {key}, from which chart {chart} can't build the name of a DaemonSet; add a label without a slash to these nodes with a role (spec.nodes.roles), and select by that label"
            );
            vec![(Subject::Nodes, message)]
        }
        NodeTarget::Label(..) => Vec::new(),
        NodeTarget::Hosts(names) => {
            let short = |host: &String| host.chars().take(HOST_CHARACTERS).collect::<String>();
            let bad = names.iter().filter(|host| is_subdomain(host) && !fits(&short(host)));
            let message = |host: &String| {
                format!(
                    "names node {host}, from whose first {HOST_CHARACTERS} characters chart {chart} can't build the name of a DaemonSet; add a label to the node with a role (spec.nodes.roles), and select by that label"
                )
            };
            bad.map(|host| (Subject::Nodes, message(host))).collect()
        }
    }
}
