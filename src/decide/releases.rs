//! Plans the helm runs of releases. The number of helm processes is limited: each process needs a free slot. If too few
//! slots are free, the release with the longest chain of dependents starts first.

use std::cmp::Reverse;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use osdpl_values::CollectSorted;

use super::action::{Action, Approval, Kind, Planned};
use super::cleanup;
use super::crds::{self, Definitions};
use super::draft::Draft;
use super::requests::Read;
use super::snapshot::Helm;
use osdpl_core::desired::Desired;
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan::{self, Decision, Plan, Policy, Reason, State, Step, Wait, classify, settle_step};
use osdpl_core::release::Verb;

/// The time for which osdpl assumes that a new helm process renders its chart. After this time, osdpl assumes that the
/// process only waits, for hooks or for the API server. Then another process may start to render.
pub const RENDER_LIMIT: Duration = Duration::from_secs(20);

/// Plans the actions for the steps of all releases.
///
/// If helm can't start for a release now, the function replaces the release's step in `releases` with a wait. helm
/// can't start if no slot is free, or if the release must wait for its CRDs.
pub(crate) fn plan_steps(
    draft: &mut Draft<'_>,
    releases: &mut Plan,
    desired: &Desired,
    observed: &Observed,
    policy: &Policy,
) {
    let is_allowed = policy.approves(&releases.hash);
    let priorities = desired.priorities();
    let mut names: Vec<String> = releases.decisions.keys().cloned().collect();
    names.sort_by_key(|name| Reverse(priorities.get(name.as_str()).copied().unwrap_or_default()));
    let mut slots = Slots::new(&draft.snapshot.helm);
    let mut is_queued = false;
    for name in names {
        let Some(decision) = releases.decisions.get_mut(&name) else { continue };
        let key = decision.key.clone();
        if let Some(cleanup) = &decision.cleanup {
            cleanup::plan(draft, &key, cleanup, observed);
        }
        match &decision.step {
            Step::Do(action, why) => match slots.take(action) {
                Ok(()) => {
                    let is_upgrade = matches!(action, plan::Action::Upgrade { .. });
                    let definitions =
                        if is_upgrade { crds::plan(draft, &name, &key, observed) } else { Ok(Definitions::default()) };
                    let added = definitions.and_then(|definitions| {
                        let action = Action::Release { name, key, action: action.clone() };
                        add_action(draft, action, why, definitions, is_allowed)
                    });
                    if let Err(wait) = added {
                        slots.give_back_upgrade();
                        decision.step = Step::Wait(wait);
                    }
                }
                Err(verb) => {
                    decision.step = Step::Wait(Wait::Helm { verb, queued: true, hook: None });
                    is_queued = true;
                }
            },
            Step::Wait(Wait::Approval(why)) => {
                let (action, definitions) = if why.is_removal() {
                    (plan::Action::Uninstall { skip_hooks: false }, Definitions::default())
                } else {
                    // An error of `crds::plan` makes an upgrade wait. This upgrade already waits, so only report it.
                    let definitions = crds::plan(draft, &name, &key, observed).unwrap_or_else(|wait| {
                        draft.findings.extend(crds::unknown_changes(&name, &wait));
                        Definitions::default()
                    });
                    draft.findings.extend(crds::changes_by_helm(&name, &definitions));
                    (plan::Action::Upgrade { delete_jobs: Vec::new(), skip_hooks: false }, definitions)
                };
                add_waiting(draft, Action::Release { name, key, action }, why, definitions.actions);
            }
            Step::Wait(_) | Step::Settling(_) | Step::Ready => {}
        }
    }
    draft.requeue(draft.snapshot.now.checked_add(RENDER_LIMIT).ok().filter(|_| is_queued));
}

/// Adds the action of a release to the plan, after the writes of the CRDs that the action needs.
///
/// # Errors
/// Returns an error if the writes of the CRDs need an approval that is missing. The added action then waits for the
/// approval, too.
fn add_action(
    draft: &mut Draft<'_>,
    action: Action,
    why: &Reason,
    definitions: Definitions,
    is_allowed: bool,
) -> Result<(), Wait> {
    let Definitions { actions, changed } = definitions;
    if changed.is_empty() || is_allowed {
        draft.add_with_prerequisites(Planned::new(action, why.to_string()), actions);
        return Ok(());
    }
    let why = Reason::Crds(changed);
    add_waiting(draft, action, &why, actions);
    Err(Wait::Approval(why))
}

/// Adds the action of a release to the plan, after the writes of the CRDs that the action needs. Marks the action and
/// these writes as waiting for approval.
fn add_waiting(draft: &mut Draft<'_>, action: Action, why: &Reason, definitions: Vec<Planned>) {
    let waits = |planned| Planned { approval: Approval::Missing, ..planned };
    let planned = waits(Planned::new(action, why.to_string()));
    draft.add_with_prerequisites(planned, definitions.into_iter().map(waits).collect());
}

/// The number of further helm processes that may start in this pass (`processes`), and the number of these that may
/// render a chart (`renders`).
struct Slots {
    processes: usize,
    renders: usize,
}

impl Slots {
    fn new(helm: &Helm) -> Self {
        Self { processes: helm.free_slots, renders: helm.cores.saturating_sub(helm.rendering) }
    }

    /// Takes the slots that the helm process of an action needs; an action without a helm process needs none.
    ///
    /// # Errors
    /// If a needed slot is not free, returns the helm operation of the action as the error.
    fn take(&mut self, action: &plan::Action) -> Result<(), Verb> {
        match action {
            plan::Action::Upgrade { .. } if self.processes == 0 || self.renders == 0 => return Err(Verb::Upgrade),
            plan::Action::Uninstall { .. } if self.processes == 0 => return Err(Verb::Uninstall),
            plan::Action::Upgrade { .. } => (self.processes, self.renders) = (self.processes - 1, self.renders - 1),
            plan::Action::Uninstall { .. } => self.processes -= 1,
            _ => {}
        }
        Ok(())
    }

    /// Gives back the slots that an upgrade took: helm does not start, because the upgrade waits for its CRDs.
    fn give_back_upgrade(&mut self) {
        (self.processes, self.renders) = (self.processes + 1, self.renders + 1);
    }
}

/// Returns the steps for a refused spec. No step changes a release: each release that is not in sync waits for a valid
/// spec.
pub(crate) fn steps_of_refused_spec(desired: &Desired, observed: &Observed) -> Plan {
    let decisions = desired.releases.iter().map(|(name, release)| {
        let step = match classify(Some(release), &release.key, observed, Timestamp::UNIX_EPOCH) {
            State::InSync(existing) => settle_step(release, existing, observed),
            _ => Step::Wait(Wait::Refused),
        };
        (name.clone(), Decision { key: release.key.clone(), step, cleanup: None, drift_action: None })
    });
    Plan { decisions: decisions.collect_map(), ..Plan::default() }
}

/// Plans to delete the Jobs of uninstalled releases. Returns `true` while Jobs are left, or osdpl has not listed them
/// yet.
///
/// An uninstall by helm leaves the Jobs of hooks behind, because for helm, hooks are not part of the release.
pub(crate) fn delete_jobs<'k>(draft: &mut Draft<'_>, releases: impl IntoIterator<Item = &'k ReleaseKey>) -> bool {
    let mut are_left = false;
    for release in releases {
        let Some(jobs) = draft.list(Read::Jobs(release.clone())) else {
            are_left = true;
            continue;
        };
        for (key, uid) in jobs {
            are_left = true;
            let action = Action::Delete { kind: Kind::Job, key: key.clone(), uid: uid.clone() };
            draft.add(Planned::new(action, format!("release {release} was uninstalled")));
        }
    }
    are_left
}
