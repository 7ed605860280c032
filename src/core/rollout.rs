//! How the data plane's pods are made anew: which ones now, or why none.
//!
//! Pure room. The charts of the releases that `values/nodes.yaml` names leave old pods alone (`OnDelete`); here it is decided which of them are
//! evicted, batch by batch. There is no journal: everything but a person's word follows from the pods that are there, so that a restart of
//! the operator changes nothing.
//!
//! ```text
//! batch in flight   pods of the new revision that are not ready, nodes whose pod is gone
//! pause             since the last of the pods of the new revision became ready
//! stopped           one of these is unhealthy: nothing more is touched until it is ready, or the template is another one
//! approved          status: the revision that may be rolled out, by a person's word or by the spec
//! ```
//!
//! One component is rolled at a time over the whole cloud, in the order of the catalogue.

mod ahead;
mod judge;
mod part;
mod strategy;
mod tally;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::api::{Approval, Rollout, RolloutPhase, RolloutStatus};
use crate::catalog::Catalog;
use crate::desired::{Desired, DesiredRelease};
use crate::observed::{Daemons, Node, Observed, Rolling};
use crate::plan::{Plan, Policy, Step};
use part::Part;

pub use ahead::ahead;
pub use judge::State;
pub use strategy::{Strategy, strategies};

/// How long a promise stands after helm's last record: what a watch on the `DaemonSets` tells may come after what one on the records does.
const KEPT: SignedDuration = SignedDuration::from_mins(5);

/// How many nodes a status names.
const NAMED: usize = 20;

/// Rollouts by component: `nova/compute`.
pub type Rollouts = BTreeMap<String, RolloutStatus>;

/// What is looked at.
pub struct Scene<'a> {
    /// What is wanted.
    pub desired: &'a Desired,
    /// What is.
    pub observed: &'a Observed,
    /// Which releases are rolled, in which order.
    pub catalog: &'a Catalog,
    /// What is done about every release.
    pub plan: &'a Plan,
    /// What is allowed.
    pub policy: &'a Policy,
    /// How it is to be done.
    pub settings: &'a Rollout,
    /// The pods that are watched.
    pub rolling: &'a BTreeMap<Daemons, Rolling>,
    /// The nodes, where they may be seen.
    pub nodes: Option<&'a BTreeMap<String, Node>>,
    /// What was said last.
    pub before: &'a Rollouts,
    /// The uids of pods that were evicted a moment ago: a watch may not have told yet.
    pub evicted: &'a BTreeSet<String>,
    /// What time it is.
    pub now: Timestamp,
}

/// A pod to be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: another pod may come by its name.
    pub uid: String,
    /// The node that it is on.
    pub node: String,
}

/// What to do now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Next {
    /// What is to be said of every rollout.
    pub rollouts: Rollouts,
    /// The pods to evict now, all of one component.
    pub evict: Vec<Eviction>,
    /// Whose they are, in [`Next::rollouts`].
    pub of: Option<String>,
    /// The daemons whose pods must be seen.
    pub watch: BTreeSet<Daemons>,
    /// When to look again, where only time has to pass.
    pub wake: Option<Timestamp>,
    /// Whether something is not seen yet that a person's word may be about.
    pub unseen: bool,
}

/// Decides for every component of the data plane.
pub fn next(scene: &Scene<'_>) -> Next {
    let parts = part::parts(scene);
    let mut next = Next { rollouts: promised(scene), ..Next::default() };
    let mut over = Rollouts::new();
    let on: Vec<&Part> = parts.iter().filter(|part| part.is_on()).collect();
    next.watch = on.iter().map(|part| part.daemons()).collect();
    for part in parts.iter().filter(|part| !part.is_on() && !next.rollouts.contains_key(&part.name())) {
        over.extend(part.over().map(|said| (part.name(), said)));
    }
    next.rollouts.extend(over);
    let turn = judge::turn(scene, &on);
    for part in on {
        let state = judge::judge(scene, part, turn.as_deref());
        next.wake = next.wake.into_iter().chain(state.wake()).min();
        next.unseen |= state == State::Unseen;
        if let State::Evict(pods) = &state {
            (next.evict, next.of) = (pods.clone(), Some(part.name()));
        }
        let promised = next.rollouts.remove(&part.name()).map(|said| said.approved_inputs).unwrap_or_default();
        next.rollouts.extend(part.told(scene, &state, promised).map(|said| (part.name(), said)));
    }
    next
}

/// What a person has agreed to of releases that are about to be changed: their pods' next revision is known only afterwards, and until then the
/// inputs stand for it.
fn promised(scene: &Scene<'_>) -> Rollouts {
    let agreed = scene.policy.approved.as_deref() == Some(scene.plan.hash.as_str());
    let changing = |name: &String, release: &DesiredRelease| {
        let runs = scene.observed.releases.get(&release.key).is_some_and(|seen| seen.was_deployed);
        agreed && runs && scene.plan.decisions.get(name).is_some_and(|own| part::is_changing(&own.step))
    };
    let named = scene.catalog.rollout.iter().filter_map(|name| Some((name, scene.desired.releases.get(name)?)));
    let promise = |(name, release): (&String, &DesiredRelease)| {
        let (changing, mut promised) = (changing(name, release), Rollouts::new());
        for component in release.components.keys().filter(|component| part::is_daemons(release, component)) {
            let known = scene.before.get(&component.to_string()).filter(|said| !said.phase.is_on());
            let standing =
                known.is_some_and(|said| said.approved_inputs == release.inputs) && !is_kept(scene, name, release);
            if changing || standing {
                let (release, approved_inputs) = (name.clone(), release.inputs.clone());
                let said = RolloutStatus { release, approved_inputs, ..known.cloned().unwrap_or_default() };
                promised.insert(component.to_string(), said);
            }
        }
        promised
    };
    named.flat_map(promise).collect()
}

/// Whether what was promised has come to its end: helm is through for so long that a template which it changed would have been seen.
fn is_kept(scene: &Scene<'_>, name: &str, release: &DesiredRelease) -> bool {
    let since = scene.observed.releases.get(&release.key).and_then(|seen| seen.since);
    let settled = scene.plan.decisions.get(name).is_some_and(|own| own.step == Step::Ready);
    settled && since.is_some_and(|since| scene.now.duration_since(since) > KEPT)
}

/// Whether every word of a person that `now` stands on is written in `stored`.
pub fn is_recorded(now: &Rollouts, stored: &Rollouts) -> bool {
    let word = |said: &RolloutStatus| (said.approved.then(|| said.revision.clone()), said.approved_inputs.clone());
    let nothing = RolloutStatus::default();
    now.iter().all(|(name, said)| word(said) == word(stored.get(name).unwrap_or(&nothing)))
}

/// The rollouts that wait for a person.
pub fn awaiting(rollouts: &Rollouts) -> impl Iterator<Item = (&String, &RolloutStatus)> {
    rollouts.iter().filter(|(_, said)| said.phase == RolloutPhase::AwaitingApproval)
}

/// On how many nodes the pods of which daemons may be missing for now, since a batch of them is being made anew.
pub fn renewed(rollouts: &Rollouts, desired: &Desired) -> BTreeMap<Daemons, i32> {
    let rolling = rollouts.iter().filter(|(_, said)| said.phase == RolloutPhase::Rolling);
    let of = |(name, said): (&String, &RolloutStatus)| {
        let namespace = desired.releases.get(&said.release)?.key.namespace.clone();
        Some((Daemons { namespace, component: crate::catalog::Component::parse(name)? }, said.batch_size))
    };
    rolling.filter_map(of).collect()
}

/// Whether a rollout needs nobody's word.
fn is_automatic(settings: &Rollout) -> bool {
    settings.approval == Some(Approval::Automatic)
}

#[cfg(test)]
mod tests;
