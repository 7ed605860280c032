//! The order in which releases start if not all can start at once: the one with the longest chain of dependents is
//! first.

use std::collections::BTreeMap;

use super::{ChartInfo, Desired, DesiredRelease, Provider};
use osdpl_values::{self as values, Values};

/// Counts the Jobs of a release by OpenStack-Helm's own switches (`manifests.job_*`).
///
/// Nearly all of them are hooks that helm runs one after another. Without rendering, this is the best estimate of how
/// long a release takes.
pub(super) fn jobs(values: &Values, chart: Option<&ChartInfo>) -> usize {
    let set = values::get(values, &["manifests"].into_iter().collect()).and_then(|set| set.as_object());
    let switch = |name: &str| set.and_then(|set| set.get(name)).and_then(serde_json::Value::as_bool);
    let jobs = chart.into_iter().flat_map(|chart| &chart.jobs);
    jobs.filter(|(name, default)| switch(name).unwrap_or(**default)).count()
}

impl Desired {
    /// Returns the length of the longest chain of needs below each release: 0 for a release without needs.
    pub fn depths(&self) -> BTreeMap<&str, usize> {
        let mut depths: BTreeMap<&str, usize> = BTreeMap::new();
        for _ in 0..=self.releases.len() {
            for (name, release) in &self.releases {
                let below = release.needs.values().filter_map(|provider| match provider {
                    Provider::Release(name) => Some(depths.get(name.as_str()).copied().unwrap_or_default() + 1),
                    Provider::External(_) => None,
                });
                depths.insert(name, below.max().unwrap_or_default());
            }
        }
        depths
    }

    /// Returns the length of the longest chain that starts at each release.
    ///
    /// Each release of a chain counts its Jobs, and one for helm. Releases of which only pods wait for the release
    /// ([`DesiredRelease::waits_for`]) run their Jobs at the same time, so they count as one.
    pub fn priorities(&self) -> BTreeMap<&str, usize> {
        let own = |release: &DesiredRelease| 1 + release.jobs;
        let mut lengths: BTreeMap<&str, usize> =
            self.releases.iter().map(|(name, release)| (name.as_str(), own(release))).collect();
        // No chain is longer than the number of releases. This bounds the loop even for cycles, which the catalogue
        // forbids.
        for _ in 0..self.releases.len() {
            let mut changed = false;
            for (name, release) in &self.releases {
                let needs = release.needs.values().filter_map(|provider| match provider {
                    Provider::Release(provider) => Some(provider),
                    Provider::External(_) => None,
                });
                let length = lengths[name.as_str()];
                let pods = release.waits_for.iter().map(|provider| (provider, 1));
                for (provider, rest) in needs.map(|provider| (provider, length)).chain(pods) {
                    let Some(first) = self.releases.get(provider) else { continue };
                    let longer = own(first) + rest;
                    if let Some(known) = lengths.get_mut(provider.as_str()).filter(|known| **known < longer) {
                        *known = longer;
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
        lengths
    }
}
