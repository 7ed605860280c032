//! Facts: what Jobs of releases have made and written down, for expressions to see.
//!
//! A fact changes values by the cluster's word: the digest of a release's inputs changes with it, that of the catalogue does not, so that
//! the upgrade it brings about waits for nobody's approval.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Facts, Selection, Unavailable};
use crate::catalog::{Catalog, facts_in};
use crate::observed::Key;
use osdpl_values::Values;

/// What a Job has written down, by key.
pub type Written = BTreeMap<String, String>;

/// The `ConfigMap`s in which the wanted releases' own Jobs write, by release.
pub fn written(catalog: &Catalog, selection: &Selection) -> BTreeMap<String, Key> {
    let place = |(release, key): (&String, &Key)| {
        let name = catalog.release(release)?.1.facts.as_ref()?;
        Some((release.clone(), Key::new(key.namespace.clone(), name.clone())))
    };
    selection.releases.iter().filter_map(place).collect()
}

/// The variable `facts`: an empty map of each release that has not written yet, and nothing of one whose facts can't be read, because "not
/// there" would take back what they brought about.
pub(super) fn variable(catalog: &Catalog, facts: &Facts) -> Values {
    let releases = catalog.services.values().flat_map(|service| &service.releases);
    let told = releases.filter(|(_, release)| release.facts.is_some()).filter_map(|(name, _)| {
        let said = match facts.written.get(name) {
            Some(Ok(said)) => json!(said),
            Some(Err(_)) => return None,
            None => json!({}),
        };
        Some((name.clone(), said))
    });
    told.collect()
}

/// Why an expression gets no answer: the release whose facts it asks for and that can't be read.
pub(super) fn blame<'a>(expression: &str, facts: &'a Facts) -> Option<(&'a str, &'a Unavailable)> {
    let asked = |release: &str| facts_in(expression).any(|name| name == release);
    let unread = facts.written.iter().filter_map(|(release, said)| Some((release.as_str(), said.as_ref().err()?)));
    unread.into_iter().find(|(release, _)| asked(release))
}

#[cfg(test)]
mod tests;
