//! Computes the order in which osdpl runs helm for releases if it can't run helm for all of them at once: the release
//! with the longest chain of dependents comes first.

use std::collections::BTreeMap;

use super::{ChartInfo, Desired, DesiredRelease, Provider};
use osdpl_values::{self as values, CollectSorted, Values};

/// Counts the Jobs that a release's chart renders, according to the switches `manifests.job_*` in its values.
///
/// Nearly all Jobs are hooks, which helm runs one after another. So the number of Jobs shows best how long helm takes
/// for a release. osdpl can count the Jobs without running helm.
pub(super) fn jobs(values: &Values, chart: Option<&ChartInfo>) -> usize {
    let set = values::get(values, &["manifests"].into_iter().collect()).and_then(|set| set.as_object());
    let switch = |name: &str| set.and_then(|set| set.get(name)).and_then(serde_json::Value::as_bool);
    let jobs = chart.into_iter().flat_map(|chart| &chart.jobs);
    jobs.filter(|(name, default)| switch(name).unwrap_or(**default)).count()
}

impl Desired {
    /// Returns for each release the length of its longest chain of needs: 0 for a release that needs no other release,
    /// 1 for a release that needs only such releases, and so on.
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

    /// Returns for each release an estimate of how long helm takes for the release and its longest chain of dependents.
    ///
    /// The estimate is a sum over the chain: each release adds the number of its Jobs, plus one for the rest of helm's
    /// work. If only the pods of a dependent wait for the release ([`DesiredRelease::waits_for`]), the dependent adds
    /// only one, because its Jobs run at the same time as the Jobs of the release.
    pub fn priorities(&self) -> BTreeMap<&str, usize> {
        let own = |release: &DesiredRelease| 1 + release.jobs;
        let mut lengths: BTreeMap<&str, usize> =
            self.releases.iter().map(|(name, release)| (name.as_str(), own(release))).collect_map();
        // Each round covers chains that are longer by one release. No chain has more releases than the cloud, so this
        // number of rounds suffices. The limit also ends the loop if releases need each other in a cycle, which the
        // catalogue forbids.
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
