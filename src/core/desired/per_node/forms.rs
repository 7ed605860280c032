//! Renders the values that `spec.nodes.overrides` sets for some nodes, in the form that the chart accepts. Charts of
//! the form `conf` read these values below `conf.overrides`, and charts of the form `root` read them below `overrides`.
//!
//! The module also finds the values and the node selections that users can write in the spec, but that the chart's form
//! can't express.

use serde_json::{Map, Value, json};

use super::super::selectors::is_subdomain;
use super::{EntryValues, NodeTarget, Subject};
use crate::catalog::{DaemonSet, Form};
use osdpl_values::{Path, Values, leaves, merge};

/// The node label that contains the host name. Charts of the form `root` select nodes only by labels. So if an entry of
/// `spec.nodes.overrides` names a node, osdpl selects the node by this label.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The maximum number of characters of a host name that charts write into the name of a `DaemonSet`. Charts cut off the
/// rest (helm-toolkit, `daemonset_overrides`).
const HOST_CHARACTERS: usize = 20;

/// Returns the path in a chart's values at which the chart expects the values that differ by node for one `DaemonSet`.
///
/// `key` is the name of the `DaemonSet` in the chart's values, such as `neutron_ovs-agent`.
pub(super) fn values_path(form: Form, key: &str) -> Path {
    match form {
        Form::Conf => ["conf", "overrides", key].into_iter().collect(),
        Form::Root => ["overrides", key].into_iter().collect(),
    }
}

/// Renders the values that all entries of `spec.nodes.overrides` set for one `DaemonSet`, as the chart expects them at
/// [`values_path`].
pub(super) fn render(form: Form, parts: &[EntryValues<'_>]) -> Value {
    match form {
        Form::Conf => conf(parts),
        Form::Root => root(parts),
    }
}

/// Renders entries of `spec.nodes.overrides` in the form `conf`: as the lists `labels` and `hosts`. An item of `labels`
/// selects nodes by one or several values of a label, and an item of `hosts` selects one host. Each item contains the
/// helm values for these nodes.
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

/// Renders entries of `spec.nodes.overrides` in the form `root`: as a map with a key `<label>::<value>` for each
/// selected value of a label.
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

/// Merges `values` into the item of `entries` that selects `nodes`, and moves this item to the end. If there is no such
/// item, appends one.
///
/// The order matters for the form `conf`: if several items match a node, the chart uses the last one.
fn add(entries: &mut Vec<(Value, Values)>, nodes: Value, values: &Values) {
    let known = entries.iter().position(|(known, _)| *known == nodes);
    let mut merged = known.map(|index| entries.remove(index).1).unwrap_or_default();
    merge(&mut merged, values.clone());
    entries.push((nodes, merged));
}

/// Returns error messages about an entry of `spec.nodes.overrides`: one for each value, node label and node name that
/// the chart's form ([`Form`]) can't express.
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

/// Returns an error message for each label or host name from which the chart can't build a valid name of a `DaemonSet`.
///
/// In the form `conf`, the chart creates a separate `DaemonSet` for each label and for each host. The name of such a
/// `DaemonSet` contains the key of the label or the beginning of the host name.
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
