//! The checks and preparations before an operation starts.

use std::collections::BTreeSet;

use super::{Action, Context, Policy, Reason, State, Step, Wait, backoff_delay};
use crate::desired::DesiredRelease;
use crate::observed::{Failed, Fix, ObservedRelease, ReleaseKey};
use crate::release::{Cleanup, Verb, cleanup_before_uninstall, pending_cleanup};

impl Context<'_> {
    /// The upgrade of a release, or the reason why it waits; `seen` is helm's newest record, if any.
    pub(super) fn upgrade_step(
        &self,
        name: &str,
        release: &DesiredRelease,
        seen: Option<&ObservedRelease>,
        why: Reason,
    ) -> Step {
        if let Some(blocked) = Self::blocked(release) {
            return blocked;
        }
        if let Some(wait) = self.backoff(name, &release.key, Verb::Upgrade, &release.inputs) {
            return wait;
        }
        let unmet = self.unmet_needs(release);
        if !unmet.is_empty() {
            return Step::Wait(Wait::Needs(unmet));
        }
        match seen.map(|seen| jobs_to_delete(release, seen)) {
            None => Step::Do(Action::Upgrade { delete_jobs: Vec::new() }, why),
            Some(Some(delete_jobs)) => Step::Do(Action::Upgrade { delete_jobs }, why),
            Some(None) => Step::Wait(Wait::ReleaseRecord),
        }
    }

    pub(super) fn blocked(release: &DesiredRelease) -> Option<Step> {
        let blocked = release.blocked.as_ref()?;
        Some(Step::Wait(Wait::Blocked { reason: blocked.reason.clone(), message: blocked.message.clone() }))
    }

    /// The backoff after a failure.
    ///
    /// A person who requests a repair has fixed something, so failures that need manual work are retried as soon as
    /// others.
    pub(super) fn backoff(&self, name: &str, key: &ReleaseKey, verb: Verb, inputs: &str) -> Option<Step> {
        let failed = self.observed.failures.get(key).filter(|failed| failed.verb == verb && failed.inputs == inputs)?;
        let Failed { at, count, message, .. } = failed;
        let repair = Policy::selects(&self.policy.repair, name);
        let Some(delay) = backoff_delay(key, *count, if repair { Fix::Time } else { failed.mend }) else {
            let reason = crate::api::reason::FAILED.to_owned();
            return Some(Step::Wait(Wait::Blocked { reason, message: message.clone() }));
        };
        let until = at.checked_add(delay).unwrap_or(k8s_openapi::jiff::Timestamp::MAX);
        (until > self.now).then(|| Step::Wait(Wait::Backoff { until, count: *count, message: message.clone() }))
    }

    /// The leftovers of failed revisions to clean up: after a revision succeeded, and before the next operation,
    /// because helm then drops old records.
    pub(super) fn cleanup(&self, state: &State<'_>, step: &Step) -> Option<Cleanup> {
        let seen = match state {
            State::InSync(seen) | State::Failed(seen) | State::OutOfDate(seen) | State::Foreign(seen) => *seen,
            State::Absent
            | State::Running(_)
            | State::Locked(..)
            | State::Abandoned(_)
            | State::Uninstalling(_)
            | State::Unmanaged(_)
            | State::Undecodable(_) => return None,
        };
        match step {
            Step::Do(Action::Uninstall { .. }, _) => cleanup_before_uninstall(&seen.history),
            Step::Do(Action::Upgrade { .. }, _) => pending_cleanup(&seen.history),
            Step::Settling(_) | Step::Ready if matches!(state, State::InSync(_)) && !self.policy.paused => {
                pending_cleanup(&seen.history)
            }
            Step::Do(Action::Unlock | Action::Adopt { .. } | Action::Unmanage | Action::Stop, _)
            | Step::Wait(_)
            | Step::Settling(_)
            | Step::Ready => None,
        }
    }
}

/// The Jobs to delete before an upgrade; `None` if they are not known yet.
///
/// Plain Jobs are immutable. Helm replaces hook Jobs itself, but only after it changed the workloads: new pods would
/// find the previous `db-sync` complete and start on an old schema. That matters only if images change. The hook Jobs
/// are taken from helm's record, because they differ between chart versions.
pub fn jobs_to_delete(release: &DesiredRelease, seen: &ObservedRelease) -> Option<Vec<String>> {
    let mut jobs = release.plain_jobs.clone();
    if !has_images(release, seen) {
        let known: BTreeSet<String> = jobs.iter().cloned().collect();
        let hooks = seen.body.as_ref()?.hook_jobs.iter();
        let in_namespace =
            hooks.filter(|(namespace, _)| *namespace == release.key.namespace).map(|(_, name)| name.clone());
        jobs.extend(in_namespace.filter(|name| !known.contains(name)));
    }
    Some(jobs)
}

/// Whether we made the newest revision with the same images. The label counts only on our own revisions.
fn has_images(release: &DesiredRelease, seen: &ObservedRelease) -> bool {
    let ours = seen.attempt.as_ref().is_some_and(|attempt| attempt.revision == seen.revision);
    ours && seen.images.as_deref() == Some(release.images.as_str())
}
