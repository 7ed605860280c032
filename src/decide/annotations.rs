//! Plans the removal of annotations that request a one-time action, such as a repair. osdpl removes such an annotation,
//! or a name in it, when the action is done.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use osdpl_values::CollectSorted;

use super::action::{Action, Planned};
use super::draft::Draft;
use super::kept::Kept;
use super::nodes;
use super::resource::annotated_names;
use osdpl_core::api::{ADOPT, APPROVE, Approval, REPAIR, SKIP_HOOKS, reason};
use osdpl_core::catalog::{Level, did_you_mean};
use osdpl_core::desired::{Desired, Finding};
use osdpl_core::nodes::LabelRemoval;
use osdpl_core::observed::{Observed, ObservedRelease, ReleaseKey};
use osdpl_core::plan::{Plan, Policy, Step, Wait};
use osdpl_core::rollout::{self, NextRollouts};

/// The word that an annotation contains in place of names if it means every release.
const ALL: &str = "all";

/// Returns the policy without the repairs that osdpl has already started.
///
/// The repair annotation may name a release for several passes, but osdpl must start the repair only once.
pub(crate) fn without_started_repairs(kept: &mut Kept, mut policy: Policy) -> Policy {
    kept.repairing.retain(|name| policy.repair.contains(name));
    policy.repair.retain(|name| !kept.repairing.contains(name));
    policy
}

/// Plans to remove what osdpl has completed from the annotations of the `OpenStackDeployment`: a whole annotation, or
/// some of the names in it.
///
/// If the API server has refused such a removal, the function adds a warning.
pub(crate) fn consume(
    draft: &mut Draft<'_>,
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
    policy: &Policy,
    rollouts: &NextRollouts,
    removal: &LabelRemoval,
) {
    let deployment = &draft.snapshot.deployment;
    // An approval of a rollout, of a removal of labels or of additions must still apply after osdpl has removed the
    // approval annotation. So the status must contain the approval first.
    let is_stored = !rollouts.is_incomplete
        && (policy.changed_additions.is_empty() || !policy.approves(&plan.hash))
        && deployment.status.as_ref().is_some_and(|stored| {
            rollout::are_approvals_stored(&rollouts.rollouts, &stored.rollouts)
                && nodes::is_stored(removal, stored.label_removal.as_ref())
        });
    let mut consumed: BTreeMap<&'static str, Option<String>> = BTreeMap::new();
    // With `approval: Always`, later passes read the approved target hash from the status. So the status must contain
    // the hash, too, before osdpl removes the annotation.
    let must_store = policy.approval == Approval::Always && policy.approved.as_ref() == Some(&plan.hash);
    let is_target_stored = !must_store || policy.approved_target.as_ref() == Some(&plan.hash);
    if policy.approved.is_some() && is_stored && is_target_stored && plan.is_idle() {
        consumed.insert(APPROVE, None);
    }
    let adoptions = remaining_adoptions(desired, observed, policy);
    for (annotation, left) in [(ADOPT, adoptions), (REPAIR, remaining_repairs(&policy.repair, plan))] {
        if left != annotated_names(deployment, annotation) {
            let left = left.into_iter().collect::<Vec<_>>().join(",");
            consumed.insert(annotation, Some(left).filter(|left| !left.is_empty()));
        }
    }
    if consumed.is_empty() || draft.paused {
        return;
    }
    let action = Action::Annotate(consumed.clone());
    let Some(refusal) = draft.attempt(Planned::new(action, "osdpl did what the annotation requests")) else { return };
    let remaining = consumed.iter().filter(|(annotation, left)| {
        deployment.annotations().get(**annotation).is_some_and(|value| Some(value) != left.as_ref())
    });
    draft.findings.extend(remaining.map(|(annotation, left)| {
        let names = annotated_names(deployment, annotation);
        not_consumed_warning(annotation, &names, left.as_deref(), &refusal.message)
    }));
}

/// Returns the names that stay in the repair annotation, because osdpl may still have to repair their releases.
///
/// The name `all` stays while osdpl can upgrade at least one release without a decision of the user. If each remaining
/// release waits for a decision of the user, osdpl removes `all`: the decision may come months later, when the user no
/// longer expects a repair.
fn remaining_repairs(requested: &BTreeSet<String>, plan: &Plan) -> BTreeSet<String> {
    let is_done = |name: &String| name == ALL && !plan.decisions.values().any(|decision| is_open(&decision.step));
    requested.iter().filter(|name| !is_done(name)).cloned().collect_set()
}

/// Whether a release with this step can still reach a helm run without a decision of the user.
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
            // A wait for a chart can end by itself, because the operator tries again to fetch the chart. A release that
            // is blocked for another reason waits until the user changes the spec or an object that the spec names.
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

/// Returns the names that stay in the adoption annotation, because osdpl has not adopted their releases yet.
///
/// The name `all` stays until osdpl has installed or adopted every desired release that exists in the cluster.
fn remaining_adoptions(desired: &Desired, observed: &Observed, policy: &Policy) -> BTreeSet<String> {
    let releases = &desired.releases;
    let is_open = |name: &String| {
        let existing = releases.get(name).and_then(|release| observed.releases.get(&release.key));
        existing.is_none_or(|existing| !existing.is_ours())
    };
    let is_done = |name: &String| match name.as_str() {
        ALL => {
            releases.values().all(|release| observed.releases.get(&release.key).is_none_or(ObservedRelease::is_ours))
        }
        _ => !is_open(name),
    };
    policy.adopt.iter().filter(|name| !is_done(name)).cloned().collect_set()
}

/// Returns a warning for each name in an annotation if no release has this name.
///
/// An unknown name has no effect, and osdpl never removes it from the annotation. So osdpl warns about the name.
pub(crate) fn unknown_names(
    policy: &Policy,
    names: &BTreeMap<ReleaseKey, String>,
    observed: &Observed,
) -> Vec<Finding> {
    let ours = observed.releases.iter().filter(|(_, existing)| existing.is_ours());
    let ours = ours.map(|(key, existing)| existing.release.as_deref().unwrap_or(&key.name));
    let known: BTreeSet<&str> = names.values().map(String::as_str).chain(ours).chain([ALL]).collect_set();
    let annotated = [(ADOPT, &policy.adopt), (REPAIR, &policy.repair), (SKIP_HOOKS, &policy.skip_hooks)];
    let annotated = annotated.into_iter().flat_map(|(key, names)| names.iter().map(move |name| (key, name)));
    let unknown = annotated.filter(|(_, name)| !known.contains(name.as_str()));
    let warning = |(annotation, name): (&str, &String)| {
        let hint = did_you_mean(name, known.iter().copied());
        let message = format!(
            "there is no release {name:?}{hint}, so osdpl ignores this name; correct it, or remove it from the \
             annotation"
        );
        Finding::new(Level::Warning, format!("annotation {annotation}"), message)
    };
    unknown.map(warning).collect()
}

/// Returns the warning that osdpl has completed the action of an annotation, or of some names in it, but could not
/// remove the annotation or these names.
///
/// `names` are the names in the annotation. `left` are the names that must stay in it, separated by commas; `None` if
/// osdpl has completed the whole annotation.
fn not_consumed_warning(annotation: &str, names: &BTreeSet<String>, left: Option<&str>, problem: &str) -> Finding {
    let (action, done) = match left {
        None => ("what the annotation requests".to_owned(), "the annotation".to_owned()),
        Some(left) => {
            let is_done = |name: &&str| !left.split(',').any(|left| left == *name);
            let done = names.iter().map(String::as_str).filter(is_done).collect::<Vec<_>>().join(", ");
            (format!("what the annotation requests for {done}"), format!("{done} from the annotation"))
        }
    };
    let message = format!(
        "osdpl has done {action}, but could not remove {done}: {problem}; allow the operator to change annotations of \
         the resource, or remove {done} yourself"
    );
    Finding::new(Level::Warning, format!("annotation {annotation}"), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use osdpl_core::plan::{Decision, Reason};
    use osdpl_core::release::Verb;

    fn plan(steps: &[(&str, Step)]) -> Plan {
        let decision = |name: &str, step: &Step| {
            (
                name.to_owned(),
                Decision { key: ReleaseKey::new("cloud", name), step: step.clone(), cleanup: None, drift_action: None },
            )
        };
        Plan { decisions: steps.iter().map(|(name, step)| decision(name, step)).collect(), ..Plan::default() }
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn repairing_all_ends_when_the_rest_needs_the_user() {
        let all = set(&[ALL]);
        let with = |step: Step| remaining_repairs(&all, &plan(&[("nova", Step::Ready), ("heat", step)]));
        for done in
            [Wait::Unmanaged(None), Wait::Paused, Wait::Approval(Reason::Catalog), Wait::Undecodable("x".into())]
        {
            assert_eq!(with(Step::Wait(done)), set(&[]));
        }
        let helm = Wait::Helm { verb: Verb::Upgrade, queued: true, hook: None };
        let blocked = |reason: &str| Wait::Blocked { reason: reason.into(), message: "x".into() };
        assert_eq!(with(Step::Wait(blocked(reason::INPUTS))), set(&[]));
        let locked = Wait::Locked { until: None, message: "held by another helm process".into() };
        let dependents = Wait::Dependents(vec!["nova".into()]);
        for open in [helm, Wait::Needs(Vec::new()), locked, blocked(reason::CHART), Wait::ReleaseRecord, dependents] {
            assert_eq!(with(Step::Wait(open)), all);
        }
    }

    #[test]
    fn names_the_completed_part_of_an_annotation() {
        let names = set(&["glance", "heat", "nova"]);
        let warning = |left| not_consumed_warning(REPAIR, &names, left, "forbidden").to_string();
        assert_eq!(
            warning(Some("heat")),
            "annotation osdpl.dev/repair: osdpl has done what the annotation requests for glance, nova, but could not remove glance, nova from the annotation: forbidden; allow the operator to change annotations of the resource, or remove glance, nova from the annotation yourself"
        );
        assert_eq!(
            warning(None),
            "annotation osdpl.dev/repair: osdpl has done what the annotation requests, but could not remove the annotation: forbidden; allow the operator to change annotations of the resource, or remove the annotation yourself"
        );
    }

    #[test]
    fn suggests_a_release_for_an_unknown_name() {
        let names = BTreeMap::from([(ReleaseKey::new("cloud", "keystone"), "keystone".to_owned())]);
        let mut observed = Observed::default();
        let existing = ObservedRelease { own_inputs: Some("old".into()), ..ObservedRelease::default() };
        observed.releases.insert(ReleaseKey::new("cloud", "heat"), existing);
        let warnings = |repair: &[&str]| {
            let policy = Policy { repair: set(repair), skip_hooks: set(&["heat"]), ..Policy::default() };
            unknown_names(&policy, &names, &observed).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(warnings(&["keystone", ALL]), [""; 0]);
        assert_eq!(
            warnings(&["keystoen"]),
            [
                "annotation osdpl.dev/repair: there is no release \"keystoen\" (did you mean \"keystone\"?), so osdpl ignores this name; correct it, or remove it from the annotation"
            ]
        );
    }

    #[test]
    fn repairs_once_per_annotation() {
        let requested = || Policy { repair: set(&["nova", "heat"]), ..Policy::default() };
        let mut kept = Kept::default();
        assert_eq!(without_started_repairs(&mut kept, requested()).repair, requested().repair);
        kept.repairing.extend(set(&["nova", "glance"]));
        assert_eq!(without_started_repairs(&mut kept, requested()).repair, set(&["heat"]));
        assert_eq!(without_started_repairs(&mut kept, Policy::default()).repair, set(&[]));
        assert_eq!(
            without_started_repairs(&mut kept, requested()).repair,
            requested().repair,
            "a new annotation requests the repair again"
        );
    }
}
