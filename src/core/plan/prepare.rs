//! Decides what osdpl must do before it runs helm for a release: wait for a backoff or for needed components, delete
//! Jobs, or clean up.

use std::collections::BTreeSet;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{Action, Context, Policy, Reason, State, Step, Wait};
use crate::api::HookPolicy;
use crate::desired::DesiredRelease;
use crate::observed::{Failed, ObservedRelease, ReleaseKey, RetryCondition};
use crate::release::{Cleanup, Status, Verb, cleanup_before_uninstall, pending_cleanup};
use osdpl_values::{CollectSorted, digest};

impl Context<'_> {
    /// Returns the step that installs or upgrades a release, or a wait if something must happen before helm can run.
    ///
    /// `record` is helm's newest record of the release; `None` if helm has no record. `why` is the reason for the
    /// upgrade.
    pub(super) fn upgrade_step(
        &self,
        name: &str,
        release: &DesiredRelease,
        record: Option<&ObservedRelease>,
        why: Reason,
    ) -> Step {
        if let Some(blocked) = Self::blocked(release) {
            return blocked;
        }
        // osdpl can't tell whether the spec or an addition to the catalogue changed the release's inputs. So while any
        // addition waits for approval, every release with new inputs waits, too.
        let has_new_inputs = record.is_none_or(|record| record.inputs.as_deref() != Some(release.inputs.as_str()));
        if has_new_inputs && !self.policy.changed_additions.is_empty() && !self.approved() {
            return Step::Wait(Wait::Approval(Reason::Additions(self.policy.changed_additions.clone())));
        }
        if let Some(wait) = self.backoff(name, &release.key, Verb::Upgrade, &release.inputs) {
            return wait;
        }
        let unmet = self.unmet_needs(release);
        if !unmet.is_empty() {
            return Step::Wait(Wait::Needs(unmet));
        }
        let Some(record) = record else {
            return Step::Do(Action::Upgrade { delete_jobs: Vec::new(), skip_hooks: false }, why);
        };
        let (Some(delete_jobs), Some(skip_hooks)) =
            (jobs_to_delete(release, record), self.skips_hooks(release, record, &why))
        else {
            return Step::Wait(Wait::ReleaseRecord);
        };
        Step::Do(Action::Upgrade { delete_jobs, skip_hooks }, why)
    }

    /// Whether the upgrade can skip the release's hooks, because they would only repeat the work of earlier hooks;
    /// `None` until osdpl has read the payload of the newest record.
    ///
    /// The hooks can be skipped if all of the following is true. If osdpl is not sure, the hooks run.
    ///
    /// * The reason for the upgrade is that inputs changed in the spec or in the catalogue. A repair, or an upgrade
    ///   after a failure, always runs the hooks.
    /// * osdpl made the newest revision, and helm deployed it. So its hooks succeeded, or osdpl skipped them because
    ///   they had the same inputs as the last hooks that succeeded.
    /// * The upgrade changes neither images nor an input that the hooks may read.
    /// * All Jobs of the hooks exist and are complete, because the init containers of new pods wait for these Jobs.
    /// * The spec does not set `hooks: Always`.
    fn skips_hooks(&self, release: &DesiredRelease, record: &ObservedRelease, why: &Reason) -> Option<bool> {
        let is_change = matches!(why, Reason::Spec | Reason::Catalog);
        let is_deployed = record.status == Status::Deployed;
        let same_inputs = release.hooks.is_some() && record.hooks == release.hooks && has_images(release, record);
        if self.policy.hooks == HookPolicy::Always || !is_change || !is_deployed || !same_inputs {
            return Some(false);
        }
        let is_complete = |(namespace, name): &(String, String)| {
            let mut jobs = self.observed.jobs.iter();
            jobs.any(|job| job.complete && job.namespace == *namespace && job.name == *name)
        };
        Some(record.body.as_ref()?.hook_jobs.iter().all(is_complete))
    }

    pub(super) fn blocked(release: &DesiredRelease) -> Option<Step> {
        let blocked = release.blocked.as_ref()?;
        Some(Step::Wait(Wait::Blocked { reason: blocked.reason.clone(), message: blocked.message.clone() }))
    }

    /// Returns the wait before osdpl may repeat the failed operation `verb` with the same inputs; `None` if no such
    /// operation failed, or if the backoff is over. If only other inputs can help, the wait is [`Wait::Blocked`].
    ///
    /// If a person requests a repair, that person has probably fixed the cause of the failure. So a requested repair
    /// waits only for the short delay of [`RetryCondition::Time`].
    pub(super) fn backoff(&self, name: &str, key: &ReleaseKey, verb: Verb, inputs: &str) -> Option<Step> {
        let failed = self.observed.failures.get(key).filter(|failed| failed.verb == verb && failed.inputs == inputs)?;
        let Failed { at, count, message, .. } = failed;
        let repair = Policy::selects(&self.policy.repair, name);
        let Some(delay) = backoff_delay(key, *count, if repair { RetryCondition::Time } else { failed.fix }) else {
            let reason = crate::api::reason::FAILED.to_owned();
            return Some(Step::Wait(Wait::Blocked { reason, message: message.clone() }));
        };
        let until = at.checked_add(delay).unwrap_or(Timestamp::MAX);
        (until > self.now).then(|| Step::Wait(Wait::Backoff { until, count: *count, message: message.clone() }))
    }

    /// Returns the cleanup of the objects that failed revisions left behind; `None` if osdpl has nothing to clean up in
    /// this pass.
    ///
    /// osdpl cleans up after a failed revision as soon as a later revision has succeeded. osdpl also cleans up before
    /// each upgrade and uninstall: both make helm drop old records, and only the records name the objects to clean up.
    pub(super) fn cleanup(&self, state: &State<'_>, step: &Step) -> Option<Cleanup> {
        let record = match state {
            State::InSync(record) | State::Failed(record) | State::OutOfDate(record) | State::Foreign(record) => {
                *record
            }
            State::Absent
            | State::Running(_)
            | State::Locked(..)
            | State::Abandoned(_)
            | State::Uninstalling(_)
            | State::Unmanaged(_)
            | State::Undecodable(_) => return None,
        };
        match step {
            Step::Do(Action::Uninstall { .. }, _) => cleanup_before_uninstall(&record.history),
            Step::Do(Action::Upgrade { .. }, _) => pending_cleanup(&record.history),
            Step::Settling(_) | Step::Ready if matches!(state, State::InSync(_)) && !self.policy.paused => {
                pending_cleanup(&record.history)
            }
            Step::Do(Action::Unlock | Action::Adopt { .. } | Action::Unmanage | Action::Stop, _)
            | Step::Wait(_)
            | Step::Settling(_)
            | Step::Ready => None,
        }
    }
}

/// Returns the names of the Jobs that osdpl must delete before an upgrade; `None` until osdpl has read the payload of
/// the newest record.
///
/// osdpl always deletes the plain Jobs (the Jobs that are not hooks). Jobs are immutable, so helm cannot change them.
///
/// osdpl deletes hook Jobs if the upgrade changes images. helm itself would replace these Jobs only after it has
/// changed the workloads. Until then, the new pods would see that the old Job `db-sync` is complete, and would start on
/// an old database schema. osdpl reads the names of the hook Jobs from helm's newest record, because the desired
/// version of the chart may use other names.
pub fn jobs_to_delete(release: &DesiredRelease, record: &ObservedRelease) -> Option<Vec<String>> {
    let mut jobs = release.plain_jobs.clone();
    if !has_images(release, record) {
        let known: BTreeSet<String> = jobs.iter().cloned().collect_set();
        let hooks = record.body.as_ref()?.hook_jobs.iter();
        let in_namespace =
            hooks.filter(|(namespace, _)| *namespace == release.key.namespace).map(|(_, name)| name.clone());
        jobs.extend(in_namespace.filter(|name| !known.contains(name)));
    }
    Some(jobs)
}

/// Whether osdpl made the newest revision, and made it with the desired images.
///
/// The record's label with the digest of the images counts only if osdpl made the revision. If someone else made the
/// revision, helm copied the label from an earlier revision.
fn has_images(release: &DesiredRelease, record: &ObservedRelease) -> bool {
    let ours = record.attempt.as_ref().is_some_and(|attempt| attempt.revision == record.revision);
    ours && record.images.as_deref() == Some(release.images.as_str())
}

/// Returns the shortest and the longest delay before a retry, in seconds; `None` if a retry with the same inputs cannot
/// succeed. `fix` says what must change before a retry can succeed.
///
/// The delay doubles with each failure in a row.
fn retry_delay_range(fix: RetryCondition) -> Option<(i64, i64)> {
    match fix {
        RetryCondition::Time => Some((10, 600)),
        // Each retry that fails writes all objects of the release again and adds a revision, so osdpl retries rarely.
        // osdpl never gives up, because no watch reports when a person fixes the cause, such as an immutable object or
        // a quota.
        RetryCondition::Manual => Some((120, 3600)),
        RetryCondition::Inputs => None,
    }
}

/// Returns the delay before the next try after `count` failures in a row, with up to a quarter added as jitter; `None`
/// if a retry cannot succeed.
///
/// The jitter is not random, because equal inputs must give equal plans. osdpl computes the jitter from the release's
/// namespace and name and from `count`.
pub fn backoff_delay(key: &ReleaseKey, count: u32, fix: RetryCondition) -> Option<SignedDuration> {
    let (first, longest) = retry_delay_range(fix)?;
    let seconds = first.saturating_mul(1 << count.saturating_sub(1).min(6)).min(longest);
    let spread = digest([key.to_string().as_str(), &count.to_string()]);
    let share = i64::from_str_radix(&spread[..4], 16).unwrap_or_default();
    Some(SignedDuration::from_millis(seconds * 1000 + seconds * 250 * share / 0xffff))
}
