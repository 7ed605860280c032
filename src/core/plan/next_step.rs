//! Decides the step of a release from its state.

use super::step::{Action, Reason, Step, Wait, locked_wait};
use super::{Context, Policy, State, settle_step};
use crate::desired::DesiredRelease;
use crate::observed::{ReleaseKey, RunningHelm};
use crate::release::{Status, Verb};

impl Context<'_> {
    /// Returns the next step for a release that the spec desires, according to the release's state.
    pub(super) fn desired_step(&self, name: &str, release: &DesiredRelease, state: State<'_>) -> Step {
        let paused = self.policy.paused || release.paused;
        match state {
            State::Running(child) => self.running_step(name, &release.key, child, Some(release)),
            _ if !release.managed => match Self::unmanage_step(state) {
                Step::Do(..) if paused => Step::Wait(Wait::Paused),
                step => step,
            },
            State::Undecodable(problem) => Step::Wait(Wait::Undecodable(problem.to_owned())),
            State::Unmanaged(record) => self.unmanaged_step(name, release, record),
            State::Locked(record, until) => Step::Wait(locked_wait(record, until)),
            _ if release.is_refused() => Self::blocked(release).unwrap_or(Step::Wait(Wait::Refused)),
            State::InSync(record) if !self.needs_repair(name, release) => settle_step(release, record, self.observed),
            // While the release is paused, osdpl does not even write labels to its records. The only exception is an
            // adoption that a person requested; the arm of `State::Unmanaged` above returns the step for this adoption.
            _ if paused => Step::Wait(Wait::Paused),
            State::Foreign(record) | State::OutOfDate(record) if self.matches_desired(release, record) => {
                Step::Do(Action::Adopt { in_sync: true }, Reason::Matches)
            }
            _ if self.observed.terminating.contains(&release.key.namespace) => {
                Step::Wait(Wait::Terminating(release.key.namespace.clone()))
            }
            State::Abandoned(record) => {
                let unlock = || Step::Do(Action::Unlock, Reason::Abandoned(record.status));
                self.backoff(name, &release.key, Verb::Upgrade, &release.inputs).unwrap_or_else(unlock)
            }
            State::Uninstalling(_) => self.start_uninstall(name, &release.key, Reason::Unfinished),
            State::Absent => self.requested_step(name, release, None, Reason::Install),
            State::Failed(record) => self.retry_step(name, release, record),
            State::OutOfDate(record) => self.change_step(name, release, record),
            State::Foreign(record) => self.foreign_step(name, release, record),
            State::InSync(record) => self.upgrade_step(name, release, Some(record), self.repair_reason(name)),
        }
    }

    /// Returns the step of a release that is no longer desired. `state` is the release's state.
    pub(super) fn removal_step(&self, name: &str, key: &ReleaseKey, state: State<'_>) -> Step {
        match state {
            State::Running(child) => self.running_step(name, key, child, None),
            State::Undecodable(problem) => Step::Wait(Wait::Undecodable(problem.to_owned())),
            State::Unmanaged(_) | State::Absent => Step::Ready,
            State::Locked(record, until) => Step::Wait(locked_wait(record, until)),
            // `osdpl_decide` decides what a deletion of a paused cloud does.
            _ if self.policy.paused_releases.contains(name) || (self.policy.paused && !self.policy.deleting) => {
                Step::Wait(Wait::Paused)
            }
            State::Abandoned(_)
            | State::Uninstalling(_)
            | State::Failed(_)
            | State::OutOfDate(_)
            | State::InSync(_)
            | State::Foreign(_) => self.uninstall_step(name, key),
        }
    }

    /// Returns the step of a release that exists although the spec no longer desires it: an uninstall, or the reason
    /// why the uninstall must wait.
    ///
    /// osdpl does not unlock a pending record before the uninstall, because helm uninstalls the release even if the
    /// record is pending.
    fn uninstall_step(&self, name: &str, key: &ReleaseKey) -> Step {
        let dependents = self.dependents(name);
        if !dependents.is_empty() {
            return Step::Wait(Wait::Dependents(dependents));
        }
        let is_owned = self.observed.owned.contains(key) && !self.observed.recognized.contains(key);
        if !is_owned && !self.is_approved() {
            return Step::Wait(Wait::Approval(Reason::NotOwned));
        }
        if is_owned && !self.policy.deleting && !self.approved() {
            return Step::Wait(Wait::Approval(Reason::NotDesired));
        }
        if let Some(wait) = self.backoff(name, key, Verb::Uninstall, "") {
            return wait;
        }
        self.start_uninstall(name, key, Reason::NotDesired)
    }

    /// Returns the step that starts an uninstall, or continues an uninstall that helm did not finish.
    ///
    /// If the unfinished uninstall has completed its hooks, osdpl does not run the hooks again. They may fail now,
    /// because helm may have deleted objects that they use, such as `ConfigMap`s.
    fn start_uninstall(&self, name: &str, key: &ReleaseKey, why: Reason) -> Step {
        let uninstall = self.uninstall(name, key);
        let record = self.observed.releases.get(key).filter(|record| record.status == Status::Uninstalling);
        let Some(record) = record.filter(|_| uninstall == Action::Uninstall { skip_hooks: false }) else {
            return Step::Do(uninstall, why);
        };
        match record.body.as_ref().and_then(|body| body.delete_hooks_completed) {
            Some(completed) => Step::Do(Action::Uninstall { skip_hooks: completed }, why),
            None => Step::Wait(Wait::ReleaseRecord),
        }
    }

    /// Returns the operation that uninstalls the release, with or without hooks.
    ///
    /// The uninstall skips the hooks if a person requested to skip them, or if the namespace is being deleted: no hook
    /// Job can start in a namespace that is being deleted.
    fn uninstall(&self, name: &str, key: &ReleaseKey) -> Action {
        let skip_hooks = self.observed.terminating.contains(&key.namespace);
        Action::Uninstall { skip_hooks: skip_hooks || Policy::selects(&self.policy.skip_hooks, name) }
    }

    /// Returns the step of a release for which the operator runs helm now.
    ///
    /// osdpl stops an upgrade with outdated inputs in two cases:
    ///
    /// * The cloud is being deleted.
    /// * The hook that helm waits for is stuck, and another operation can start after the stop.
    ///
    /// osdpl stops an uninstall that runs hooks if the uninstall must now skip the hooks.
    fn running_step(&self, name: &str, key: &ReleaseKey, child: &RunningHelm, wanted: Option<&DesiredRelease>) -> Step {
        let (hook, stuck) = self.describe_hook(key);
        let outdated = child.verb == Verb::Upgrade && wanted.map(|release| &release.inputs) != Some(&child.inputs);
        // While the cloud is being deleted, osdpl stops an upgrade even if its hook makes progress, because nobody
        // needs the result of the upgrade any more.
        let stop =
            outdated && !child.stopping && (self.policy.deleting || stuck && self.has_replacement(name, key, wanted));
        // Stop a running uninstall with hooks if it must now skip the hooks: after its start, a person has requested to
        // skip them, or Kubernetes has begun to delete the namespace.
        let skip_hooks = self.uninstall(name, key) == Action::Uninstall { skip_hooks: true };
        let skip = child.verb == Verb::Uninstall && !child.stopping && !child.skips_hooks && skip_hooks;
        if stop || skip {
            return Step::Do(Action::Stop, Reason::Superseded(hook));
        }
        Step::Wait(Wait::Helm { verb: child.verb, queued: false, hook })
    }

    /// Whether osdpl could start another operation on the release after it has stopped the running helm process. If
    /// not, osdpl lets that process run.
    fn has_replacement(&self, name: &str, key: &ReleaseKey, wanted: Option<&DesiredRelease>) -> bool {
        let state = self.observed.releases.get(key).map_or(State::Absent, State::Failed);
        let next = match wanted {
            Some(release) => self.desired_step(name, release, state),
            None => self.removal_step(name, key, state),
        };
        matches!(next, Step::Do(..))
    }

    /// Returns a description of the hook that helm waits for, with the hook's problem, and whether the hook is stuck. A
    /// hook is stuck if its Job failed, if a pod of the Job failed, or if the Job cannot proceed without a fix.
    fn describe_hook(&self, key: &ReleaseKey) -> (Option<String>, bool) {
        let body = self.observed.releases.get(key).and_then(|record| record.body.as_ref());
        let Some(hook) = body.and_then(|body| body.hook.as_ref()) else { return (None, false) };
        let is = |job: &&crate::observed::ObservedJob| {
            job.namespace == key.namespace && Some(&job.name) == hook.job.as_ref()
        };
        let Some(job) = self.observed.jobs.iter().find(is) else { return (Some(hook.name.clone()), false) };
        let stuck = job.failed || job.failures > 0 || job.trouble.as_ref().is_some_and(|trouble| trouble.stuck);
        let text = job
            .trouble
            .as_ref()
            .map_or_else(|| hook.name.clone(), |trouble| format!("{}: {}", hook.name, trouble.message));
        (Some(text), stuck)
    }
}
