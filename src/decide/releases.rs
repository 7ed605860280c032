//! Actions on releases: helm starts in the order of the longest remaining chain, as far as there are slots.

use std::cmp::Reverse;
use std::time::Duration;

use super::action::{Action, Approval, Planned};
use super::draft::Draft;
use osdpl_core::desired::Desired;
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan::{self, Plan, Reason, Step, Wait};
use osdpl_core::release::Status;

/// How long helm may take to render before others start beside it: it waits for something then.
pub const RENDERING: Duration = Duration::from_secs(20);

/// Plans the step of every release, and lets those wait for which helm has no slot.
pub fn act(draft: &mut Draft<'_>, releases: &mut Plan, (desired, observed): (&Desired, &Observed)) {
    let priorities = desired.priorities();
    let mut names: Vec<String> = releases.decisions.keys().cloned().collect();
    names.sort_by_key(|name| Reverse(priorities.get(name.as_str()).copied().unwrap_or_default()));
    let (mut free, mut rendering) = (draft.snapshot.helm.free_slots, draft.snapshot.helm.rendering);
    let mut is_queued = false;
    for name in names {
        let Some(decision) = releases.decisions.get_mut(&name) else { continue };
        let key = decision.key.clone();
        if let Some(sweep) = &decision.sweep {
            let action = Action::CleanUp { release: key.clone(), sweep: sweep.clone(), others: others(&key, observed) };
            draft.attempt(Planned::new(action, "failed revisions may have left objects behind"));
        }
        let planned = match &decision.step {
            Step::Do(action, why) => {
                let verb = match action {
                    plan::Action::Upgrade { .. } if free == 0 || rendering >= draft.snapshot.helm.cores => {
                        Some("upgrade")
                    }
                    plan::Action::Uninstall { .. } if free == 0 => Some("uninstall"),
                    _ => None,
                };
                if let Some(verb) = verb {
                    decision.step = Step::Wait(Wait::Helm { verb: verb.to_owned(), queued: true, hook: None });
                    is_queued = true;
                    continue;
                }
                match action {
                    plan::Action::Upgrade { .. } => (free, rendering) = (free - 1, rendering + 1),
                    plan::Action::Uninstall { .. } => free -= 1,
                    _ => {}
                }
                Planned::new(Action::Release { name, key, action: action.clone() }, why.to_string())
            }
            Step::Wait(Wait::Approval(why)) => {
                let action = match why {
                    Reason::NotDesired => plan::Action::Uninstall { skip_hooks: false },
                    _ => plan::Action::Upgrade { delete_jobs: Vec::new() },
                };
                let planned = Planned::new(Action::Release { name, key, action }, why.to_string());
                Planned { approval: Approval::Missing, ..planned }
            }
            Step::Wait(_) | Step::Settling(_) | Step::Ready => continue,
        };
        draft.add(planned);
    }
    draft.wake(draft.snapshot.now.checked_add(RENDERING).ok().filter(|_| is_queued));
}

/// The revisions of all other releases of ours that say what is theirs: the newest, and the deployed one.
fn others(key: &ReleaseKey, observed: &Observed) -> Vec<(ReleaseKey, u32)> {
    let ours = observed.releases.iter().filter(|(other, seen)| *other != key && seen.is_ours());
    let revisions = ours.flat_map(|(other, seen)| {
        let newest = seen.history.iter().map(|past| past.revision).max();
        let deployed = seen.history.iter().filter(|past| past.status == Status::Deployed);
        let all: std::collections::BTreeSet<u32> = deployed.map(|past| past.revision).chain(newest).collect();
        all.into_iter().map(|revision| (other.clone(), revision))
    });
    revisions.collect()
}

/// Plans to delete the Jobs that helm left of releases that were uninstalled: hooks belong to no release, so an uninstall does not delete them.
/// Returns whether some are left.
pub fn delete_jobs<'k>(draft: &mut Draft<'_>, releases: impl IntoIterator<Item = &'k ReleaseKey>) -> bool {
    let mut left = false;
    for release in releases {
        let Some(jobs) = draft.list(super::requests::Read::Jobs(release.clone())) else {
            left = true;
            continue;
        };
        for (key, _) in jobs {
            left = true;
            let action = Action::Delete { kind: super::action::Kind::Job, key: key.clone() };
            draft.add(Planned::new(action, format!("release {release} was uninstalled")));
        }
    }
    left
}
