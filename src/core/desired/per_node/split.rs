//! Determines how a chart splits the `DaemonSets` of a release by node.
//!
//! If the pods of a component have different values on some nodes, the chart replaces the component's `DaemonSet` with
//! several `DaemonSets`, each for some of the nodes. If this split changes, the `DaemonSets` get other names or node
//! selectors, so Kubernetes recreates all their pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::forms;
use crate::catalog::{Component, Form, Release};
use crate::release::NO_SPLIT;
use osdpl_values::{CollectSorted, Values, canonical, digest, get};

/// The way in which a chart splits the `DaemonSets` of a release by node, according to the values of the release.
///
/// A chart splits a `DaemonSet` if it creates several `DaemonSets` instead of one, because some values differ between
/// nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSplit {
    /// The digest of the labels and host names by which the chart splits the `DaemonSets`, as 16 hexadecimal digits;
    /// [`NO_SPLIT`] if the chart splits no `DaemonSet`.
    pub digest: String,
    /// The components whose `DaemonSet` the chart splits.
    pub components: BTreeSet<Component>,
    /// The name of the `DaemonSet` that the chart creates for the nodes that no entry of `spec.nodes.overrides`
    /// selects, by component.
    pub unsplit_names: BTreeMap<Component, String>,
}

/// Returns how the chart splits the `DaemonSets` of a release that has the merged values `values`; `None` if the chart
/// can split none of the release's `DaemonSets`.
pub(in crate::desired) fn split(release: &Release, values: &Values) -> Option<NodeSplit> {
    let mut split = NodeSplit { digest: NO_SPLIT.to_owned(), ..NodeSplit::default() };
    let mut all = Vec::new();
    for (name, own) in &release.daemonsets {
        let key = format!("{}_{name}", release.chart);
        let unsplit_name = format!("{}-default", key.replace('_', "-"));
        split.unsplit_names.insert(own.component.clone(), unsplit_name);
        let entries =
            get(values, &forms::values_path(own.form, &key)).map(|value| nodes(own.form, value)).unwrap_or_default();
        if !entries.is_empty() {
            split.components.insert(own.component.clone());
            all.push(json!([name, entries]));
        }
    }
    if !all.is_empty() {
        split.digest = digest([canonical(&Value::Array(all)).as_str()]);
        split.digest.truncate(16);
    }
    (!split.unsplit_names.is_empty()).then_some(split)
}

/// Returns the labels and host names by which a chart splits one `DaemonSet`, in the order in which the chart uses
/// them.
///
/// `value` is the part of the release's values at [`forms::values_path`]. Besides labels and host names, it contains
/// helm values for the nodes. These do not influence the split, so the result leaves them out.
fn nodes(form: Form, value: &Value) -> Vec<Value> {
    match form {
        Form::Conf => {
            let each = |list: &str, field: &str| -> Vec<Value> {
                value[list].as_array().into_iter().flatten().map(|entry| entry[field].clone()).collect()
            };
            each("labels", "label").into_iter().chain(each("hosts", "name")).collect()
        }
        Form::Root => {
            let keys: BTreeSet<&String> =
                value["labels"].as_object().into_iter().flatten().map(|(key, _)| key).collect_set();
            keys.into_iter().map(|key| key.as_str().into()).collect()
        }
    }
}
