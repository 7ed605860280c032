//! Keys that a chart's own values do not have: helm passes them on and nothing reads them, so that a wrong letter is swallowed in silence.
//!
//! A warning and no more: templates may read keys that their chart sets no default for, and some maps are the user's to fill.

use serde_json::Value;

use super::Finding;
use crate::catalog::{Catalog, KeyTree, KeyType, Level, did_you_mean};
use crate::values::{Layer, Origin, Path, Values};

/// How many keys one warning names.
const NAMED: usize = 5;

/// Keys that charts read without having them: helm's own, the library's, and helm-toolkit's overrides by node (`conf.overrides`).
const READ_BY_ALL: [&str; 4] = ["global", "helm-toolkit", "extraObjects", "overrides"];

/// Maps whose entries are the user's below this many keys: sections of configuration files, endpoints and who authenticates at them.
const FILLED_BY_USERS: [(&str, usize); 4] = [("conf", 2), ("endpoints", 2), ("network_policy", 1), ("dependencies", 1)];

/// Adds a warning for each layer of the user's that sets what no chart knows that the layer is for; one, where it is for several charts.
pub(super) fn tell(layers: &[Layer], chart: &str, catalog: &Catalog, findings: &mut Vec<Finding>) {
    let Some(tree) = catalog.keys().get(chart) else { return };
    for finding in layers.iter().filter_map(|layer| warning(layer, chart, tree, catalog)) {
        if !findings.iter().any(|told| told.field == finding.field) {
            findings.push(finding);
        }
    }
}

fn warning(layer: &Layer, chart: &str, tree: &KeyTree, catalog: &Catalog) -> Option<Finding> {
    let (place, unknown) = unknown(layer, tree, catalog)?;
    (!unknown.is_empty()).then(|| finding(place, chart, &unknown))
}

/// Every unknown key of a user's layer as a warning of its own, by the path below the layer.
pub fn unknown_keys(layer: &Layer, chart: &str, catalog: &Catalog) -> Vec<(Path, Finding)> {
    let found = catalog.keys().get(chart).and_then(|tree| unknown(layer, tree, catalog));
    let (place, unknown) = found.unwrap_or_default();
    let own = |key: (Vec<String>, String)| (key.0.iter().cloned().collect(), finding(place.clone(), chart, &[key]));
    unknown.into_iter().map(own).collect()
}

/// Whether a finding is about unknown keys.
pub fn is_of_unknown_keys(finding: &Finding) -> bool {
    finding.message.contains(NOTHING_READS_IT)
}

/// What every warning about unknown keys says.
const NOTHING_READS_IT: &str = "helm is given what is written here, but most likely nothing reads it";

/// Keys with the nearest name of each, as ` did you mean`.
type Unknown = Vec<(Vec<String>, String)>;

/// Where a user's layer was written, and its unknown keys.
fn unknown(layer: &Layer, tree: &KeyTree, catalog: &Catalog) -> Option<(String, Unknown)> {
    let place = match &layer.origin {
        Origin::Field(field) => field.clone(),
        Origin::Object(object) => object.clone(),
        Origin::File { .. } | Origin::Derived(_) => return None,
    };
    let mut unknown = Vec::new();
    walk(&layer.values, tree, &mut Vec::new(), &mut unknown);
    for path in layer.unset.iter().filter(|path| !knows(tree, path.keys())) {
        unknown.push((path.keys().to_vec(), String::new()));
    }
    if place.starts_with("spec.common") {
        unknown.retain(|(path, _)| !catalog.keys().any(|other| knows(other, path)));
    }
    Some((place, unknown))
}

/// Whether a chart's own values have a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// With a default of this type, or a map.
    Has(KeyType),
    /// Among those that are the user's to fill.
    Free,
    /// Not at all; with the nearest name, if one is near.
    No(String),
}

/// Whether a chart with these keys has one at `path`.
pub fn known(tree: &KeyTree, path: &Path) -> Known {
    match tree.find(path.keys()) {
        Some(KeyTree::Leaf(kind)) => Known::Has(*kind),
        Some(KeyTree::Map(_)) => Known::Has(KeyType::Map),
        None if knows(tree, path.keys()) => Known::Free,
        None => {
            let missing =
                (0..path.keys().len()).find(|at| tree.find(&path.keys()[..=*at]).is_none()).unwrap_or_default();
            let beside = match tree.find(&path.keys()[..missing]) {
                Some(KeyTree::Map(known)) => &known[..],
                _ => &[],
            };
            Known::No(did_you_mean(&path.keys()[missing], beside.iter().map(|(key, _)| key.as_ref())))
        }
    }
}

fn walk(values: &Values, tree: &KeyTree, path: &mut Vec<String>, unknown: &mut Vec<(Vec<String>, String)>) {
    let KeyTree::Map(known) = tree else { return };
    if is_filled_by_users(known, path) {
        return;
    }
    for (key, value) in values {
        path.push(key.clone());
        match (tree.find(std::slice::from_ref(key)), value) {
            (Some(below), Value::Object(values)) => walk(values, below, path, unknown),
            (Some(_), _) => {}
            (None, _) if READ_BY_ALL.contains(&key.as_str()) => {}
            (None, _) => unknown.push((path.clone(), did_you_mean(key, known.iter().map(|(key, _)| key.as_ref())))),
        }
        path.pop();
    }
}

/// `default` alone stands for entries by component, of which the chart reads any.
fn is_filled_by_users(known: &[(Box<str>, KeyTree)], path: &[String]) -> bool {
    let by_component = matches!(known, [(only, _)] if only.as_ref() == "default");
    let first = path.first().map(String::as_str);
    by_component || FILLED_BY_USERS.iter().any(|(name, depth)| first == Some(name) && path.len() >= *depth)
}

/// Whether the chart reads this path, or leaves it to the user.
fn knows(tree: &KeyTree, path: &[String]) -> bool {
    let mut tree = tree;
    for (depth, key) in path.iter().enumerate() {
        let KeyTree::Map(known) = tree else { return true };
        if is_filled_by_users(known, &path[..depth]) || READ_BY_ALL.contains(&key.as_str()) {
            return true;
        }
        let Some(below) = tree.find(std::slice::from_ref(key)) else { return false };
        tree = below;
    }
    true
}

fn finding(field: String, chart: &str, unknown: &[(Vec<String>, String)]) -> Finding {
    let names = unknown.iter().take(NAMED).map(|(path, hint)| format!("{}{hint}", path.join(".")));
    let more = unknown.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let names = names.collect::<Vec<_>>().join("; ");
    let message = format!(
        "the values of chart {chart} have no {names}{more}: {NOTHING_READS_IT}; correct the name, or take it out"
    );
    Finding { level: Level::Warning, field, message }
}

#[cfg(test)]
mod tests;
