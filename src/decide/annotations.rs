//! Annotations with which a person agreed to something once: consumed when it was done, so that they agree to nothing else later.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;

use super::action::{Action, Planned};
use super::draft::Draft;
use super::kept::Kept;
use super::spec::names;
use osdpl_core::api::{ADOPT, APPROVE, REPAIR, SKIP_HOOKS, reason};
use osdpl_core::catalog::{Level, did_you_mean};
use osdpl_core::desired::{Desired, Finding};
use osdpl_core::observed::{Observed, ObservedRelease, ReleaseKey};
use osdpl_core::plan::{Plan, Policy, Step, Wait};
use osdpl_core::rollout::{self, NextRollouts};

/// Stands for every release.
const ALL: &str = "all";

/// Removes repairs that began from the policy: the annotation may name them for a while, and they are done once.
pub fn pending(kept: &mut Kept, mut policy: Policy) -> Policy {
    kept.repairing.retain(|name| policy.repair.contains(name));
    policy.repair.retain(|name| !kept.repairing.contains(name));
    policy
}

/// Plans to consume annotations that had their effect. Where the API server refuses that it is a warning.
pub fn consume(
    draft: &mut Draft<'_>,
    (desired, observed): (&Desired, &Observed),
    plan: &Plan,
    policy: &Policy,
    rolled: &NextRollouts,
) {
    let deployment = &draft.snapshot.deployment;
    // A rollout relies on an approval longer than the annotation exists: first the status records it.
    let stored = deployment.status.as_ref().map(|status| &status.rollouts);
    let recorded =
        !rolled.is_incomplete && stored.is_some_and(|stored| rollout::are_approvals_stored(&rolled.rollouts, stored));
    let mut consumed: BTreeMap<&'static str, Option<String>> = BTreeMap::new();
    if policy.approved.is_some() && recorded && plan.is_idle() {
        consumed.insert(APPROVE, None);
    }
    for (annotation, left) in [(ADOPT, unadopted((desired, observed), policy)), (REPAIR, left(&policy.repair, plan))] {
        if left != names(deployment, annotation) {
            let left = left.into_iter().collect::<Vec<_>>().join(",");
            consumed.insert(annotation, Some(left).filter(|left| !left.is_empty()));
        }
    }
    if consumed.is_empty() || draft.paused {
        return;
    }
    let action = Action::Annotate(consumed.clone());
    let Some(refusal) = draft.attempt(Planned::new(action, "it had its effect")) else { return };
    let stays = consumed.iter().filter(|(annotation, left)| {
        deployment.annotations().get(**annotation).is_some_and(|value| Some(value) != left.as_ref())
    });
    draft.findings.extend(stays.map(|(annotation, _)| warning(annotation, &refusal.message)));
}

/// The repairs that are still to be done. `all` counts until nothing is left to do that needs no other decision of a person: that may take months.
fn left(asked: &BTreeSet<String>, plan: &Plan) -> BTreeSet<String> {
    let is_done = |name: &String| name == ALL && !plan.decisions.values().any(|decision| is_open(&decision.step));
    asked.iter().filter(|name| !is_done(name)).cloned().collect()
}

/// Whether something is left to do that needs no other decision of a person.
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
            // A chart is fetched again by itself; other reasons wait for the spec, or what it names.
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

/// The releases that are still to be adopted. `all` counts until no release is left that is not ours.
fn unadopted((desired, observed): (&Desired, &Observed), policy: &Policy) -> BTreeSet<String> {
    let releases = &desired.releases;
    let is_open = |name: &String| {
        let seen = releases.get(name).and_then(|release| observed.releases.get(&release.key));
        seen.is_none_or(|seen| !seen.is_ours())
    };
    let is_done = |name: &String| match name.as_str() {
        ALL => {
            releases.values().all(|release| observed.releases.get(&release.key).is_none_or(ObservedRelease::is_ours))
        }
        _ => !is_open(name),
    };
    policy.adopt.iter().filter(|name| !is_done(name)).cloned().collect()
}

/// Warns of names in annotations that no release has: nothing is ever done for them, so nothing consumes them.
pub fn unknown_names(policy: &Policy, names: &BTreeMap<ReleaseKey, String>, observed: &Observed) -> Vec<Finding> {
    let ours = observed.releases.iter().filter(|(_, seen)| seen.is_ours());
    let ours = ours.map(|(key, seen)| seen.release.as_deref().unwrap_or(&key.name));
    let known: BTreeSet<&str> = names.values().map(String::as_str).chain(ours).chain([ALL]).collect();
    let asked = [(ADOPT, &policy.adopt), (REPAIR, &policy.repair), (SKIP_HOOKS, &policy.skip_hooks)];
    let asked = asked.into_iter().flat_map(|(annotation, names)| names.iter().map(move |name| (annotation, name)));
    let unknown = asked.filter(|(_, name)| !known.contains(name.as_str()));
    let warning = |(annotation, name): (&str, &String)| {
        let hint = did_you_mean(name, known.iter().copied());
        let message = format!("there is no release {name:?}{hint}; nothing is done for it: correct it, or take it out");
        Finding { level: Level::Warning, field: format!("annotation {annotation}"), message }
    };
    unknown.map(warning).collect()
}

/// The warning that an annotation stays which had its effect.
fn warning(annotation: &str, problem: &str) -> Finding {
    let message = format!(
        "it had its effect and could not be taken away: {problem}; let the operator change annotations of the resource, or take it out yourself"
    );
    Finding { level: Level::Warning, field: format!("annotation {annotation}"), message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osdpl_core::plan::{Decision, Reason};

    fn plan(steps: &[(&str, Step)]) -> Plan {
        let decision = |name: &str, step: &Step| {
            (
                name.to_owned(),
                Decision { key: ReleaseKey::new("cloud", name), step: step.clone(), sweep: None, mending: None },
            )
        };
        Plan { decisions: steps.iter().map(|(name, step)| decision(name, step)).collect(), ..Plan::default() }
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_repair_of_all_ends_when_the_rest_needs_a_person() {
        let all = set(&[ALL]);
        let with = |step: Step| left(&all, &plan(&[("nova", Step::Ready), ("heat", step)]));
        for over in
            [Wait::Unmanaged(None), Wait::Paused, Wait::Approval(Reason::Catalog), Wait::Undecodable("x".into())]
        {
            assert_eq!(with(Step::Wait(over)), set(&[]));
        }
        let helm = Wait::Helm { verb: "upgrade".into(), queued: true, hook: None };
        let blocked = |reason: &str| Wait::Blocked { reason: reason.into(), message: "x".into() };
        assert_eq!(with(Step::Wait(blocked(reason::INPUTS))), set(&[]));
        let locked = Wait::Locked { until: None, message: "held by a helm that is not ours".into() };
        let dependents = Wait::Dependents(vec!["nova".into()]);
        for open in [helm, Wait::Needs(Vec::new()), locked, blocked(reason::CHART), Wait::ReleaseRecord, dependents] {
            assert_eq!(with(Step::Wait(open)), all);
        }
    }

    #[test]
    fn names_the_nearest_release_for_an_unknown_one() {
        let names = BTreeMap::from([(ReleaseKey::new("cloud", "keystone"), "keystone".to_owned())]);
        let mut observed = Observed::default();
        let seen = ObservedRelease { own_inputs: Some("old".into()), ..ObservedRelease::default() };
        observed.releases.insert(ReleaseKey::new("cloud", "heat"), seen);
        let warnings = |repair: &[&str]| {
            let policy = Policy { repair: set(repair), skip_hooks: set(&["heat"]), ..Policy::default() };
            unknown_names(&policy, &names, &observed).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(warnings(&["keystone", ALL]), [""; 0]);
        assert_eq!(
            warnings(&["keystoen"]),
            [
                "annotation osdpl.dev/repair: there is no release \"keystoen\", did you mean \"keystone\"?; nothing is done for it: correct it, or take it out"
            ]
        );
    }

    #[test]
    fn a_repair_that_began_counts_once() {
        let asked = || Policy { repair: set(&["nova", "heat"]), ..Policy::default() };
        let mut kept = Kept::default();
        assert_eq!(pending(&mut kept, asked()).repair, asked().repair);
        kept.repairing.extend(set(&["nova", "glance"]));
        assert_eq!(pending(&mut kept, asked()).repair, set(&["heat"]));
        assert_eq!(pending(&mut kept, Policy::default()).repair, set(&[]));
        assert_eq!(pending(&mut kept, asked()).repair, asked().repair, "it is asked for anew");
    }
}
