//! Checks options of services, such as `conf.nova.DEFAULT.debug`, against `values/options/`.
//!
//! The chart copies these values into the configuration file of the service. The service ignores an option that it does
//! not know, and fails when it reads an option with an invalid value.

use std::cell::Cell;

use serde_json::Value;

use super::OPTION_VALUE;
use super::option_value::find_problem;
use super::warnings::{Warning, Warnings};
use crate::cloud::{Cloud, Location};
use osdpl_core::catalog::{Absence, Catalog, Options, ServiceOption, nearest_name};
use osdpl_core::desired::{KeyState, classify_key_in, is_unknown_key_in};
use osdpl_values::{Layer, Path, Values, get};

/// The maximum number of pairs of letters that osdpl compares to find similar names of options for one cloud. One
/// unknown option of nova needs about 150,000 pairs. Without a maximum, a user with thousands of wrong options could
/// block other clouds.
const MAX_COMPARISONS: usize = 50_000_000;

/// The search for similar names in the options of a cloud.
#[derive(Default)]
pub(super) struct Search {
    /// The number of pairs of letters that the search has compared.
    comparisons: Cell<usize>,
    /// Whether the search has left out a name, because it would have exceeded [`MAX_COMPARISONS`].
    is_limited: Cell<bool>,
}

impl Search {
    /// Counts further comparisons. Returns whether they are allowed.
    fn spend(&self, comparisons: usize) -> bool {
        let sum = self.comparisons.get().saturating_add(comparisons);
        let is_allowed = sum <= MAX_COMPARISONS;
        if is_allowed {
            self.comparisons.set(sum);
        } else {
            self.is_limited.set(true);
        }
        is_allowed
    }
}

/// The kind of warning about an option that the service does not know.
pub(super) const UNKNOWN_OPTION: &str = "unknown-option";
/// The kind of warning about an option that the service deprecates.
pub(super) const DEPRECATED_OPTION: &str = "deprecated-option";

/// A mistake in the options that a layer sets.
#[derive(Debug)]
pub struct OptionProblem {
    /// The path of the option in the release's values. If the service does not know the section, the path of the
    /// section. If osdpl stopped the search for similar names, the path of the configuration file.
    pub path: Path,
    /// The kind of warning, such as `unknown-option`.
    pub kind: &'static str,
    /// The problem and the remedy.
    pub message: String,
}

/// Checks the options that layers of the user and of additions to the catalogue set in a release.
pub(super) fn check(cloud: &Cloud<'_>, name: &str, layers: &[Layer], search: &Search, warnings: &mut Warnings) {
    let checked = layers.iter().filter_map(|layer| Some((cloud.layer_location(&layer.origin)?, layer)));
    check_layers(cloud, name, &checked.collect::<Vec<_>>(), search, warnings);
}

/// Checks the options that the entries of `spec.nodes.overrides` set in a release. `layers` has one layer for each
/// entry.
pub(super) fn check_node_layers(
    cloud: &Cloud<'_>,
    name: &str,
    layers: &[Layer],
    search: &Search,
    warnings: &mut Warnings,
) {
    let checked = layers.iter().map(|layer| (Location::of_field(layer.origin.to_string()), layer));
    check_layers(cloud, name, &checked.collect::<Vec<_>>(), search, warnings);
}

fn check_layers(
    cloud: &Cloud<'_>,
    name: &str,
    layers: &[(Location, &Layer)],
    search: &Search,
    warnings: &mut Warnings,
) {
    let Some((_, release)) = cloud.catalog.release(name) else { return };
    let chart_keys = cloud.chart_keys(name);
    for file in cloud.catalog.options.of_chart(&release.chart) {
        let sets_options = |(_, layer): &&(Location, &Layer)| get(&layer.values, file.path()).is_some();
        let mut setting = layers.iter().filter(sets_options).peekable();
        // Decode the file only if a layer sets options.
        let Some(options) = setting.peek().and_then(|_| cloud.catalog.options.read(file)) else { continue };
        let release = FileCheck {
            catalog: cloud.catalog,
            chart: &release.chart,
            options: &options,
            path: file.path(),
            openstack: &cloud.spec.openstack_release,
            search,
        };
        for (location, layer) in setting {
            for OptionProblem { path, kind, message } in release.check_layer(layer) {
                // The rule `unknown-key` already reports keys that the chart does not know.
                if !chart_keys.is_some_and(|keys| is_unknown_key_in(keys, cloud.catalog, &path)) {
                    warnings.add(location.child(&path), name, Some(Warning { kind, message }));
                }
            }
        }
    }
}

/// Returns the mistakes in the options that a layer of a release sets, whether the layer comes from a user or from the
/// catalogue.
///
/// `chart` is the chart of the release. `openstack_release` is the OpenStack release of the cloud, such as `2026.1`.
pub fn find_option_problems(
    catalog: &Catalog,
    chart: &str,
    openstack_release: &str,
    layer: &Layer,
) -> Vec<OptionProblem> {
    let search = Search::default();
    let files = catalog.options.of_chart(chart).filter(|file| get(&layer.values, file.path()).is_some());
    let found = files.filter_map(|file| {
        let options = catalog.options.read(file)?;
        let (path, search) = (file.path(), &search);
        let check = FileCheck { catalog, chart, options: &options, path, openstack: openstack_release, search };
        Some(check.check_layer(layer))
    });
    found.flatten().collect()
}

/// The check of options of one configuration file, for one OpenStack release.
struct FileCheck<'a> {
    catalog: &'a Catalog,
    /// The name of the chart whose values set the options.
    chart: &'a str,
    /// All options of the service that osdpl knows, from `values/options/`.
    options: &'a Options,
    /// The path of the configuration file in the chart's values, such as `conf.nova`.
    path: &'a Path,
    /// The OpenStack release of the cloud.
    openstack: &'a str,
    search: &'a Search,
}

/// One option that a layer sets, with its section, name and value.
struct SetOption<'a> {
    section: &'a str,
    name: &'a str,
    value: &'a Value,
    /// Whether the value is secret.
    is_secret: bool,
}

impl FileCheck<'_> {
    /// Returns the mistakes in the options that a layer sets. Returns none if osdpl does not know the options of the
    /// OpenStack release.
    fn check_layer(&self, layer: &Layer) -> Vec<OptionProblem> {
        let sections = get(&layer.values, self.path).and_then(Value::as_object);
        let sections = sections.filter(|_| self.options.describes(self.openstack));
        let mut found = Vec::new();
        for (section, options) in sections.into_iter().flatten() {
            let Some(options) = options.as_object().filter(|options| options.values().any(|value| !value.is_null()))
            else {
                continue;
            };
            if self.is_unknown_section(section, options) && !self.is_read_by_chart(&self.path.child(section)) {
                found.push(self.unknown_section(section));
                continue;
            }
            for (name, value) in options.iter().filter(|(_, value)| !value.is_null()) {
                let path = self.path.child(section).child(name);
                let is_removed = layer.unset.iter().any(|(_, unset)| unset.covers(&path));
                let is_secret = layer.secret.iter().any(|secret| secret.covers(&path) || path.covers(secret));
                let set = SetOption { section, name, value, is_secret };
                let has_other_use = |kind: &str| kind == UNKNOWN_OPTION && self.is_read_by_chart(&path);
                let problem = self.check_option(&set).filter(|(kind, _)| !is_removed && !has_other_use(kind));
                found.extend(problem.map(|(kind, message)| OptionProblem { path, kind, message }));
            }
        }
        if self.search.is_limited.get() {
            let message = "there are too many unknown options, so osdpl did not look for similar names of all of them; \
                           correct some of the options, and validate again";
            found.push(OptionProblem { path: self.path.clone(), kind: UNKNOWN_OPTION, message: message.to_owned() });
        }
        found
    }

    /// Whether the chart's templates read a value for which the chart has no default.
    ///
    /// Such a value can have an effect even if the service does not know an option of this name. A default of the chart
    /// is no such sign: charts have defaults for options that the services ignore. `values/options/` lists the options
    /// with a default that only templates read, such as nova's `DEFAULT.metadata_workers`.
    fn is_read_by_chart(&self, path: &Path) -> bool {
        let keys = self.catalog.keys().get(self.chart);
        keys.is_some_and(|keys| classify_key_in(keys, self.catalog, path) == KeyState::Read)
    }

    /// Whether the service does not know a section.
    ///
    /// Users choose the names of some sections, such as those of backends. osdpl recognizes such a section by a
    /// pattern, and expects the options of another section in it. It counts as unknown only if its name resembles that
    /// of another section, and if it contains no known option.
    fn is_unknown_section(&self, section: &str, options: &Values) -> bool {
        let is_known = |name: &String| self.options.find(section, name, self.openstack).is_some();
        if options.keys().any(is_known) {
            return false;
        }
        if self.options.is_only_like_others(section) {
            return self.nearest(section, self.options.sections()).is_some();
        }
        let first = options.keys().next().map_or("", String::as_str);
        self.options.absence(section, first, self.openstack) == Absence::UnknownSection
    }

    fn unknown_section(&self, section: &str) -> OptionProblem {
        let near = self.nearest(section, self.options.sections());
        let hint = near.map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default();
        let is_open = self.options.is_only_like_others(section);
        let exception = if is_open { ", unless an out-of-tree driver reads them" } else { "" };
        let message = format!(
            "OpenStack {} has no section [{section}] in {}{hint}: the service ignores all options in it{exception}; correct \
             the name, or remove the section",
            self.openstack, self.path
        );
        OptionProblem { path: self.path.child(section), kind: UNKNOWN_OPTION, message }
    }

    /// Returns the kind of warning about an option, and the message; `None` if the option is fine.
    fn check_option(&self, set: &SetOption<'_>) -> Option<(&'static str, String)> {
        let Some(option) = self.options.find(set.section, set.name, self.openstack) else {
            return self.absent(set).map(|message| (UNKNOWN_OPTION, message));
        };
        let renamed = option.new_name();
        let target = renamed.and_then(|(section, name)| self.options.find(section, name, self.openstack));
        let problem = find_problem(target.unwrap_or(option), set.value).filter(|_| !set.is_secret);
        if let Some(problem) = problem {
            return Some((OPTION_VALUE, problem));
        }
        let deprecation = match renamed {
            Some((section, name)) => self.renamed(section, name),
            None => self.deprecated(option)?,
        };
        Some((DEPRECATED_OPTION, deprecation))
    }

    /// Returns the message about an option that the service does not have; `None` if the section may have options that
    /// osdpl does not know.
    fn absent(&self, set: &SetOption<'_>) -> Option<String> {
        let SetOption { section, name, .. } = *set;
        Some(match self.options.absence(section, name, self.openstack) {
            // Report only a name that resembles a known option. Any other name can belong to an option that osdpl does
            // not know, because a driver or a user defines it.
            Absence::Open => {
                let near = self.nearest(name, self.options.names(section, self.openstack))?;
                format!(
                    "OpenStack {} has no option {name:?} in [{section}] of {} (did you mean {near:?}?): the service ignores it, \
                     unless an out-of-tree driver reads it; correct or remove it",
                    self.openstack, self.path
                )
            }
            Absence::Removed { release, new_name } => {
                let remedy = new_name.map_or("remove it".to_owned(), |(section, name)| {
                    format!("use {} instead", self.path.child(section).child(name))
                });
                format!("was removed in OpenStack {release}: the service ignores it; {remedy}")
            }
            Absence::Later(release) => format!(
                "OpenStack {} does not have this option yet: the service ignores it; remove it, and set it again after the upgrade to {release}",
                self.openstack
            ),
            Absence::Unknown | Absence::UnknownSection => format!(
                "OpenStack {} has no option {name:?} in [{section}] of {}{}: the service ignores it; correct or remove it",
                self.openstack,
                self.path,
                self.suggestion(section, name)
            ),
        })
    }

    /// Returns ` (did you mean …?)` with the option that the user most likely meant: the option of this name in another
    /// section, or the option of this section with the most similar name; empty if there is none.
    fn suggestion(&self, section: &str, name: &str) -> String {
        // A lookup in a section takes about as long as 100 comparisons.
        if !self.search.spend(100 * self.options.sections().count()) {
            return String::new();
        }
        let has = |other: &&str| self.options.find(other, name, self.openstack).is_some();
        let mut elsewhere = self.options.sections().filter(has);
        let only = elsewhere.next().filter(|_| elsewhere.next().is_none());
        let elsewhere = only.map(|other| self.path.child(other).child(name).to_string());
        let near = || self.nearest(name, self.options.names(section, self.openstack)).map(str::to_owned);
        elsewhere.or_else(near).map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default()
    }

    /// Returns the candidate with the most similar name; `None` if there is no such candidate, or if this search or an
    /// earlier one would exceed [`MAX_COMPARISONS`].
    fn nearest<'b>(&self, name: &str, candidates: impl Iterator<Item = &'b str>) -> Option<&'b str> {
        if self.search.is_limited.get() {
            return None;
        }
        let candidates: Vec<&str> = candidates.collect();
        let letters: usize = candidates.iter().map(|candidate| candidate.len()).sum();
        if self.search.spend(name.len().saturating_mul(letters)) { nearest_name(name, candidates) } else { None }
    }

    fn renamed(&self, section: &str, name: &str) -> String {
        let path = self.path.child(section).child(name);
        format!("is an old name, which a later OpenStack release may not know; use {path} instead")
    }

    /// Returns the message about a deprecated option; `None` if the option is not deprecated.
    fn deprecated(&self, option: &ServiceOption) -> Option<String> {
        let since = option.deprecated.as_ref().filter(|_| option.is_deprecated_in(self.openstack))?;
        let why = if option.why().is_empty() { String::new() } else { format!(" ({})", option.why()) };
        // An option that is deprecated in the first OpenStack release of the file may have been deprecated even
        // earlier.
        let is_first = self.options.versions.keys().next() == Some(since);
        let since = if is_first { format!("{since} or earlier") } else { since.clone() };
        Some(format!(
            "is deprecated since OpenStack {since}{why}: a later release may ignore it; find a replacement, or remove it"
        ))
    }
}
