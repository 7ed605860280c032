//! What is done about objects of a release that others edited or deleted.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{Context, Decision, Policy, Why, delay};
use crate::api::DriftPolicy;
use crate::desired::DesiredRelease;
use crate::observed::{Key, Mend, Repaired};

/// After so much time without a repair the next one is the first again: the longest pause between two, and as much to look on.
const SETTLED: SignedDuration = SignedDuration::from_hours(2);

/// What is done about the drift of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mending {
    /// It is told, and left to a person.
    Told,
    /// Nothing now: everything is held still.
    Held,
    /// It was taken back so often, and came again: not before this time.
    Fought {
        /// How many repairs there were in a row.
        count: u32,
        /// When the next one may be.
        until: Timestamp,
    },
    /// The release is applied again.
    Now,
}

impl Decision {
    /// When only time has to pass: until when.
    pub fn wake(&self) -> Option<Timestamp> {
        let until = match self.mending {
            Some(Mending::Fought { until, .. }) => Some(until),
            Some(Mending::Told | Mending::Held | Mending::Now) | None => None,
        };
        self.step.wake().into_iter().chain(until).min()
    }
}

/// How many repairs in a row one that begins now makes.
pub fn in_a_row(known: Option<&Repaired>, now: Timestamp) -> u32 {
    let recent = known.filter(|known| now.duration_since(known.at) < SETTLED);
    recent.map_or(0, |known| known.count).saturating_add(1)
}

impl Context<'_> {
    /// What is done about the drift of a release in sync; `None` where there is none, or none is to be seen. A person's word counts at once; the
    /// spec's is carried out the first time at once, then ever more seldom while someone writes against it.
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
            DriftPolicy::Repair => self.fought(key).unwrap_or(Mending::Now),
        })
    }

    /// Whether a release that is in sync is to be applied again: something of it was deleted or edited, and the spec wants that taken back or a
    /// person asked for it. Asked for `all`, it is those that have something to be taken back, not every release there is.
    pub(super) fn mends(&self, name: &str, release: &DesiredRelease) -> bool {
        let held = self.policy.paused || release.paused;
        let asked = self.policy.repair.contains(name) && !held;
        let asked = asked && !self.observed.terminating.contains(&release.key.namespace);
        asked || self.mending(name, release) == Some(Mending::Now)
    }

    pub(super) fn why_again(&self, name: &str) -> Why {
        if Policy::names(&self.policy.repair, name) { Why::Repair } else { Why::Drift }
    }

    fn fought(&self, key: &Key) -> Option<Mending> {
        let Repaired { count, at } = *self.observed.repairs.get(key)?;
        let until = at.checked_add(delay(key, count, Mend::Hand)?).ok()?;
        (until > self.now).then_some(Mending::Fought { count, until })
    }
}
