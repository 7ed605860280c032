//! A change of what runs: whether a person must agree to it first.

use super::step::{Step, Wait, Why};
use super::{Context, Policy};
use crate::desired::DesiredRelease;
use crate::observed::ReleaseSeen;
use crate::release::NO_GUESTS;

impl Context<'_> {
    pub(super) fn failed(&self, name: &str, release: &DesiredRelease, seen: &ReleaseSeen) -> Step {
        let same = seen.inputs.as_deref() == Some(release.inputs.as_str());
        let count = self.observed.failures.get(&release.key).map_or(1, |failed| failed.count);
        match same {
            true => self.submit(name, release, Some(seen), Why::Retry(count)),
            // A release that once was deployed is running: what changes it is judged as any other change.
            false if seen.was_deployed => self.approve(name, release, seen),
            false => self.submit(name, release, Some(seen), Why::Spec),
        }
    }

    pub(super) fn approve(&self, name: &str, release: &DesiredRelease, seen: &ReleaseSeen) -> Step {
        let ours = seen.catalog.as_deref() != Some(release.catalog.as_str());
        // What guests did not have before they can't miss.
        let held = seen.guests.as_deref().is_some_and(|held| held != NO_GUESTS) && seen.guests != release.guests;
        let why = match (held, ours) {
            (true, _) => Why::Guests,
            (false, true) => Why::Catalog,
            (false, false) => return self.submit(name, release, Some(seen), Why::Spec),
        };
        if !self.approved() && release.blocked.is_none() {
            return Step::Wait(Wait::Approval(why));
        }
        self.submit(name, release, Some(seen), why)
    }

    pub(super) fn foreign(&self, name: &str, release: &DesiredRelease, seen: &ReleaseSeen) -> Step {
        let new_spec = seen.own_inputs.as_ref().is_some_and(|inputs| *inputs != release.inputs);
        if Policy::names(&self.policy.repair, name) {
            self.submit(name, release, Some(seen), Why::Repair)
        } else if new_spec {
            self.approve(name, release, seen)
        } else {
            let description = seen.body.as_ref().map(|body| body.description.clone()).unwrap_or_default();
            Step::Wait(Wait::Foreign { revision: seen.revision, description, since: seen.since })
        }
    }
}
