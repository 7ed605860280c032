//! What to do now, and for every release that waits the typed reason why.
//!
//! Pure room: `plan(Desired, Observed, Policy)` classifies each release into few states (see [`State`]) and has one exhaustive match from
//! state to step. Nothing is remembered between passes: helm's records say what was done, the policy what is allowed.

mod adopt;
mod agree;
mod backoff;
mod drift;
mod guests;
mod prepare;
mod settle;
mod state;
mod step;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

pub use backoff::delay;
pub use drift::{Mending, in_a_row};
pub use prepare::jobs_before;
pub use settle::{component_available, settling};
pub use state::{State, classify};
pub use step::{Action, Decision, Step, Wait, Why};

use crate::api::Approval;
use crate::catalog::{Catalog, Component};
use crate::desired::{Desired, Provider};
use crate::observed::{Key, Observed};
use osdpl_values::digest;

/// What is allowed.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Whether changes that the spec did not ask for wait for a person.
    pub approval: Approval,
    /// The hash that a person approved.
    pub approved: Option<String>,
    /// Releases that run already and are to be taken over; `all` for every one.
    pub adopt: BTreeSet<String>,
    /// Releases whose foreign revisions may be overwritten; `all` for every one.
    pub repair: BTreeSet<String>,
    /// Releases whose uninstall skips hooks; `all` for every one.
    pub skip_hooks: BTreeSet<String>,
    /// Whether nothing may be started.
    pub paused: bool,
    /// Releases that stay as they are, wanted or not.
    pub paused_releases: BTreeSet<String>,
    /// Whether everything is to be taken down: uninstalls need no approval then.
    pub deleting: bool,
}

impl Policy {
    /// Whether an annotation of these names means a release: by its name, or with all.
    pub fn names(set: &BTreeSet<String>, release: &str) -> bool {
        set.contains(release) || set.contains("all")
    }
}

/// What to do now, and why the rest waits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// By the release's name in the catalogue (helm's name, for one that the catalogue does not know).
    pub decisions: BTreeMap<String, Decision>,
    /// Identifies the target: approving it approves every step to it.
    pub hash: String,
    /// When to look again, where only time has to pass.
    pub wake: Option<Timestamp>,
}

impl Plan {
    /// The releases that wait for a person's approval, with what would be done.
    pub fn awaiting(&self) -> impl Iterator<Item = (&str, &Why)> {
        self.decisions.iter().filter_map(|(name, decision)| match &decision.step {
            Step::Wait(Wait::Approval(why)) => Some((name.as_str(), why)),
            _ => None,
        })
    }

    /// Whether nothing is left to do: what is not ready yet only needs time.
    pub fn is_at_rest(&self) -> bool {
        self.decisions.values().all(|decision| matches!(decision.step, Step::Ready | Step::Settle(_)))
    }

    /// Whether every release is ready.
    pub fn is_ready(&self) -> bool {
        self.decisions.values().all(|decision| decision.step == Step::Ready)
    }
}

/// Decides for every release that is wanted or was made by us.
pub fn plan(desired: &Desired, observed: &Observed, catalog: &Catalog, policy: &Policy, now: Timestamp) -> Plan {
    let mut plan = Plan { hash: hash(desired), ..Plan::default() };
    let context = Context { desired, observed, catalog, policy, now, hash: &plan.hash };
    let mut decisions = BTreeMap::new();
    for (name, release) in &desired.releases {
        let state = classify(Some(release), &release.key, observed, now);
        let step = context.wanted(name, release, state);
        let sweep = context.sweep(&state, &step).filter(|_| !release.paused);
        let mending = context.mending(name, release).filter(|_| matches!(state, State::InSync(_)));
        decisions.insert(name.clone(), Decision { key: release.key.clone(), step, sweep, mending });
    }
    let wanted: BTreeSet<&Key> = desired.releases.values().map(|release| &release.key).collect();
    let unwanted = context.ours().filter(|(key, _)| !wanted.contains(key)).collect::<Vec<_>>();
    for (key, name) in unwanted {
        let state = classify(None, key, observed, now);
        let label = if decisions.contains_key(&name) { key.to_string() } else { name.clone() };
        let step = context.unwanted(&name, key, state);
        let sweep = context.sweep(&state, &step);
        decisions.insert(label, Decision { key: key.clone(), step, sweep, mending: None });
    }
    plan.wake = decisions.values().filter_map(Decision::wake).min();
    plan.decisions = decisions;
    plan
}

/// Stays the same while a plan is carried out: it names where to, not the way.
fn hash(desired: &Desired) -> String {
    let parts: Vec<String> =
        desired.releases.values().map(|release| format!("{} {}", release.key, release.inputs)).collect();
    let mut hash = digest(parts.iter().map(String::as_str));
    hash.truncate(12);
    hash
}

struct Context<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    catalog: &'a Catalog,
    policy: &'a Policy,
    now: Timestamp,
    hash: &'a str,
}

impl Context<'_> {
    /// Every release that an operator of ours made, or is at, with its name in the catalogue.
    fn ours(&self) -> impl Iterator<Item = (&Key, String)> {
        let recorded = self.observed.releases.iter().filter(|(_, seen)| seen.is_ours());
        let recorded = recorded.map(|(key, seen)| (key, seen.release.clone().unwrap_or_else(|| key.name.clone())));
        let running = self.observed.running.keys().filter(|key| !self.observed.releases.contains_key(*key));
        recorded.chain(running.map(|key| (key, key.name.clone())))
    }

    fn approved(&self) -> bool {
        self.policy.approval == Approval::Automatic || self.is_approved()
    }

    /// Whether a person has agreed to this very target.
    fn is_approved(&self) -> bool {
        self.policy.approved.as_deref() == Some(self.hash)
    }

    /// The components that are not available yet, of those needed.
    fn unmet(&self, release: &crate::desired::DesiredRelease) -> Vec<Component> {
        let unmet = release.needs.iter().filter(|(component, provider)| match provider {
            Provider::External(service) => !self.observed.external_ready.contains(service),
            Provider::Release(name) => {
                let key = self.desired.releases.get(name).map(|release| &release.key);
                !key.is_some_and(|key| component_available(component, key, self.observed))
            }
        });
        unmet.map(|(component, _)| component.clone()).collect()
    }

    /// The releases that still exist and need something of release `name`.
    fn dependents(&self, name: &str) -> Vec<String> {
        let provided: BTreeSet<&Component> =
            self.catalog.release(name).into_iter().flat_map(|(_, release)| release.components.keys()).collect();
        let mut names: Vec<_> = self
            .ours()
            .filter(|(key, other)| other != name && self.depends(key, other, name, &provided))
            .map(|(_, other)| other)
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Whether what runs of `other` needs something of release `name`. A wanted release says so itself once it runs with the wanted inputs;
    /// until then the catalogue says what it may need, but for what it shall take from outside: it waits for that, and that for this one's end.
    fn depends(&self, key: &Key, other: &str, name: &str, provided: &BTreeSet<&Component>) -> bool {
        let wanted = self.desired.releases.get(other).filter(|wanted| wanted.key == *key);
        let taken = |provider: &Provider| *provider == Provider::Release(name.to_owned());
        if wanted.is_some_and(|wanted| wanted.needs.values().any(taken)) {
            return true;
        }
        let in_sync = wanted
            .is_some_and(|wanted| matches!(classify(Some(wanted), key, self.observed, self.now), State::InSync(_)));
        let outside = |component: &Component| {
            wanted.is_some_and(|wanted| matches!(wanted.needs.get(component), Some(Provider::External(_))))
        };
        let catalogued = self.catalog.release(other).map(|(_, release)| &release.needs);
        let mut needs = catalogued.into_iter().flatten().map(|need| &need.component);
        !in_sync && needs.any(|component| provided.contains(component) && !outside(component))
    }
}

#[cfg(test)]
mod tests;
