//! Releases that run, and which of the catalogue's each of them is.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::Catalog;
use crate::observed::Key;
use crate::release::Source;
use osdpl_values::{Values, coalesce, plain_numbers};

/// A release that helm has deployed. Secrets inside.
#[derive(Clone, PartialEq)]
pub struct Found {
    /// Its identity.
    pub key: Key,
    /// Its newest revision.
    pub revision: u32,
    /// What that was made from.
    pub source: Source,
    /// What its templates saw.
    pub seen: Values,
}

impl Found {
    /// A release whose newest revision was made from this.
    pub fn new(key: Key, revision: u32, source: Source) -> Self {
        let mut seen = coalesce(&source.defaults, &source.config);
        plain_numbers(&mut seen);
        Self { key, revision, source, seen }
    }
}

/// The releases of the catalogue among those found, by their name there, and why others are none.
#[derive(Default)]
pub struct Known<'a> {
    /// By the catalogue's name.
    pub releases: BTreeMap<String, &'a Found>,
    /// By identity: what is said of it.
    pub strangers: BTreeMap<Key, String>,
}

/// Finds out which releases are the catalogue's: by their chart, and by their name where a chart has several.
pub fn known<'a>(found: &'a [Found], catalog: &Catalog) -> Known<'a> {
    let mut known = Known::default();
    let home = home(found, catalog);
    let mut ordered: Vec<&Found> = found.iter().collect();
    // Those that are named like the catalogue's come first, then those beside most others.
    let is_named = |one: &Found| of_chart(catalog, &one.source.chart.name).contains(&one.key.name);
    ordered.sort_by_key(|one| (!is_named(one), Some(&one.key.namespace) != home.as_ref(), one.key.clone()));
    for one in ordered {
        let chart = &one.source.chart.name;
        let names = of_chart(catalog, chart);
        let free = |name: &&String| !known.releases.contains_key(*name);
        // A chart that several releases share is, under a name that none of them has, the one that is called like it.
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
        known.strangers.insert(one.key.clone(), why);
    }
    known
}

/// The namespace that most releases of known charts are in; of several the first.
pub fn home(found: &[Found], catalog: &Catalog) -> Option<String> {
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
