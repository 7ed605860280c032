//! Decides what to do about drift: objects of a release that someone changed or deleted outside of helm.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{Context, Decision, DriftAction, Policy, Reason, backoff_delay};
use crate::api::DriftPolicy;
use crate::desired::DesiredRelease;
use crate::observed::{ReleaseKey, Repaired, RetryCondition};

/// osdpl counts two drift repairs of a release as repairs in a row only if the second one starts less than this time
/// after the first one. After a longer time, osdpl counts from 1 again.
///
/// This time must be longer than the longest backoff before a repair. Otherwise each such backoff would reset the
/// count.
const SETTLED: SignedDuration = SignedDuration::from_hours(2);

impl Decision {
    /// Returns the time at which the operator must decide about the release again: the end of the step's wait or of the
    /// backoff before the next drift repair, whichever is earlier.
    pub fn requeue_at(&self) -> Option<Timestamp> {
        let until = match self.drift_action {
            Some(DriftAction::Backoff { until, .. }) => Some(until),
            Some(DriftAction::Reported | DriftAction::Paused | DriftAction::Now) | None => None,
        };
        self.step.requeue_at().into_iter().chain(until).min()
    }
}

/// Returns the number of drift repairs in a row, including the repair that starts now.
pub fn count_repairs(known: Option<&Repaired>, now: Timestamp) -> u32 {
    let recent = known.filter(|known| now.duration_since(known.last_started_at) < SETTLED);
    recent.map_or(0, |known| known.count).saturating_add(1)
}

impl Context<'_> {
    /// Returns what osdpl does about the drift of a release that already has the desired inputs; `None` if the release
    /// has no drift, or if the spec sets `drift: Ignore`.
    ///
    /// If a person requested the repair, it starts at once. With `drift: Repair` in the spec, the first repair starts
    /// at once, and if the drift comes back, osdpl waits longer before each further repair.
    pub(super) fn drift_action(&self, name: &str, release: &DesiredRelease) -> Option<DriftAction> {
        let key = &release.key;
        if release.drift == DriftPolicy::Ignore || self.observed.drifted(key).is_empty() {
            return None;
        }
        let is_suspended = self.policy.paused || release.paused || self.observed.terminating.contains(&key.namespace);
        Some(match release.drift {
            _ if is_suspended => DriftAction::Paused,
            _ if Policy::selects(&self.policy.repair, name) => DriftAction::Now,
            DriftPolicy::Report | DriftPolicy::Ignore => DriftAction::Reported,
            DriftPolicy::Repair => self.repair_backoff(key).unwrap_or(DriftAction::Now),
        })
    }

    /// Whether osdpl runs a helm upgrade to repair a release that already has the desired inputs.
    ///
    /// osdpl does so if the release has drift whose repair is due now, or if the annotation [`crate::api::REPAIR`]
    /// contains the release's name. If the annotation contains `all` instead, osdpl repairs the release only if it has
    /// drift. While the release or the cloud is paused, or the namespace is being deleted, osdpl repairs nothing.
    pub(super) fn needs_repair(&self, name: &str, release: &DesiredRelease) -> bool {
        let is_suspended =
            self.policy.paused || release.paused || self.observed.terminating.contains(&release.key.namespace);
        let is_requested = self.policy.repair.contains(name) && !is_suspended;
        is_requested || self.drift_action(name, release) == Some(DriftAction::Now)
    }

    pub(super) fn repair_reason(&self, name: &str) -> Reason {
        if Policy::selects(&self.policy.repair, name) { Reason::Repair } else { Reason::Drift }
    }

    fn repair_backoff(&self, key: &ReleaseKey) -> Option<DriftAction> {
        let Repaired { count, last_started_at: at } = *self.observed.repairs.get(key)?;
        let until = at.checked_add(backoff_delay(key, count, RetryCondition::Manual)?).ok()?;
        (until > self.now).then_some(DriftAction::Backoff { count, until })
    }
}
