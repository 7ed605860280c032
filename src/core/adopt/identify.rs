//! Maps the releases that run in a cluster to the releases of the catalogue.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::Catalog;
use crate::observed::ReleaseKey;
use crate::release::RevisionSource;
use osdpl_values::{CollectSorted, Values, coalesce, normalize_numbers};

/// A release that helm has installed in the cluster. Contains secrets.
#[derive(Clone, PartialEq)]
pub struct InstalledRelease {
    /// The namespace and the helm name of the release.
    pub key: ReleaseKey,
    /// The number of the newest revision.
    pub revision: u32,
    /// The chart and the values of the newest revision.
    pub source: RevisionSource,
    /// The values that the templates of the newest revision read: the chart's defaults, overridden by the revision's
    /// values.
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

/// The running releases, in two groups: releases with an entry in the catalogue, and all others.
#[derive(Default)]
pub struct IdentifiedReleases<'a> {
    /// The running releases with an entry in the catalogue, by their names in the catalogue.
    pub releases: BTreeMap<String, &'a InstalledRelease>,
    /// The running releases without an entry in the catalogue, each with a message that says why osdpl found no entry.
    pub unknown: BTreeMap<ReleaseKey, String>,
}

/// Maps each running release to a release of the catalogue with the same chart. If several releases of the catalogue
/// have this chart, osdpl prefers the one that has the name of the running release.
pub fn identify_releases<'a>(found: &'a [InstalledRelease], catalog: &Catalog) -> IdentifiedReleases<'a> {
    let mut known = IdentifiedReleases::default();
    let home = main_namespace(found, catalog);
    let mut ordered: Vec<&InstalledRelease> = found.iter().collect();
    // If several running releases match one release of the catalogue, the loop maps only the first running release to
    // it. So put running releases whose name is in the catalogue first, then running releases in the main namespace.
    let is_named = |one: &InstalledRelease| of_chart(catalog, &one.source.chart.name).contains(&one.key.name);
    ordered.sort_by_key(|one| (!is_named(one), Some(&one.key.namespace) != home.as_ref(), one.key.clone()));
    for one in ordered {
        let chart = &one.source.chart.name;
        let names = of_chart(catalog, chart);
        let free = |name: &&String| !known.releases.contains_key(*name);
        // Prefer the release of the catalogue that has the name of the running release. If there is none, use the
        // release with the chart's name, or the only release that uses the chart.
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

/// Returns the namespace with the most running releases whose chart the catalogue uses; `None` if the catalogue uses no
/// chart of a running release.
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
