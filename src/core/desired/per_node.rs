//! The last layer: values for some nodes alone (`spec.nodes.overrides`), in the form that each chart understands.
//!
//! Entries for the same nodes are merged in the order of the spec, the later wins. On a node that several entries fit a chart of the form `conf` runs
//! the pods of one, the last of those by label or the one by name, and a chart of the form `root` none at all. Upstream's two forms are described at [`crate::catalog::Form`].

mod check;
mod forms;
mod split;
mod target;

use std::collections::BTreeMap;

pub(super) use check::check;
pub use split::Split;
pub(super) use split::split;
pub(super) use target::is_subdomain;
pub use target::{Target, target};

use super::Finding;
use super::layers::in_clear;
use crate::api::{NodeOverride, NodeValues, OpenStackDeploymentSpec};
use crate::catalog::{Catalog, DaemonSet, Level, Release};
use osdpl_values::expr::Scope;
use osdpl_values::{Layer, Origin, Path, Values, leaves};

/// The field that all of it comes from.
pub const FIELD: &str = "spec.nodes.overrides";

/// What one entry says of one `DaemonSet`.
struct Part<'a> {
    /// Where the values stand.
    place: String,
    target: Target,
    values: &'a Values,
}

/// The layer of one release, and what is wrong with it; `below` is what the other layers come to.
pub(super) fn layer(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    name: &str,
    scope: &Scope,
    below: impl FnOnce() -> Values,
    findings: &mut Vec<Finding>,
) -> Option<Layer> {
    let (_, release) = catalog.release(name)?;
    let mut parts: BTreeMap<&str, Vec<Part<'_>>> = BTreeMap::new();
    for (index, entry) in spec.nodes.overrides.iter().enumerate() {
        let (Ok(target), Some(given)) = (target(entry), entry.releases.get(name)) else { continue };
        let place = format!("{FIELD}[{index}].releases.{name}");
        let Some(daemonsets) = chosen(release, given, scope, &place, findings) else { continue };
        let place = format!("{place}.values");
        for daemonset in daemonsets {
            let own = &release.daemonsets[daemonset];
            let problems = forms::problems(&release.chart, daemonset, own, &target, &given.values);
            findings.extend(problems.into_iter().map(|(below, message)| refused(below.place(&place, index), message)));
            let part = Part { place: place.clone(), target: target.clone(), values: &given.values };
            parts.entry(daemonset).or_default().push(part);
        }
    }
    if parts.is_empty() {
        return None;
    }
    let below = below();
    let mut layer = Layer::new(Origin::Field(FIELD.into()), Values::new());
    for (daemonset, parts) in &parts {
        conflicts(parts, findings);
        let form = release.daemonsets[*daemonset].form;
        let key = format!("{}_{daemonset}", release.chart);
        let at = forms::place(form, &key);
        if osdpl_values::get(&below, &at).is_some() {
            let message = format!(
                "takes the place of {at}, which other values of {name} set: charts read one list of nodes; move those here"
            );
            findings.push(Finding { level: Level::Warning, field: FIELD.into(), message });
        }
        osdpl_values::set(&mut layer.values, &at, forms::written(form, parts));
        // The values stand in a list there, into which no path goes.
        let hides = parts.iter().any(|part| !in_clear(part.values).is_empty());
        layer.secret.extend(hides.then_some(at));
    }
    (!layer.is_empty()).then_some(layer)
}

/// What the entries for some nodes say of a release, each as it is written, as a layer of its own over all others.
pub fn by_node<'a>(spec: &'a OpenStackDeploymentSpec, name: &str) -> Vec<(&'a NodeOverride, Layer)> {
    let entries = spec.nodes.overrides.iter().enumerate();
    let said = entries.filter_map(|(index, entry)| {
        let values = entry.releases.get(name)?.values.clone();
        let mut layer = Layer::new(Origin::Field(format!("{FIELD}[{index}].releases.{name}.values")), values);
        layer.secret = in_clear(&layer.values);
        Some((entry, layer))
    });
    said.collect()
}

fn refused(field: String, message: String) -> Finding {
    Finding { level: Level::Error, field, message }
}

/// The `DaemonSets` that an entry is for; `None` where that can't be said.
fn chosen<'a>(
    release: &'a Release,
    given: &'a NodeValues,
    scope: &Scope,
    place: &str,
    findings: &mut Vec<Finding>,
) -> Option<Vec<&'a str>> {
    if !given.daemonsets.is_empty() {
        // Names that nothing has were refused before.
        let known = given.daemonsets.iter().map(String::as_str).filter(|name| release.daemonsets.contains_key(*name));
        return Some(known.collect());
    }
    let runs = |own: &DaemonSet, findings: &mut _| super::select::holds(own.when.as_ref(), scope, place, findings);
    let all = release.daemonsets.iter().filter(|(_, own)| runs(own, findings)).map(|(name, _)| name.as_str());
    let all: Vec<_> = all.collect();
    if all.len() < 2 {
        return Some(all);
    }
    let message =
        format!("says not for which DaemonSet; name them, of {}, since each one named is restarted", all.join(", "));
    findings.push(refused(format!("{place}.daemonsets"), message));
    None
}

/// A warning for each value that two entries give the same nodes differently.
fn conflicts(parts: &[Part<'_>], findings: &mut Vec<Finding>) {
    for (index, part) in parts.iter().enumerate() {
        for (path, value) in leaves(part.values) {
            let other = parts[..index].iter().rev().filter(|other| other.target.meets(&part.target));
            let mut other = other.filter_map(|other| Some((other, osdpl_values::get(other.values, &path)?)));
            let Some((other, before)) = other.next().filter(|(_, before)| *before != value) else { continue };
            let is_clear =
                |part: &Part<'_>| super::layers::in_clear(part.values).iter().any(|clear| clear.covers(&path));
            let (value, before) = if is_clear(part) || is_clear(other) {
                ("one thing".to_owned(), "another".to_owned())
            } else {
                (value.to_string(), before.to_string())
            };
            let message = format!(
                "{path} is {value} here and {before} at {} for the same nodes; the later one holds, take one of them out",
                other.place
            );
            let finding = Finding { level: Level::Warning, field: part.place.clone(), message };
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
}

/// Where a problem of an entry is.
enum Place {
    /// A value.
    Value(Path),
    /// The nodes.
    Nodes,
}

impl Place {
    fn place(&self, values: &str, index: usize) -> String {
        match self {
            Self::Value(path) => format!("{values}.{path}"),
            Self::Nodes => format!("{FIELD}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests;
