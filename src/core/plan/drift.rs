//! Handling of release objects that others edited or deleted.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{Context, Decision, Policy, Why, delay};
use crate::api::DriftPolicy;
use crate::desired::DesiredRelease;
use crate::observed::{Key, Mend, Repaired};

/// The count of repairs starts again after this time without one: the longest delay between two repairs, and as long
/// again.
const SETTLED: SignedDuration = SignedDuration::from_hours(2);

/// The handling of a release's drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mending {
    /// The drift is only reported.
    Told,
    /// Nothing is done while the release is paused or its namespace is being deleted.
    Held,
    /// The drift came back after a repair: wait until this time.
    Fought {
        /// The number of repairs in a row.
        count: u32,
        /// When the next repair is due.
        until: Timestamp,
    },
    /// The release is applied again.
    Now,
}

impl Decision {
    /// When to requeue, if the step or the repair only needs time.
    pub fn wake(&self) -> Option<Timestamp> {
        let until = match self.mending {
            Some(Mending::Fought { until, .. }) => Some(until),
            Some(Mending::Told | Mending::Held | Mending::Now) | None => None,
        };
        self.step.wake().into_iter().chain(until).min()
    }
}

/// The number of repairs in a row, including one that starts now.
pub fn in_a_row(known: Option<&Repaired>, now: Timestamp) -> u32 {
    let recent = known.filter(|known| now.duration_since(known.at) < SETTLED);
    recent.map_or(0, |known| known.count).saturating_add(1)
}

impl Context<'_> {
    /// The handling of the drift of a release in sync; `None` without known drift.
    ///
    /// A repair that a person requested starts at once. Repairs by the spec start at once the first time, then with
    /// growing delays while the drift comes back.
    pub(super) fn mending(&self, name: &str, release: &DesiredRelease) -> Option<Mending> {
        let key = &release.key;
        if release.drift == DriftPolicy::Ignore || self.observed.drifted(key).is_empty() {
            return None;
        }
        let held = self.policy.paused || release.paused || self.observed.terminating.contains(&key.namespace);
        Some(match release.drift {
            _ if held => Mending::Held,
            _ if Policy::names(&self.policy.repair, name) => Mending::Now,
            DriftPolicy::Report | DriftPolicy::Ignore => Mending::Told,
            DriftPolicy::Repair => self.repair_backoff(key).unwrap_or(Mending::Now),
        })
    }

    /// Whether a release in sync is applied again, because of drift or because a person requested it.
    ///
    /// The value `all` selects only releases with drift.
    pub(super) fn needs_repair(&self, name: &str, release: &DesiredRelease) -> bool {
        let held = self.policy.paused || release.paused;
        let asked = self.policy.repair.contains(name) && !held;
        let asked = asked && !self.observed.terminating.contains(&release.key.namespace);
        asked || self.mending(name, release) == Some(Mending::Now)
    }

    pub(super) fn repair_reason(&self, name: &str) -> Why {
        if Policy::names(&self.policy.repair, name) { Why::Repair } else { Why::Drift }
    }

    fn repair_backoff(&self, key: &Key) -> Option<Mending> {
        let Repaired { count, at } = *self.observed.repairs.get(key)?;
        let until = at.checked_add(delay(key, count, Mend::Hand)?).ok()?;
        (until > self.now).then_some(Mending::Fought { count, until })
    }
}
