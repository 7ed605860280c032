//! Handling of release objects that others edited or deleted.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{Context, Decision, Policy, Reason, backoff_delay};
use crate::api::DriftPolicy;
use crate::desired::DesiredRelease;
use crate::observed::{ReleaseKey, Repaired, RetryCondition};

/// The time without a repair after which the count of repairs starts again: twice the longest delay between repairs.
const SETTLED: SignedDuration = SignedDuration::from_hours(2);

/// The handling of a release's drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriftAction {
    /// The drift is only reported.
    Reported,
    /// The drift is not repaired, because the release is paused or its namespace is being deleted.
    Paused,
    /// The drift came back after a repair: wait until this time.
    Backoff {
        /// The number of repairs in a row.
        count: u32,
        /// When the next repair is due.
        until: Timestamp,
    },
    /// The release is applied again.
    Now,
}

impl Decision {
    /// Returns when to requeue, if the step or the repair only needs time.
    pub fn requeue_at(&self) -> Option<Timestamp> {
        let until = match self.drift_action {
            Some(DriftAction::Backoff { until, .. }) => Some(until),
            Some(DriftAction::Reported | DriftAction::Paused | DriftAction::Now) | None => None,
        };
        self.step.requeue_at().into_iter().chain(until).min()
    }
}

/// Returns the number of repairs in a row, including one that starts now.
pub fn count_repairs(known: Option<&Repaired>, now: Timestamp) -> u32 {
    let recent = known.filter(|known| now.duration_since(known.last_started_at) < SETTLED);
    recent.map_or(0, |known| known.count).saturating_add(1)
}

impl Context<'_> {
    /// Returns the handling of the drift of a release in sync; `None` without known drift.
    ///
    /// A repair that a person requested starts at once. With `drift: Repair` the first repair starts at once, and later
    /// ones with growing delays while the drift comes back.
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

    /// Whether a release in sync is applied again, because of drift or because a person requested it.
    ///
    /// The annotation value `all` requests this only for releases with drift.
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
