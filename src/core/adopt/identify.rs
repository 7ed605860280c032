//! Finds, for each release that runs in a cluster, the corresponding release of the catalogue.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::Catalog;
use crate::observed::ReleaseKey;
use crate::release::RevisionSource;
use osdpl_values::{CollectSorted, Values, coalesce, normalize_numbers};

/// A release that helm has installed in the cluster. Its values contain secrets.
#[derive(Clone, PartialEq)]
pub struct InstalledRelease {
    /// The namespace and the helm name of the release.
    pub key: ReleaseKey,
    /// The number of the newest revision.
    pub revision: u32,
    /// The chart, the chart's defaults and the overrides, as helm's record of the newest revision contains them.
    pub source: RevisionSource,
    /// The values that the templates of the newest revision read: the chart's defaults, with the overrides merged into
    /// them.
    pub effective_values: Values,
}

impl InstalledRelease {
    /// Creates an installed release from the number of its newest revision, and from the chart and the values of this
    /// revision (`source`).
    pub fn new(key: ReleaseKey, revision: u32, source: RevisionSource) -> Self {
        let mut effective_values = coalesce(&source.defaults, &source.config);
        normalize_numbers(&mut effective_values);
        Self { key, revision, source, effective_values }
    }
}

/// The running releases, divided into those that correspond to a release of the catalogue, and all others.
#[derive(Default)]
pub struct IdentifiedReleases<'a> {
    /// The running releases that correspond to a release of the catalogue. The keys are the names in the catalogue.
    pub releases: BTreeMap<String, &'a InstalledRelease>,
    /// All other running releases, each with a message that says why no release of the catalogue corresponds to it.
    pub unknown: BTreeMap<ReleaseKey, String>,
}

/// Finds, for each running release, the release of the catalogue with the same chart. If the catalogue has several
/// releases with this chart, prefers the one with the same name as the running release, and then the one with the same
/// name as the chart. Each release of the catalogue corresponds to at most one running release.
pub fn identify_releases<'a>(found: &'a [InstalledRelease], catalog: &Catalog) -> IdentifiedReleases<'a> {
    let mut known = IdentifiedReleases::default();
    let home = main_namespace(found, catalog);
    let mut ordered: Vec<&InstalledRelease> = found.iter().collect();
    // Each release of the catalogue can correspond to only one running release: the first one that the loop below
    // matches with it. So sort the running releases: first those whose names are in the catalogue, then the others, and
    // in each of these two groups, first those in the main namespace.
    let is_named = |one: &InstalledRelease| of_chart(catalog, &one.source.chart.name).contains(&one.key.name);
    ordered.sort_by_key(|one| (!is_named(one), Some(&one.key.namespace) != home.as_ref(), one.key.clone()));
    for one in ordered {
        let chart = &one.source.chart.name;
        let names = of_chart(catalog, chart);
        let free = |name: &&String| !known.releases.contains_key(*name);
        // Prefer the release of the catalogue with the same name as the running release. Otherwise, use the release
        // with the same name as the chart, or else the only release of this chart.
        let usual = names.get(chart).or_else(|| names.first().filter(|_| names.len() == 1));
        let name = names.get(&one.key.name).filter(free).or_else(|| usual.filter(free)).cloned();
        if let Some(name) = name {
            known.releases.insert(name, one);
            continue;
        }
        let why = names.first().map_or_else(
            || format!("the catalogue has no release of chart {chart}"),
            |name| format!("no release of the catalogue matches this release: the releases of chart {chart}, such as {name}, have other names, or already match other running releases"),
        );
        known.unknown.insert(one.key.clone(), why);
    }
    known
}

/// Returns the namespace with the most installed releases whose chart the catalogue uses; `None` if there is no such
/// release.
///
/// If several namespaces have equally many of these releases, returns the first of these namespaces in alphabetical
/// order.
pub fn main_namespace(found: &[InstalledRelease], catalog: &Catalog) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in found.iter().filter(|one| !of_chart(catalog, &one.source.chart.name).is_empty()) {
        *counts.entry(&one.key.namespace).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|(name, count)| (**count, std::cmp::Reverse(**name)));
    most.map(|(name, _)| (*name).to_owned())
}

/// Returns the names of the catalogue's releases that use a chart.
fn of_chart(catalog: &Catalog, chart: &str) -> BTreeSet<String> {
    let releases = catalog.services.values().flat_map(|service| &service.releases);
    releases.filter(|(_, release)| release.chart == chart).map(|(name, _)| name.clone()).collect_set()
}
