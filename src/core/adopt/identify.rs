//! Running releases, and the releases of the catalogue that they correspond to.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::Catalog;
use crate::observed::ReleaseKey;
use crate::release::RevisionSource;
use osdpl_values::{Values, coalesce, normalize_numbers};

/// A release that helm has deployed. Contains secrets.
#[derive(Clone, PartialEq)]
pub struct InstalledRelease {
    /// Its identity.
    pub key: ReleaseKey,
    /// Its newest revision.
    pub revision: u32,
    /// The source of that revision.
    pub source: RevisionSource,
    /// The values that its templates read: the chart's defaults, overridden by the values of the revision.
    pub effective_values: Values,
}

impl InstalledRelease {
    /// Creates a release from its newest revision.
    pub fn new(key: ReleaseKey, revision: u32, source: RevisionSource) -> Self {
        let mut effective_values = coalesce(&source.defaults, &source.config);
        normalize_numbers(&mut effective_values);
        Self { key, revision, source, effective_values }
    }
}

/// The releases that the catalogue knows, and those that it does not.
#[derive(Default)]
pub struct IdentifiedReleases<'a> {
    /// The known releases, by their names in the catalogue.
    pub releases: BTreeMap<String, &'a InstalledRelease>,
    /// The other releases, each with the reason why the catalogue does not know it.
    pub unknown: BTreeMap<ReleaseKey, String>,
}

/// Identifies the releases of the catalogue: by chart, and by name if several releases share a chart.
pub fn identify_releases<'a>(found: &'a [InstalledRelease], catalog: &Catalog) -> IdentifiedReleases<'a> {
    let mut known = IdentifiedReleases::default();
    let home = main_namespace(found, catalog);
    let mut ordered: Vec<&InstalledRelease> = found.iter().collect();
    // Releases with a catalogue name come first, then those in the main namespace.
    let is_named = |one: &InstalledRelease| of_chart(catalog, &one.source.chart.name).contains(&one.key.name);
    ordered.sort_by_key(|one| (!is_named(one), Some(&one.key.namespace) != home.as_ref(), one.key.clone()));
    for one in ordered {
        let chart = &one.source.chart.name;
        let names = of_chart(catalog, chart);
        let free = |name: &&String| !known.releases.contains_key(*name);
        // If several releases share a chart and no name matches, take the one that is named like the chart.
        let usual = names.get(chart).or_else(|| names.first().filter(|_| names.len() == 1));
        let name = names.get(&one.key.name).filter(free).or_else(|| usual.filter(free)).cloned();
        if let Some(name) = name {
            known.releases.insert(name, one);
            continue;
        }
        let why = names.first().map_or_else(
            || format!("the catalogue has no release of chart {chart}"),
            |name| format!("the catalogue's releases of chart {chart} are taken, or have other names ({name})"),
        );
        known.unknown.insert(one.key.clone(), why);
    }
    known
}

/// Returns the namespace with most releases of known charts; on a tie the first one.
pub fn main_namespace(found: &[InstalledRelease], catalog: &Catalog) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in found.iter().filter(|one| !of_chart(catalog, &one.source.chart.name).is_empty()) {
        *counts.entry(&one.key.namespace).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|(name, count)| (**count, std::cmp::Reverse(**name)));
    most.map(|(name, _)| (*name).to_owned())
}

fn of_chart(catalog: &Catalog, chart: &str) -> BTreeSet<String> {
    let releases = catalog.services.values().flat_map(|service| &service.releases);
    releases.filter(|(_, release)| release.chart == chart).map(|(name, _)| name.clone()).collect()
}
