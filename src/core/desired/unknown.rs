//! Warns about unknown keys in the helm values that users write. A key is unknown if the chart has no default value for
//! the key, and the chart's templates do not read the key.
//!
//! helm accepts unknown keys silently, so without a warning nobody notices a typo. osdpl does not refuse the values,
//! because a key may only seem unknown: a template may compute the names of the keys that it reads. In some maps, such
//! as the sections of configuration files, users choose the keys. There, osdpl reports a key only if the key is a
//! likely typo of a known key.

mod typo;

use super::{Finding, ResolvedLayers, overridden_chart_version};
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::{Catalog, Group, KeyTree, KeyType, Level, nearest_name};
use osdpl_values::{Layer, Origin, Path, leaves};

/// The maximum number of unknown keys that one warning names.
const NAMED: usize = 5;

/// Keys that every chart reads although its default values do not contain them: helm's `global`, the values of the
/// library chart helm-toolkit, `extraObjects`, and `overrides` (values for some nodes).
const READ_BY_ALL: [&str; 4] = ["global", "helm-toolkit", "extraObjects", "overrides"];

/// The top-level maps of values in which users may add keys that the chart does not know. The number says how many keys
/// at the beginning of a path the chart must know. For `conf`, this number is 2: in `conf.nova.DEFAULT`, the chart must
/// know `conf` and `nova`, but not `DEFAULT`.
const FILLED_BY_USERS: [(&str, usize); 4] = [("conf", 2), ("endpoints", 2), ("network_policy", 1), ("dependencies", 1)];

/// Returns warnings about the unknown keys that users wrote: one warning for each location, even if the values at the
/// location apply to several charts. Only a location in a catalogue file that a user added can cause one warning for
/// each release ([`is_reported_per_release`]).
///
/// A warning names only the first few unknown keys of its location. [`find_unknown_keys`] returns a warning for each
/// key. If the user chose the version of a release's chart, osdpl does not check the release, because the catalogue
/// contains only the keys of the version in the chart lock.
pub(crate) fn warn_unknown_keys(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    layered: &ResolvedLayers,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, layers) in layered.layers.iter().chain(&layered.partial) {
        let release = catalog.release(name).filter(|_| overridden_chart_version(spec, catalog, name).is_none());
        if let Some((_, release)) = release {
            check_layers(layers, &release.chart, catalog, &mut findings);
        }
    }
    findings
}

fn check_layers(layers: &[Layer], chart: &str, catalog: &Catalog, findings: &mut Vec<Finding>) {
    for layer in layers {
        // Load the chart's keys only for layers of users, because loaded keys stay in memory.
        let Some(location) = location(layer, catalog) else { continue };
        let Some(tree) = catalog.keys().get(chart) else { return };
        if !is_reported_per_release(layer) && findings.iter().any(|known| known.location.field == location) {
            continue;
        }
        let unknown = unknown(layer, tree, catalog, |_| false);
        if unknown.is_empty() {
            continue;
        }
        let finding = finding(location, chart, &unknown);
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
}

/// Whether osdpl reports the unknown keys of a layer for each release that gets the layer. If not, it reports them only
/// once for all these releases.
///
/// The result is true for a layer from a catalogue file that a user added: one location in such a file may contain
/// different values for each release.
pub fn is_reported_per_release(layer: &Layer) -> bool {
    matches!(layer.origin, Origin::File { .. })
}

/// Returns the unknown keys in a layer that a user wrote: the path of each key, and a warning about the key. Leaves out
/// keys for which `is_reported` returns true, because the caller has already reported them.
pub fn find_unknown_keys(
    layer: &Layer,
    chart: &str,
    catalog: &Catalog,
    is_reported: impl Fn(&Path) -> bool,
) -> Vec<(Path, Finding)> {
    // Load the chart's keys only for layers of users, because loaded keys stay in memory.
    let Some(location) = location(layer, catalog) else { return Vec::new() };
    let Some(tree) = catalog.keys().get(chart) else { return Vec::new() };
    let own = |key: Unknown<'_>| (key.path(), finding(location.clone(), chart, &[key]));
    unknown(layer, tree, catalog, |key| is_reported(&key.path())).into_iter().map(own).collect()
}

/// Whether a finding is a warning about unknown keys.
pub(crate) fn is_about_unknown_keys(finding: &Finding) -> bool {
    finding.message.contains(NOTHING_READS_THEM)
}

/// The part of the message by which [`is_about_unknown_keys`] recognizes a warning about unknown keys.
const NOTHING_READS_THEM: &str = "helm passes unknown keys on, but most likely no template reads them";

/// Returns the location at which a user wrote a layer, for messages; `None` if the layer does not come from a user.
///
/// The location is a field of the custom resource, a key in the data of an object that the custom resource names, or a
/// field of a catalogue file that a user added.
fn location(layer: &Layer, catalog: &Catalog) -> Option<String> {
    match &layer.origin {
        Origin::Field(field) => Some(field.clone()),
        Origin::Object(object) => Some(object.clone()),
        Origin::File { file, field } => catalog.added.get(file).map(|source| format!("{source} ({field})")),
        Origin::Derived(_) => None,
    }
}

/// A key that a layer sets, but that the chart does not know.
struct Unknown<'a> {
    /// The path that the warning names. If the layer sets a value, this is the path of the unknown key. If the layer
    /// removes a value (`unset`), this is the path in `unset`, which can continue below the unknown key.
    keys: Vec<String>,
    /// The unknown key without its path: the first key in the path that the chart does not know.
    key: String,
    /// The map in the chart's key tree that lacks `key`. Its keys are the candidates for a suggestion.
    siblings: &'a KeyTree,
    /// Whether users choose the keys of the map that contains `key`. If so, osdpl reports `key` only because it is
    /// likely a typo of a known key.
    is_typo: bool,
}

impl Unknown<'_> {
    fn path(&self) -> Path {
        self.keys.iter().cloned().collect()
    }

    /// Returns ` (did you mean "replicas"?)` with the known key that the user most likely meant; empty if no known key
    /// is similar.
    ///
    /// The search for the nearest name is expensive, so osdpl calls this function only while it writes a warning.
    fn suggestion(&self) -> String {
        let typo = if self.is_typo { typo::find_typo(&self.key, self.siblings.names()) } else { None };
        let name = typo.or_else(|| nearest_name(&self.key, self.siblings.names()));
        name.map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default()
    }
}

/// Returns the keys of a layer that a chart does not know. Leaves out keys for which `is_reported` returns true,
/// because the caller has already reported them.
///
/// If the layer applies to several releases, the result contains a key only if none of their charts knows it.
fn unknown<'a>(
    layer: &Layer,
    tree: &'a KeyTree,
    catalog: &Catalog,
    is_reported: impl Fn(&Unknown<'_>) -> bool,
) -> Vec<Unknown<'a>> {
    let mut found: Vec<Unknown<'_>> = Vec::new();
    let set = leaves(&layer.values).into_iter().map(|(path, _)| path);
    for unknown in set.filter_map(|path| find_unknown(tree, path.keys())) {
        // If the chart does not know the key of a whole map, report this key once, and not once for each value in the
        // map. The values of a map are next to each other in `set`, so it suffices to compare with the last reported
        // key.
        if found.last().is_none_or(|known| known.keys != unknown.keys) {
            found.push(unknown);
        }
    }
    for path in layer.unset.iter().map(|(_, path)| path) {
        let with_whole_path = |unknown| Unknown { keys: path.keys().to_vec(), ..unknown };
        found.extend(find_unknown(tree, path.keys()).map(with_whole_path));
    }
    let knows = |other: &KeyTree, unknown: &Unknown<'_>| find_unknown(other, &unknown.keys).is_none();
    let is_known = |unknown: &Unknown<'_>| match audience(layer) {
        Audience::One => false,
        Audience::All => catalog.keys().any(|other| knows(other, unknown)),
        Audience::Group(group) => of_group(catalog, group).any(|other| knows(other, unknown)),
    };
    found.retain(|unknown| !is_reported(unknown) && !is_known(unknown));
    found.retain(|unknown| !unknown.is_typo || !is_a_name(unknown, catalog));
    found
}

/// The releases to which a layer applies: one release, the releases of a group, or all releases.
enum Audience {
    One,
    Group(Group),
    All,
}

fn audience(layer: &Layer) -> Audience {
    let Origin::Field(field) = &layer.origin else { return Audience::One };
    match field.strip_prefix("spec.common.") {
        Some(rest) if rest.starts_with("infra.") => Audience::Group(Group::Infra),
        Some(rest) if rest.starts_with("openstack.") => Audience::Group(Group::Openstack),
        Some(_) => Audience::All,
        None => Audience::One,
    }
}

/// Returns the known keys of each chart that a release of the group installs.
fn of_group(catalog: &Catalog, group: Group) -> impl Iterator<Item = &KeyTree> {
    let services = catalog.services.values().filter(move |service| service.group == group);
    let releases = services.flat_map(|service| service.releases.values());
    releases.filter_map(|release| catalog.keys().get(&release.chart))
}

/// Returns the first key of a path that a chart does not know; `None` if the chart knows all keys of the path.
///
/// In a map whose keys users choose, the function returns an unknown key only if the key is a likely typo of a known
/// key.
fn find_unknown<'a>(tree: &'a KeyTree, path: &[String]) -> Option<Unknown<'a>> {
    let (mut tree, mut is_open) = (tree, false);
    for (depth, key) in path.iter().enumerate() {
        if !matches!(tree, KeyTree::Map(_)) || READ_BY_ALL.contains(&key.as_str()) {
            return None;
        }
        is_open |= is_filled_by_users(tree, &path[..depth]);
        if let Some(below) = tree.child(key) {
            tree = below;
            continue;
        }
        if is_open {
            typo::find_typo(key, tree.names())?;
        }
        return Some(Unknown { keys: path[..=depth].to_vec(), key: key.clone(), siblings: tree, is_typo: is_open });
    }
    None
}

/// Whether the user chooses the keys of the map `tree`, which is at `path` in the chart's values.
///
/// Users choose the keys in three cases:
///
/// * The chart's templates read the map as a whole.
/// * `path` begins with a key in [`FILLED_BY_USERS`], and has at least as many keys as the number next to this key.
/// * The only known key of the map is `default`. Then the map has an entry for each component, and the chart reads all
///   entries.
fn is_filled_by_users(tree: &KeyTree, path: &[String]) -> bool {
    let first = path.first().map(String::as_str);
    tree.allows_any_key()
        || tree.names().eq(["default"])
        || FILLED_BY_USERS.iter().any(|(name, depth)| first == Some(name) && path.len() >= *depth)
}

/// Whether a key is no typo although it resembles a known key.
///
/// The key is no typo if a built-in file of the catalogue sets a key of this name: for example, `ml2_type_vlan` is no
/// typo of the chart's `ml2_type_vxlan`. Below `conf` and `endpoints`, a key is also no typo if any chart has a key of
/// this name at any path.
fn is_a_name(typo: &Unknown<'_>, catalog: &Catalog) -> bool {
    let is_named = typo.keys.first().is_some_and(|first| ["conf", "endpoints"].contains(&first.as_str()));
    catalog.has_own_key(&typo.key) || is_named && catalog.keys().any(|tree| tree.has_key_anywhere(&typo.key))
}

/// Whether and how a chart uses a key of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// The chart has a default value of this type for the key.
    Has(KeyType),
    /// The chart's templates read the key, but the chart has no default value for it.
    Read,
    /// The chart does not know the key, but the key is in a map whose keys the user chooses.
    Free,
    /// The chart does not know the key. The text is a suggestion, such as ` (did you mean "port"?)`; it is empty if no
    /// known key is similar.
    No(String),
}

/// Returns whether and how a chart uses the key at `path`; `None` if the catalogue does not contain the keys of the
/// chart.
pub fn classify_key(catalog: &Catalog, chart: &str, path: &Path) -> Option<KeyState> {
    catalog.keys().get(chart).map(|tree| classify_key_in(tree, catalog, path))
}

/// Returns whether and how a chart with the keys in `tree` uses the key at `path`.
pub fn classify_key_in(tree: &KeyTree, catalog: &Catalog, path: &Path) -> KeyState {
    classify(tree, catalog, path).unwrap_or_else(|unknown| KeyState::No(unknown.suggestion()))
}

/// Whether a chart with the keys in `tree` does not know the key at `path`.
pub fn is_unknown_key_in(tree: &KeyTree, catalog: &Catalog, path: &Path) -> bool {
    classify(tree, catalog, path).is_err()
}

fn classify<'a>(tree: &'a KeyTree, catalog: &Catalog, path: &Path) -> Result<KeyState, Unknown<'a>> {
    let keys = path.keys();
    let found = keys
        .iter()
        .try_fold(tree, |tree, key| if matches!(tree, KeyTree::ReadOnly) { Some(tree) } else { tree.child(key) });
    match found {
        Some(tree) => Ok(tree.key_type().filter(|_| tree.has_default()).map_or(KeyState::Read, KeyState::Has)),
        None => match find_unknown(tree, keys) {
            Some(unknown) if !unknown.is_typo || !is_a_name(&unknown, catalog) => Err(unknown),
            _ => Ok(KeyState::Free),
        },
    }
}

fn finding(field: String, chart: &str, unknown: &[Unknown<'_>]) -> Finding {
    let name = |unknown: &Unknown<'_>| unknown.keys.join(".") + &unknown.suggestion();
    let more = unknown.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let names = unknown.iter().take(NAMED).map(name).collect::<Vec<_>>().join(", ");
    let message =
        format!("the values of chart {chart} have no {names}{more}: {NOTHING_READS_THEM}; correct or remove them");
    Finding::new(Level::Warning, field, message)
}

#[cfg(test)]
mod tests;
