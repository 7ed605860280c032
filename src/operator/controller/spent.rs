//! Annotations with which a person agreed to something once: taken away when that was done, so that they agree to nothing else later.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::Context;
use super::gather::{Wish, names};
use super::memory::Memory;
use osdpl_core::api::{ADOPT, APPROVE, OpenStackDeployment, REPAIR, SKIP_HOOKS, reason};
use osdpl_core::catalog::{Level, did_you_mean};
use osdpl_core::desired::Finding;
use osdpl_core::observed::{Observed, ObservedRelease, ReleaseKey};
use osdpl_core::plan::{Action, Plan, Policy, Step, Wait};
use osdpl_core::rollout::{self, NextRollouts};

const ALL: &str = "all";

/// When an annotation that could not be taken away is tried again: no watch tells of rights that are given back.
const AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// The time between two words on why: they may be others each time (a request's number), and each is an event, and a write that is followed by a pass.
const PACE: SignedDuration = SignedDuration::from_mins(1);

/// What is taken away of annotations, with what is left of each.
type Spent = BTreeMap<&'static str, Option<String>>;

/// Annotations that could not be taken away.
pub struct Staying {
    spent: Spent,
    /// Why, as it was told last.
    problem: String,
    /// When that was told.
    told: Timestamp,
    /// When it is tried again.
    again: Timestamp,
}

impl Staying {
    /// After it was refused once more.
    fn refused(before: Option<Self>, spent: &Spent, problem: String, now: Timestamp) -> Self {
        let again = now.checked_add(AGAIN).unwrap_or(now);
        let before = before.filter(|before| before.spent == *spent && now.duration_since(before.told) < PACE);
        match before {
            Some(before) => Self { again, ..before },
            None => Self { spent: spent.clone(), problem, told: now, again },
        }
    }

    /// After it was asked for: none stays that was taken away (`true`); where the resource changed meanwhile nothing was, and what was told stands.
    fn asked(before: Option<Self>, spent: &Spent, answer: Result<bool, String>, now: Timestamp) -> Option<Self> {
        match answer {
            Ok(true) => None,
            Ok(false) => before,
            Err(problem) => Some(Self::refused(before, spent, problem, now)),
        }
    }

    /// Whether the same is to be left alone now.
    fn rests(&self, spent: &Spent, now: Timestamp) -> bool {
        self.spent == *spent && now < self.again
    }

    /// A warning for each that stays: what a person took out meanwhile, or left as it is to be, does not.
    fn warnings(&self, annotations: &BTreeMap<String, String>) -> Vec<Finding> {
        let stays = |(annotation, left): &(&&'static str, &Option<String>)| {
            annotations.get(**annotation).is_some_and(|value| Some(value) != left.as_ref())
        };
        self.spent.iter().filter(stays).map(|(annotation, _)| warning(annotation, &self.problem)).collect()
    }
}

/// The releases that a repair was asked for and that are about to be upgraded.
pub fn repairs(plan: &Plan, policy: &Policy) -> BTreeSet<String> {
    let upgraded =
        plan.decisions.iter().filter(|(_, decision)| matches!(decision.step, Step::Do(Action::Upgrade { .. }, _)));
    upgraded.map(|(name, _)| name.clone()).filter(|name| policy.repair.contains(name)).collect()
}

/// What is left of the names that a repair was asked for, `started` being those that helm is at now: what fails from there on is retried
/// without a person's word. `all` counts until nothing is left to do that needs no other word of a person's: what waits for one may wait for months.
fn left(asked: &BTreeSet<String>, started: &BTreeSet<String>, plan: &Plan) -> BTreeSet<String> {
    let began = |name: &String| {
        started.contains(name)
            && plan
                .decisions
                .get(name)
                .is_some_and(|decision| matches!(decision.step, Step::Wait(Wait::Helm { queued: false, .. })))
    };
    let over = |name: &String| name == ALL && !plan.decisions.values().any(|decision| is_open(&decision.step));
    asked.iter().filter(|name| !began(name) && !over(name)).cloned().collect()
}

/// Whether something is left to do that needs no other word of a person's.
fn is_open(step: &Step) -> bool {
    match step {
        Step::Do(..) => true,
        Step::Settling(_) | Step::Ready => false,
        Step::Wait(wait) => match wait {
            Wait::Needs(_)
            | Wait::Helm { .. }
            | Wait::Locked { .. }
            | Wait::Backoff { .. }
            | Wait::ReleaseRecord
            | Wait::Dependents(_)
            | Wait::Terminating(_) => true,
            // A chart is asked for again by itself; the rest waits for what the spec says or names.
            Wait::Blocked { reason, .. } => matches!(reason.as_str(), reason::CHART | reason::CHART_PENDING),
            Wait::Approval(_)
            | Wait::Paused
            | Wait::Refused
            | Wait::Foreign { .. }
            | Wait::Unmanaged(_)
            | Wait::Undecodable(_) => false,
        },
    }
}

/// What is left of the names that were to be taken over: those that still belong to nobody. `all` counts until none does.
fn unadopted(wish: &Wish) -> BTreeSet<String> {
    let releases = &wish.desired.releases;
    let is_open = |name: &String| {
        let seen = releases.get(name).and_then(|release| wish.observed.releases.get(&release.key));
        seen.is_none_or(|seen| !seen.is_ours())
    };
    let done = |name: &String| match name.as_str() {
        ALL => releases
            .values()
            .all(|release| wish.observed.releases.get(&release.key).is_none_or(ObservedRelease::is_ours)),
        _ => !is_open(name),
    };
    wish.policy.adopt.iter().filter(|name| !done(name)).cloned().collect()
}

/// Warnings of names in annotations that no release has: nothing is ever done for them, and so nothing takes them away.
pub fn nameless(policy: &Policy, names: &BTreeMap<ReleaseKey, String>, observed: &Observed) -> Vec<Finding> {
    let ours = observed.releases.iter().filter(|(_, seen)| seen.is_ours());
    let ours = ours.map(|(key, seen)| seen.release.as_deref().unwrap_or(&key.name));
    let known: BTreeSet<&str> = names.values().map(String::as_str).chain(ours).chain([ALL]).collect();
    let asked = [(ADOPT, &policy.adopt), (REPAIR, &policy.repair), (SKIP_HOOKS, &policy.skip_hooks)];
    let asked = asked.into_iter().flat_map(|(annotation, names)| names.iter().map(move |name| (annotation, name)));
    let unknown = asked.filter(|(_, name)| !known.contains(name.as_str()));
    let warning = |(annotation, name): (&str, &String)| {
        let hint = did_you_mean(name, known.iter().copied());
        let message = format!("there is no release {name:?}{hint}; nothing is done for it: correct it, or take it out");
        Finding::new(Level::Warning, format!("annotation {annotation}"), message)
    };
    unknown.map(warning).collect()
}

impl Memory {
    /// Notes that helm is at a release for which a repair was asked.
    pub(super) fn repairing(&mut self, name: &str, policy: &Policy) {
        if policy.repair.contains(name) {
            self.repairing.insert(name.to_owned());
        }
    }

    /// Takes out of the policy the repairs that began: taking them out of the annotation may fail, and they are asked for once.
    pub(super) fn unspent(&mut self, mut policy: Policy) -> Policy {
        self.repairing.retain(|name| policy.repair.contains(name));
        policy.repair.retain(|name| !self.repairing.contains(name));
        policy
    }
}

impl Context {
    /// Takes away what has had its effect. Where that is refused it is a warning, and asked again after a while.
    pub(super) async fn spend(
        &self,
        deployment: &OpenStackDeployment,
        plan: &Plan,
        wish: &mut Wish,
        (started, rolled): (BTreeSet<String>, &NextRollouts),
        memory: &mut Memory,
    ) {
        let known = !wish.refused && !wish.fetching && wish.pending.is_empty();
        // A rollout stands on a person's word longer than the annotation does: first it is written down.
        let stored = deployment.status.as_ref().map(|status| &status.rollouts);
        let kept = !rolled.is_incomplete
            && stored.is_some_and(|stored| rollout::are_approvals_stored(&rolled.rollouts, stored));
        let mut spent = Spent::new();
        if wish.policy.approved.is_some() && known && kept && plan.is_idle() {
            spent.insert(APPROVE, None);
        }
        let left = [(ADOPT, unadopted(wish)), (REPAIR, left(&wish.policy.repair, &started, plan))];
        for (annotation, left) in left.into_iter().filter(|_| known) {
            if left != names(deployment, annotation) {
                let left = left.into_iter().collect::<Vec<_>>().join(",");
                spent.insert(annotation, Some(left).filter(|left| !left.is_empty()));
            }
        }
        let now = super::now();
        // Where it is not known what was done nothing is taken away, and what stays is told as before.
        if known && !memory.staying.as_ref().is_some_and(|staying| staying.rests(&spent, now)) {
            let answer = self.cluster.annotate(deployment, &spent).await;
            let answer = answer.map_err(|error| self.scrubber.borrow().scrub(&error.to_string()));
            memory.staying = Staying::asked(memory.staying.take(), &spent, answer, now);
        }
        if let Some(staying) = &memory.staying {
            wish.findings.extend(staying.warnings(deployment.annotations()));
            // What keeps it from being asked for now pokes when it ends.
            wish.wake = wish.wake.into_iter().chain(Some(staying.again).filter(|again| *again > now)).min();
        }
    }
}

/// The warning that an annotation stays which has had its effect.
fn warning(annotation: &str, problem: &str) -> Finding {
    let message = format!(
        "it had its effect and could not be taken away: {problem}; let the operator change annotations of the resource, or take it out yourself"
    );
    Finding::new(Level::Warning, format!("annotation {annotation}"), message)
}

#[cfg(test)]
mod tests;
