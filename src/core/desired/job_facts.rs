//! Job facts: results that Jobs of releases store in ConfigMaps, for use in expressions.
//!
//! A new fact changes the digest of a release's inputs but not the digest of the catalogue, so the resulting upgrade needs
//! no approval.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Facts, Selection, Unavailable};
use crate::catalog::{Catalog, releases_of_facts};
use crate::observed::ReleaseKey;
use osdpl_values::Values;

/// The facts that a Job has stored, by key.
pub type JobFacts = BTreeMap<String, String>;

/// Returns the `ConfigMap`s in which the Jobs of the desired releases store facts, by release.
pub fn fact_config_maps(catalog: &Catalog, selection: &Selection) -> BTreeMap<String, ReleaseKey> {
    let config_map = |(release, key): (&String, &ReleaseKey)| {
        let name = catalog.release(release)?.1.facts.as_ref()?;
        Some((release.clone(), ReleaseKey::new(key.namespace.clone(), name.clone())))
    };
    selection.releases.iter().filter_map(config_map).collect()
}

/// Returns the variable `facts`.
///
/// A release that has not stored facts yet has an empty map. A release whose facts can't be read is left out, because an
/// empty map would revert the values that depend on the facts.
pub(super) fn variable(catalog: &Catalog, facts: &Facts) -> Values {
    let releases = catalog.services.values().flat_map(|service| &service.releases);
    let known = releases.filter(|(_, release)| release.facts.is_some()).filter_map(|(name, _)| {
        let facts = match facts.job_facts.get(name) {
            Some(Ok(facts)) => json!(facts),
            Some(Err(_)) => return None,
            None => json!({}),
        };
        Some((name.clone(), facts))
    });
    known.collect()
}

/// Returns the release whose facts an expression uses and that can't be read.
pub(super) fn unreadable<'a>(expression: &str, facts: &'a Facts) -> Option<(&'a str, &'a Unavailable)> {
    let is_used = |release: &str| releases_of_facts(expression).any(|name| name == release);
    let failed = facts.job_facts.iter().filter_map(|(release, result)| Some((release.as_str(), result.as_ref().err()?)));
    failed.into_iter().find(|(release, _)| is_used(release))
}

#[cfg(test)]
mod tests;
