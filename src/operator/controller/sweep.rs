//! Removing what failed revisions left behind, beside the steps of a plan.
//!
//! It never holds a release up: what can't be removed now is said in the log and tried again, by this operator or the next one.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::Context;
use super::memory::Memory;
use osdpl_core::observed::{Fix, Observed, ReleaseKey};
use osdpl_core::plan::backoff_delay;
use osdpl_core::release::Cleanup;

impl Context {
    /// Sweeps after a release, unless that failed a moment ago; returns when to try again.
    pub(super) async fn sweep(
        &self,
        key: &ReleaseKey,
        sweep: &Cleanup,
        observed: &Observed,
        memory: &mut Memory,
    ) -> Option<Timestamp> {
        let now = super::now();
        let failed = memory.sweeps.get(key).copied();
        if let Some(until) = failed.map(|failed| again(key, failed)).filter(|until| *until > now) {
            return Some(until);
        }
        match self.cluster.sweep(key, sweep, &others(key, observed)).await {
            Ok(removed) => {
                memory.sweeps.remove(key);
                if !removed.is_empty() {
                    let removed = removed.join(", ");
                    tracing::info!(release = %key, removed, "removed what failed revisions left behind");
                }
                None
            }
            Err(error) => {
                let failed = (failed.map_or(0, |(count, _)| count) + 1, now);
                memory.sweeps.insert(key.clone(), failed);
                tracing::warn!(release = %key, %error, "what failed revisions left behind is not all removed yet");
                Some(again(key, failed))
            }
        }
    }
}

fn again(key: &ReleaseKey, (count, at): (u32, Timestamp)) -> Timestamp {
    let delay = backoff_delay(key, count, Fix::Manual).unwrap_or(SignedDuration::MAX);
    at.checked_add(delay).unwrap_or(Timestamp::MAX)
}

/// The revisions of all other releases of ours that say what is theirs: the newest, and the deployed one.
fn others(key: &ReleaseKey, observed: &Observed) -> Vec<(ReleaseKey, u32)> {
    let ours = observed.releases.iter().filter(|(other, seen)| *other != key && seen.is_ours());
    let revisions = ours.flat_map(|(other, seen)| {
        let newest = seen.history.iter().map(|past| past.revision).max();
        let deployed = seen.history.iter().filter(|past| past.status == osdpl_core::release::Status::Deployed);
        let all: std::collections::BTreeSet<u32> = deployed.map(|past| past.revision).chain(newest).collect();
        all.into_iter().map(|revision| (other.clone(), revision))
    });
    revisions.collect()
}
