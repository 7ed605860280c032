//! Checks the entries of `spec.nodes.overrides` for mistakes that osdpl can find from the spec and the catalogue alone,
//! without the merged values of releases and without access to a cluster.

use std::collections::BTreeMap;

use super::{OVERRIDES_FIELD, parse_target, refused};
use crate::api::{NodeOverride, NodeValues, OpenStackDeploymentSpec};
use crate::catalog::{Catalog, Level, Release, did_you_mean};
use crate::desired::Finding;
use crate::observed::ReleaseKey;

/// Checks the entries of `spec.nodes.overrides`, and adds an error or a warning about each problem to `findings`.
///
/// The keys of `wanted` are the names of the releases that are part of the cloud.
pub(in crate::desired) fn check(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    wanted: &BTreeMap<String, ReleaseKey>,
    findings: &mut Vec<Finding>,
) {
    for (index, entry) in spec.nodes.overrides.iter().enumerate() {
        let field = format!("{OVERRIDES_FIELD}[{index}]");
        findings.extend(check_nodes(entry).map(|problem| refused(field.clone(), problem)));
        if entry.releases.is_empty() {
            findings
                .push(refused(field.clone(), "changes nothing; name releases and their values in `releases`".into()));
        }
        for (name, given) in &entry.releases {
            let field = format!("{field}.releases.{name}");
            let Some((_, release)) = catalog.release(name) else {
                let known = catalog.services.values().flat_map(|service| &service.releases);
                let known: Vec<_> =
                    known.filter(|(_, release)| !release.daemonsets.is_empty()).map(|(n, _)| n.as_str()).collect();
                let hint = did_you_mean(name, known.iter().copied());
                findings.push(refused(
                    field,
                    format!("there is no release {name:?}{hint}; choose from {}", known.join(", ")),
                ));
                continue;
            };
            findings.extend(
                check_values(release, given).map(|(below, message)| refused(format!("{field}{below}"), message)),
            );
            if !wanted.contains_key(name) {
                let message = "the release is not part of this cloud, so this entry has no effect; remove the entry";
                findings.push(Finding::new(Level::Warning, field, message));
            }
        }
    }
}

/// Returns the error in the `selector` or the `nodes` of an entry of `spec.nodes.overrides`; `None` if the entry
/// selects nodes in a valid way.
fn check_nodes(entry: &NodeOverride) -> Option<String> {
    match (&entry.selector, entry.nodes.is_empty()) {
        (Some(_), false) | (None, true) => {
            Some("must select nodes: either by `selector` or by `nodes`; set exactly one of them".into())
        }
        (Some(selector), true) => crate::desired::selectors::bad_selector(selector)
            .map(|problem| format!("selector: {problem}"))
            .or_else(|| parse_target(entry).err()),
        (None, false) => entry
            .nodes
            .iter()
            .find(|name| !crate::desired::selectors::is_subdomain(name))
            .map(|name| format!("nodes: {name:?} is not the name of a node; `kubectl get nodes` lists the names")),
    }
}

/// Checks the values that an entry of `spec.nodes.overrides` sets for one release. Returns the first invalid field and
/// an error message; `None` if all fields are valid.
///
/// The path of the field begins at the entry's settings for the release. The path is empty if the error does not
/// concern a single field.
fn check_values(release: &Release, given: &NodeValues) -> Option<(&'static str, String)> {
    let chart = &release.chart;
    if release.daemonsets.is_empty() {
        let message = format!(
            "can't differ by node: chart {chart} makes the same pods for all nodes; set the values for all nodes in spec.services, or remove the values"
        );
        return Some(("", message));
    }
    let unknown = given.daemonsets.iter().find(|name| !release.daemonsets.contains_key(*name));
    if let Some(name) = unknown {
        let hint = did_you_mean(name, release.daemonsets.keys().map(String::as_str));
        let known = release.daemonsets.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        return Some((
            ".daemonsets",
            format!(
                "chart {chart} has no DaemonSet {name:?} whose values can differ by node{hint}; choose from {known}"
            ),
        ));
    }
    given.values.is_empty().then(|| ("", "changes nothing, because `values` is empty; set `values`".to_owned()))
}
