//! Keys that a chart neither has in its own values nor reads in its templates: helm passes them on and nothing reads them, so that a wrong
//! letter is swallowed in silence.
//!
//! A warning and no more: what templates read by names that they make up is not known, and some maps are the user's to fill. In those only what
//! is most likely a slip of the pen is told.

mod near;

use super::{Finding, Layered, other_version};
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::{Catalog, Group, KeyTree, KeyType, Level, did_you_mean};
use osdpl_values::{Layer, Origin, Path, leaves};

/// How many keys one warning names.
const NAMED: usize = 5;

/// Keys that charts read without having them: helm's own, the library's, and helm-toolkit's overrides by node (`conf.overrides`).
const READ_BY_ALL: [&str; 4] = ["global", "helm-toolkit", "extraObjects", "overrides"];

/// Maps whose entries are the user's below this many keys, whatever templates say: sections of configuration files, endpoints and who authenticates
/// at them.
const FILLED_BY_USERS: [(&str, usize); 4] = [("conf", 2), ("endpoints", 2), ("network_policy", 1), ("dependencies", 1)];

/// A warning for each place of the user's that sets what no chart knows that it is for, with the first of the keys; one, where it is for several charts.
/// What [`unknown_keys`] tells each by itself, in short. Of another version of a chart the keys are not known.
pub fn unread(spec: &OpenStackDeploymentSpec, catalog: &Catalog, layered: &Layered) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, layers) in layered.layers.iter().chain(&layered.partial) {
        let release = catalog.release(name).filter(|_| other_version(spec, catalog, name).is_none());
        if let Some((_, release)) = release {
            tell(layers, &release.chart, catalog, &mut findings);
        }
    }
    findings
}

fn tell(layers: &[Layer], chart: &str, catalog: &Catalog, findings: &mut Vec<Finding>) {
    let Some(tree) = catalog.keys().get(chart) else { return };
    for layer in layers {
        let Some(place) = place(layer, catalog) else { continue };
        if !says_to_each(layer) && findings.iter().any(|told| told.field == place) {
            continue;
        }
        let unknown = unknown(layer, tree, catalog, |_| false);
        if unknown.is_empty() {
            continue;
        }
        let finding = finding(place, chart, &unknown);
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
}

/// Whether a layer is told of for each release: what someone added says something to each by itself, all at one place.
pub fn says_to_each(layer: &Layer) -> bool {
    matches!(layer.origin, Origin::File { .. })
}

/// Every unknown key of a user's layer as a warning of its own, by the path below the layer, but for those that were told of.
pub fn unknown_keys(
    layer: &Layer,
    chart: &str,
    catalog: &Catalog,
    is_told: impl Fn(&Path) -> bool,
) -> Vec<(Path, Finding)> {
    let Some((place, tree)) = place(layer, catalog).zip(catalog.keys().get(chart)) else { return Vec::new() };
    let own = |key: Unknown<'_>| (key.place(), finding(place.clone(), chart, &[key]));
    unknown(layer, tree, catalog, |key| is_told(&key.place())).into_iter().map(own).collect()
}

/// Whether a finding is about unknown keys.
pub fn is_of_unknown_keys(finding: &Finding) -> bool {
    finding.message.contains(NOTHING_READS_IT)
}

/// What every warning about unknown keys says.
const NOTHING_READS_IT: &str = "helm is given what is written here, but most likely nothing reads it";

/// Where a layer was written that is not ours: in the resource, an object that it names, or what someone added to the catalogue.
fn place(layer: &Layer, catalog: &Catalog) -> Option<String> {
    match &layer.origin {
        Origin::Field(field) => Some(field.clone()),
        Origin::Object(object) => Some(object.clone()),
        Origin::File { file, field } => catalog.added.get(file).map(|stands| format!("{stands} ({field})")),
        Origin::Derived(_) => None,
    }
}

/// A key that a chart does not know.
struct Unknown<'a> {
    /// Down to the first that it does not know.
    path: Vec<String>,
    /// That one.
    key: String,
    /// What the chart has in its place.
    beside: &'a KeyTree,
    /// Whether it stands where the chart takes any key, and is told of because it is a slip.
    is_slip: bool,
}

impl Unknown<'_> {
    fn place(&self) -> Path {
        self.path.iter().cloned().collect()
    }

    /// The nearest name, as `, did you mean "replicas"?`: to look for it costs far more than to see that a key is not known.
    fn hint(&self) -> String {
        match near::slip(&self.key, self.beside.names()).filter(|_| self.is_slip) {
            Some(meant) => format!(", did you mean {meant:?}?"),
            None => did_you_mean(&self.key, self.beside.names()),
        }
    }
}

/// A layer's unknown keys, but for those that were told of.
fn unknown<'a>(
    layer: &Layer,
    tree: &'a KeyTree,
    catalog: &Catalog,
    is_told: impl Fn(&Unknown<'_>) -> bool,
) -> Vec<Unknown<'a>> {
    let mut found: Vec<Unknown<'_>> = Vec::new();
    let set = leaves(&layer.values).into_iter().map(|(path, _)| path);
    for unknown in set.filter_map(|path| look(tree, path.keys())) {
        // What stands below one key comes in a row.
        if found.last().is_none_or(|known| known.path != unknown.path) {
            found.push(unknown);
        }
    }
    for path in layer.unset.iter().map(|(_, path)| path) {
        let whole = |unknown| Unknown { path: path.keys().to_vec(), ..unknown };
        found.extend(look(tree, path.keys()).map(whole));
    }
    let knows = |other: &KeyTree, unknown: &Unknown<'_>| look(other, &unknown.path).is_none();
    let is_known = |unknown: &Unknown<'_>| match group(layer) {
        Reached::One => false,
        Reached::All => catalog.keys().any(|other| knows(other, unknown)),
        Reached::Group(group) => of_group(catalog, group).any(|other| knows(other, unknown)),
    };
    found.retain(|unknown| !is_told(unknown) && !is_known(unknown));
    found.retain(|unknown| !unknown.is_slip || !is_a_name(unknown, catalog));
    found
}

/// Whose values a layer is.
enum Reached {
    One,
    Group(Group),
    All,
}

fn group(layer: &Layer) -> Reached {
    let Origin::Field(field) = &layer.origin else { return Reached::One };
    match field.strip_prefix("spec.common.") {
        Some(rest) if rest.starts_with("infra.") => Reached::Group(Group::Infra),
        Some(rest) if rest.starts_with("openstack.") => Reached::Group(Group::Openstack),
        Some(_) => Reached::All,
        None => Reached::One,
    }
}

/// The keys of the charts of a group.
fn of_group(catalog: &Catalog, group: Group) -> impl Iterator<Item = &KeyTree> {
    let services = catalog.services.values().filter(move |service| service.group == group);
    let releases = services.flat_map(|service| service.releases.values());
    releases.filter_map(|release| catalog.keys().get(&release.chart))
}

/// What of a path a chart does not know; `None` where it knows all of it, or leaves it to the user.
fn look<'a>(tree: &'a KeyTree, path: &[String]) -> Option<Unknown<'a>> {
    let (mut tree, mut is_open) = (tree, false);
    for (depth, key) in path.iter().enumerate() {
        if !matches!(tree, KeyTree::Map(_)) || READ_BY_ALL.contains(&key.as_str()) {
            return None;
        }
        is_open |= is_filled_by_users(tree, &path[..depth]);
        if let Some(below) = tree.below(key) {
            tree = below;
            continue;
        }
        if is_open {
            near::slip(key, tree.names())?;
        }
        return Some(Unknown { path: path[..=depth].to_vec(), key: key.clone(), beside: tree, is_slip: is_open });
    }
    None
}

/// `default` alone stands for entries by component, of which the chart reads any.
fn is_filled_by_users(tree: &KeyTree, path: &[String]) -> bool {
    let first = path.first().map(String::as_str);
    tree.is_open()
        || tree.names().eq(["default"])
        || FILLED_BY_USERS.iter().any(|(name, depth)| first == Some(name) && path.len() >= *depth)
}

/// Whether what looks like a slip is a name after all: one that the catalogue writes itself (`ml2_type_vlan`, beside the chart's `ml2_type_vxlan`), or, of
/// options and users, some chart has somewhere.
fn is_a_name(slip: &Unknown<'_>, catalog: &Catalog) -> bool {
    let is_named = slip.path.first().is_some_and(|first| ["conf", "endpoints"].contains(&first.as_str()));
    catalog.writes(&slip.key) || is_named && catalog.keys().any(|tree| tree.names_anywhere(&slip.key))
}

/// How a chart stands to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Its own values have it, with a default of this type, or a map.
    Has(KeyType),
    /// Its templates read it; its values have no default.
    Read,
    /// It is among those that are the user's to fill.
    Free,
    /// Not at all; with the nearest name, if one is near.
    No(String),
}

/// How a chart stands to the key at `path`; `None` where its keys are not known.
pub fn known(catalog: &Catalog, chart: &str, path: &Path) -> Option<Known> {
    catalog.keys().get(chart).map(|tree| known_in(tree, catalog, path))
}

/// How a chart with these keys stands to the key at `path`.
pub fn known_in(tree: &KeyTree, catalog: &Catalog, path: &Path) -> Known {
    stands(tree, catalog, path).unwrap_or_else(|unknown| Known::No(unknown.hint()))
}

/// Whether a chart with these keys does not know the key at `path` at all.
pub fn is_unknown_in(tree: &KeyTree, catalog: &Catalog, path: &Path) -> bool {
    stands(tree, catalog, path).is_err()
}

fn stands<'a>(tree: &'a KeyTree, catalog: &Catalog, path: &Path) -> Result<Known, Unknown<'a>> {
    let keys = path.keys();
    let at = keys
        .iter()
        .try_fold(tree, |tree, key| if matches!(tree, KeyTree::Read) { Some(tree) } else { tree.below(key) });
    match at {
        Some(tree) => Ok(tree.kind().filter(|_| tree.has_default()).map_or(Known::Read, Known::Has)),
        None => match look(tree, keys) {
            Some(unknown) if !unknown.is_slip || !is_a_name(&unknown, catalog) => Err(unknown),
            _ => Ok(Known::Free),
        },
    }
}

fn finding(field: String, chart: &str, unknown: &[Unknown<'_>]) -> Finding {
    let names = unknown.iter().take(NAMED).map(|unknown| format!("{}{}", unknown.path.join("."), unknown.hint()));
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
