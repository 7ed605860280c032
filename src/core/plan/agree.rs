//! A change of what runs: whether a person must agree to it first.

use std::collections::BTreeMap;

use super::step::{Step, Wait, Why};
use super::{Context, Policy};
use crate::catalog::Component;
use crate::desired::DesiredRelease;
use crate::observed::ReleaseSeen;
use crate::release::{NO_GUESTS, NO_SPLIT};

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
        let restarts = self.restarts(release, seen);
        let adopted = super::adopt::is_adopted(seen);
        let why = match (held, restarts.is_empty(), ours) {
            _ if adopted => Why::Adopted,
            (true, ..) => Why::Guests(super::guests::hosts(self.observed)),
            (false, false, _) => Why::Split(restarts),
            (false, true, true) => Why::Catalog,
            (false, true, false) => return self.submit(name, release, Some(seen), Why::Spec),
        };
        // What was made by others is never changed without a person's word, whatever the spec says of later changes.
        let agreed = if adopted { self.is_approved() } else { self.approved() };
        if !agreed && release.blocked.is_none() {
            return Step::Wait(Wait::Approval(why));
        }
        self.submit(name, release, Some(seen), why)
    }

    /// The pods that are made anew because the `DaemonSets` are split by node in another way: those of every component that is split now or then,
    /// since the record tells only that something of it changed.
    fn restarts(&self, release: &DesiredRelease, seen: &ReleaseSeen) -> Vec<(Component, i32)> {
        let Some(split) = &release.split else { return Vec::new() };
        if seen.split.as_deref().unwrap_or(NO_SPLIT) == split.digest {
            return Vec::new();
        }
        let key = &release.key;
        let mut pods: BTreeMap<&Component, (bool, i32)> = BTreeMap::new();
        for workload in &self.observed.workloads {
            let Some(whole) = split.whole.get(&workload.component) else { continue };
            if workload.namespace == key.namespace && workload.release == key.name {
                let (is_split, count) = pods.entry(&workload.component).or_default();
                *is_split |= workload.name != *whole;
                *count += workload.desired;
            }
        }
        let hit = |(component, (is_split, count)): (&Component, (bool, i32))| {
            let hit = count > 0 && (is_split || split.components.contains(component));
            hit.then(|| (component.clone(), count))
        };
        pods.into_iter().filter_map(hit).collect()
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
