//! Builds the last layer of a release: the values for single nodes or groups of nodes (`spec.nodes.overrides`), in the
//! form that the release's chart understands.
//!
//! If several entries select nodes by the same label value or the same node name, osdpl merges their values in the
//! order of the spec: later entries override earlier ones. If entries with different labels or names select the same
//! node, the result depends on the chart's form ([`crate::catalog::Form`]). With the form `conf`, the node gets the
//! values of only one entry: the entry that names the node or, without such an entry, the last entry that selects the
//! node by label. With the form `root`, the chart runs no pod on the node.

mod check;
mod forms;
mod split;
mod target;

use std::collections::BTreeMap;

use serde_json::Value;

pub(super) use check::check;
pub use split::NodeSplit;
pub(super) use split::split;
pub use target::{NodeTarget, parse_target};

use super::Finding;
use super::passwords::plain_text_secret_paths;
use crate::api::{NodeOverride, NodeValues, OpenStackDeploymentSpec};
use crate::catalog::{Catalog, Level, Release};
use osdpl_values::expr::Scope;
use osdpl_values::{Layer, Origin, Path, Values, leaves};

/// The field of the spec in which the user sets values for some nodes.
pub const OVERRIDES_FIELD: &str = "spec.nodes.overrides";

/// The values of one entry of `spec.nodes.overrides` for one `DaemonSet`.
struct EntryValues<'a> {
    /// The field of the spec that contains the values. Findings about the values name this field.
    field: String,
    target: NodeTarget,
    values: &'a Values,
}

/// Builds the layer with the values of `spec.nodes.overrides` for one release, and adds errors and warnings about the
/// entries of `spec.nodes.overrides`.
///
/// `below` returns the merged values of all layers below the new layer. The result is `None` if no valid entry sets
/// values of the release.
pub(super) fn layer(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    name: &str,
    scope: &Scope,
    below: impl FnOnce() -> Values,
    findings: &mut Vec<Finding>,
) -> Option<Layer> {
    let (service, release) = catalog.release(name)?;
    let location = catalog.service_location(service);
    let mut parts: BTreeMap<&str, Vec<EntryValues<'_>>> = BTreeMap::new();
    for (index, entry) in spec.nodes.overrides.iter().enumerate() {
        let (Ok(target), Some(given)) = (parse_target(entry), entry.releases.get(name)) else { continue };
        let field = format!("{OVERRIDES_FIELD}[{index}].releases.{name}");
        let Some(daemonsets) = select_daemonsets(release, given, scope, location, &field, findings) else { continue };
        let field = format!("{field}.values");
        for daemonset in daemonsets {
            let own = &release.daemonsets[daemonset];
            let problems = forms::problems(&release.chart, daemonset, own, &target, &given.values);
            findings
                .extend(problems.into_iter().map(|(subject, message)| refused(subject.field(&field, index), message)));
            let part = EntryValues { field: field.clone(), target: target.clone(), values: &given.values };
            parts.entry(daemonset).or_default().push(part);
        }
    }
    if parts.is_empty() {
        return None;
    }
    let below = below();
    let mut layer = Layer::new(Origin::Field(OVERRIDES_FIELD.into()), Values::new());
    for (daemonset, parts) in &parts {
        warn_conflicts(parts, findings);
        let form = release.daemonsets[*daemonset].form;
        let key = format!("{}_{daemonset}", release.chart);
        let path = forms::values_path(form, &key);
        let values = forms::render(form, parts);
        if osdpl_values::get(&below, &path).is_some_and(|below| replaces(below, &values)) {
            let message = format!(
                "sets {path}, which other values of {name} also set: those values can lose their effect, because osdpl replaces lists as a whole; move those values to this field"
            );
            findings.push(Finding::new(Level::Warning, OVERRIDES_FIELD, message));
        }
        osdpl_values::set(&mut layer.values, &path, values);
        // The layer contains the values in a list or map, in the format that the chart reads. A path can't name an item
        // of a list. So if one of the values is secret, mark the whole list or map as secret.
        let hides = parts.iter().any(|part| !plain_text_secret_paths(part.values).is_empty());
        layer.secret.extend(hides.then_some(path));
    }
    (!layer.is_empty()).then_some(layer)
}

/// Returns the entries of `spec.nodes.overrides` that set values of a release, each with a layer that contains the
/// values. These layers override all other layers of the release.
pub fn list_node_layers<'a>(spec: &'a OpenStackDeploymentSpec, name: &str) -> Vec<(&'a NodeOverride, Layer)> {
    let entries = spec.nodes.overrides.iter().enumerate();
    let layers = entries.filter_map(|(index, entry)| {
        let values = entry.releases.get(name)?.values.clone();
        let mut layer = Layer::new(Origin::Field(format!("{OVERRIDES_FIELD}[{index}].releases.{name}.values")), values);
        layer.secret = plain_text_secret_paths(&layer.values);
        Some((entry, layer))
    });
    layers.collect()
}

/// Whether a merge of the two values ([`osdpl_values::merge`]) replaces a list or a scalar in `below` by another value.
fn replaces(below: &Value, above: &Value) -> bool {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            above.iter().any(|(key, above)| below.get(key).is_some_and(|below| replaces(below, above)))
        }
        (below, above) => below != above,
    }
}

fn refused(field: String, message: String) -> Finding {
    Finding::new(Level::Error, field, message)
}

/// Returns the names of the `DaemonSets` to which an entry of `spec.nodes.overrides` applies.
///
/// If the entry names no `DaemonSet`, the function considers the `DaemonSets` that the chart creates with this spec. If
/// there is at most one, the entry applies to it. If there are several, the function adds an error and returns `None`.
///
/// If the chart creates none of the `DaemonSets`, the function adds a warning.
fn select_daemonsets<'a>(
    release: &'a Release,
    given: &NodeValues,
    scope: &Scope,
    location: &str,
    field: &str,
    findings: &mut Vec<Finding>,
) -> Option<Vec<&'a str>> {
    // The function `check` has already reported the names that are not `DaemonSets` of the release.
    let is_meant = |name: &String| given.daemonsets.is_empty() || given.daemonsets.contains(name);
    let (mut meant, mut created, errors_before) = (Vec::new(), Vec::new(), findings.len());
    for (name, own) in release.daemonsets.iter().filter(|(name, _)| is_meant(name)) {
        meant.push(name.as_str());
        if super::conditions::holds(own.when.as_ref(), scope, location, field, findings) {
            created.push(name.as_str());
        }
    }
    // If osdpl can't evaluate a condition, it does not know which `DaemonSets` the chart creates.
    if created.is_empty() && !meant.is_empty() && findings.len() == errors_before {
        let message = format!(
            "has no effect, because chart {} does not create {} with the present features; remove the entry, or change the features on which these DaemonSets depend",
            release.chart,
            meant.join(", ")
        );
        findings.push(Finding::new(Level::Warning, field, message));
    }
    if !given.daemonsets.is_empty() {
        return Some(meant);
    }
    if created.len() < 2 {
        return Some(created);
    }
    let message = format!(
        "names no DaemonSet; name each DaemonSet that gets the values ({}); the pods of these DaemonSets restart",
        created.join(", ")
    );
    findings.push(refused(format!("{field}.daemonsets"), message));
    None
}

/// Warns about each path at which two entries of `spec.nodes.overrides` set different values for the same nodes. The
/// warning does not show secrets.
fn warn_conflicts(parts: &[EntryValues<'_>], findings: &mut Vec<Finding>) {
    for (index, part) in parts.iter().enumerate() {
        for (path, value) in leaves(part.values) {
            let other = parts[..index].iter().rev().filter(|other| other.target.overlaps(&part.target));
            let mut other = other.filter_map(|other| Some((other, osdpl_values::get(other.values, &path)?)));
            let Some((other, before)) = other.next().filter(|(_, before)| *before != value) else { continue };
            let is_clear =
                |part: &EntryValues<'_>| plain_text_secret_paths(part.values).iter().any(|clear| clear.covers(&path));
            let (value, before) = if is_clear(part) || is_clear(other) {
                ("one secret".to_owned(), "another".to_owned())
            } else {
                (value.to_string(), before.to_string())
            };
            let message = format!(
                "{path} is {value} here and {before} at {} for the same nodes; the later value applies; remove one of the two values",
                other.field
            );
            let finding = Finding::new(Level::Warning, part.field.clone(), message);
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
}

/// The subject of a finding about an entry of `spec.nodes.overrides`.
enum Subject {
    /// The value at this path in the entry's values.
    Value(Path),
    /// The nodes that the entry selects.
    Nodes,
}

impl Subject {
    fn field(&self, values: &str, index: usize) -> String {
        match self {
            Self::Value(path) => format!("{values}.{path}"),
            Self::Nodes => format!("{OVERRIDES_FIELD}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests;
