//! Upstream's two forms of values for some nodes alone, and what they can't say.

use serde_json::{Map, Value, json};

use super::{Part, Place, Target, is_subdomain};
use crate::catalog::{DaemonSet, Form};
use osdpl_values::{Path, Values, leaves, merge};

/// The label by which the API server's nodes have their host's name.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// How much of a host's name stands in a `DaemonSet`'s (helm-toolkit, `daemonset_overrides`).
const HOST_CHARACTERS: usize = 20;

/// Where a chart looks for the values of one `DaemonSet`.
pub(super) fn place(form: Form, key: &str) -> Path {
    match form {
        Form::Conf => ["conf", "overrides", key].into_iter().collect(),
        Form::Root => ["overrides", key].into_iter().collect(),
    }
}

/// What the chart finds there.
pub(super) fn written(form: Form, parts: &[Part<'_>]) -> Value {
    match form {
        Form::Conf => conf(parts),
        Form::Root => root(parts),
    }
}

/// A list in which the last label counts; a label of several values is one entry.
fn conf(parts: &[Part<'_>]) -> Value {
    let mut labels: Vec<(Value, Values)> = Vec::new();
    let mut hosts: Vec<(Value, Values)> = Vec::new();
    for part in parts {
        let conf = part.values.get("conf").and_then(Value::as_object).cloned().unwrap_or_default();
        match &part.target {
            Target::Label(key, values) => add(&mut labels, json!({"key": key, "values": values}), &conf),
            Target::Hosts(names) => names.iter().for_each(|name| add(&mut hosts, json!(name), &conf)),
        }
    }
    let list = |field: &str, entries: Vec<(Value, Values)>| -> Vec<Value> {
        entries.into_iter().map(|(of, conf)| json!({field: of, "conf": conf})).collect()
    };
    let lists = [("labels", list("label", labels)), ("hosts", list("name", hosts))];
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    Value::Object(lists.map(|(name, list)| (name.to_owned(), Value::Array(list))).collect())
}

/// A map by `key::value`, one entry for each value.
fn root(parts: &[Part<'_>]) -> Value {
    let mut entries: Vec<(Value, Values)> = Vec::new();
    for part in parts {
        let (key, values) = match &part.target {
            Target::Label(key, values) => (key.as_str(), values),
            Target::Hosts(names) => (HOSTNAME, names),
        };
        for value in values {
            add(&mut entries, format!("{key}::{value}").into(), part.values);
        }
    }
    let entry =
        |(of, values): (Value, Values)| (of.as_str().unwrap_or_default().to_owned(), json!({ "values": values }));
    let labels: Map<String, Value> = entries.into_iter().map(entry).collect();
    json!({ "labels": labels })
}

/// Merges into the entry for the same nodes, which moves to the end: of a node's labels the last one counts.
fn add(entries: &mut Vec<(Value, Values)>, of: Value, values: &Values) {
    let known = entries.iter().position(|(known, _)| *known == of);
    let mut merged = known.map(|at| entries.remove(at).1).unwrap_or_default();
    merge(&mut merged, values.clone());
    entries.push((of, merged));
}

/// What this form can't say of these nodes and values.
pub(super) fn problems(
    chart: &str,
    name: &str,
    own: &DaemonSet,
    target: &Target,
    values: &Values,
) -> Vec<(Place, String)> {
    let mut problems = Vec::new();
    for (path, _) in leaves(values) {
        let first = path.keys().first().map(String::as_str).unwrap_or_default();
        let second = path.keys().get(1).map(String::as_str);
        if first == "overrides" || (first == "conf" && second == Some("overrides")) {
            let message = "is the chart's own place for what is asked for here; write the values themselves".to_owned();
            problems.push((Place::Value(path), message));
        } else if own.form == Form::Conf && (first != "conf" || second.is_none()) {
            problems.push((Place::Value(path), shared(chart, name, "what is below conf alone")));
        } else if own.shared.iter().any(|shared| shared.covers(&path) || path.covers(shared)) {
            problems.push((
                Place::Value(path),
                shared(chart, name, "configuration files, and this goes into scripts and pods that they share"),
            ));
        }
    }
    if own.form == Form::Conf {
        problems.extend(bad_names(chart, name, target));
    }
    problems
}

fn shared(chart: &str, name: &str, what: &str) -> String {
    format!(
        "can't differ by node: chart {chart} gives the pods of {name} on some nodes {what}; set it for all nodes in spec.services, or take it out"
    )
}

/// Labels and hosts of which the chart can't make a `DaemonSet`'s name.
fn bad_names(chart: &str, name: &str, target: &Target) -> Vec<(Place, String)> {
    let fits = |part: &str| is_subdomain(&format!("{chart}-{name}-{part}-00000000").to_lowercase().replace('_', "-"));
    match target {
        Target::Label(key, _) if !fits(key) => {
            let message = format!(
                "selects by label {key}, of which chart {chart} can't make a DaemonSet's name; give those nodes one without a slash by a role (spec.nodes.roles) and select by it"
            );
            vec![(Place::Nodes, message)]
        }
        Target::Label(..) => Vec::new(),
        Target::Hosts(names) => {
            let short = |host: &String| host.chars().take(HOST_CHARACTERS).collect::<String>();
            let bad = names.iter().filter(|host| is_subdomain(host) && !fits(&short(host)));
            let message = |host: &String| {
                format!(
                    "names node {host}, of whose first {HOST_CHARACTERS} characters chart {chart} can't make a DaemonSet's name; give it a label by a role (spec.nodes.roles) and select by it"
                )
            };
            bad.map(|host| (Place::Nodes, message(host))).collect()
        }
    }
}
