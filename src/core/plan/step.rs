//! Decides the step of a release from its state.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

use super::{Context, DriftAction, Policy, State, settle_step};
use crate::catalog::Component;
use crate::desired::DesiredRelease;
use crate::observed::{ComparisonResult, ObservedRelease, ReleaseKey, RunningHelm};
use crate::release::{Cleanup, Status, Verb};

/// The decision about one release: its step, its cleanup and the repair of its drift.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The namespace and name of the release in helm.
    pub key: ReleaseKey,
    /// What osdpl does next with the release: it starts an operation, waits, or does nothing.
    pub step: Step,
    /// The cleanup of objects that failed revisions left behind; `None` if osdpl has nothing to clean up now. The
    /// operator runs the cleanup before the operation in `step`.
    pub cleanup: Option<Cleanup>,
    /// What osdpl does about the drift of the release; `None` if the release has no drift, or if the spec ignores
    /// drift.
    pub drift_action: Option<DriftAction>,
}

/// What osdpl does next with a release.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Start an operation on the release. Contains the operation and the reason for it.
    Do(Action, Reason),
    /// Start no operation on the release now. Contains the reason.
    Wait(Wait),
    /// The release has the desired inputs and is not ready yet. Contains one line for each reason, such as a workload
    /// or Job that is not ready.
    Settling(Vec<String>),
    /// The release has the desired inputs and is ready, or osdpl does not manage the release.
    Ready,
}

/// An operation for `osdpl-operator` to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Delete the Jobs in `delete_jobs`, then run `helm upgrade --install`.
    Upgrade {
        /// The names of the Jobs to delete: plain Jobs (Jobs that are not hooks) and hook Jobs. Plain Jobs are
        /// immutable, so helm cannot change them. The hook Jobs of the previous revision are already complete. If they
        /// still existed, new pods would not wait for the hook Jobs of the new revision, and would start too early.
        delete_jobs: Vec<String>,
        /// Whether helm runs no hooks (`--no-hooks`), because the upgrade changes no value that a hook reads.
        skip_hooks: bool,
    },
    /// Run `helm uninstall`.
    Uninstall {
        /// Whether helm runs no hooks (`--no-hooks`).
        skip_hooks: bool,
    },
    /// Unlock the release, so that helm accepts the next operation: mark the pending record of the interrupted
    /// operation as failed. If an interrupted install must run its pre-install hooks again, delete the record instead,
    /// because helm would upgrade a failed release and never run these hooks.
    Unlock,
    /// Remove osdpl's labels from the release's records, so that osdpl no longer manages the release.
    Unmanage,
    /// Add osdpl's labels to the record of a revision that someone else made.
    Adopt {
        /// Whether the revision equals the desired state. If not, osdpl writes labels with the value `adopted` instead
        /// of digests, and upgrades the release only after a person has approved the upgrade.
        in_sync: bool,
    },
    /// Stop the running helm process, so that osdpl can start another operation. The process runs an upgrade with
    /// outdated inputs, or an uninstall that must now skip the hooks.
    Stop,
}

/// Why osdpl starts an operation on a release, or why the operation needs approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The release is not installed.
    Install,
    /// An input of the release changed that does not come from the catalogue, such as a value in the spec.
    Spec,
    /// Inputs of the release that come from the catalogue changed, for example with a new version of the operator.
    Catalog,
    /// The content of additions to the catalogue changed. Contains the names of the additions' `ConfigMap`s.
    Additions(BTreeSet<String>),
    /// The content of the chart changed, although the spec or the catalogue's lock still requests the same version.
    Chart,
    /// The upgrade changes settings on which running OpenStack instances depend. Contains a description of the nodes
    /// that run instances.
    Instances(String),
    /// The upgrade changes how the nodes are divided among the `DaemonSets` of a component. Contains the components
    /// whose pods may restart, each with the number of its nodes.
    Split(Vec<(Component, i32)>),
    /// The upgrade changes existing CRDs of the chart. Contains their names.
    Crds(Vec<String>),
    /// The last attempt to upgrade the release failed. Contains the number of failures in a row.
    Retry(u32),
    /// A person requested a repair with an annotation.
    Repair,
    /// Someone changed or deleted objects of the release outside of helm, and the spec sets `drift: Repair`.
    Drift,
    /// The release is no longer desired.
    NotDesired,
    /// The release is no longer desired, and the status does not list it as part of the cloud. So a person must approve
    /// the uninstall.
    NotOwned,
    /// helm began to uninstall the release and did not finish the uninstall.
    Unfinished,
    /// An interrupted operation left the newest record pending. Contains the record's status.
    Abandoned(Status),
    /// The spec sets `managed: false` for the release.
    Unmanaged,
    /// The newest revision, which someone else made, equals the desired state.
    Matches,
    /// A person requested the adoption of the release.
    AdoptRequested,
    /// osdpl adopted the release although it differs from the desired state.
    Adopted,
    /// The running helm process is outdated, because the desired state changed after its start. If helm waits for a
    /// hook, contains the hook and the hook's problem.
    Superseded(Option<String>),
}

impl Reason {
    /// Whether the reason is that the release is no longer desired, so that osdpl uninstalls it.
    pub fn is_removal(&self) -> bool {
        matches!(self, Self::NotDesired | Self::NotOwned)
    }
}

/// The reason why osdpl starts no operation on a release now.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    /// The release waits for these components to become available.
    Needs(Vec<Component>),
    /// A helm process of the operator works on the release, or is queued. osdpl takes the next step for the release
    /// after this process has ended.
    Helm {
        /// The operation that helm runs: an upgrade or an uninstall.
        verb: Verb,
        /// Whether helm has not started for this release yet, because too many other helm processes of the operator are
        /// running.
        queued: bool,
        /// The hook that helm waits for, with the hook's problem; `None` if helm waits for no hook.
        hook: Option<String>,
    },
    /// The newest record is pending, so another operator process or a person could be running helm for the release now.
    Locked {
        /// When osdpl considers the helm process dead and stops waiting; `None` means never. The operator must start a
        /// reconcile pass at this time, because no watch event will trigger one.
        until: Option<Timestamp>,
        /// The message for the status. It says whose helm process could be running.
        message: String,
    },
    /// A person must first approve the change. Contains the reason for the change.
    Approval(Reason),
    /// The last operation on the release failed, and the delay before osdpl repeats it is not over.
    Backoff {
        /// When osdpl repeats the operation.
        until: Timestamp,
        /// How often in a row the operation failed.
        count: u32,
        /// The error of the last failed attempt.
        message: String,
    },
    /// osdpl cannot start the operation: for example, the chart or an input is missing, or the spec is invalid.
    Blocked {
        /// The value of `reason` in the status conditions that report the problem, such as `Failed`.
        reason: String,
        /// The problem that blocks the release, with its location, its cause and the remedy.
        message: String,
    },
    /// The spec pauses the whole cloud or this release.
    Paused,
    /// osdpl refuses the spec, so a person must fix it first. Until then, osdpl applies no part of the spec.
    Refused,
    /// The operator has not read the payload of the newest record yet. The payload names the hook Jobs that osdpl
    /// deletes before the upgrade, and the hooks that an unfinished uninstall has completed.
    ReleaseRecord,
    /// The release cannot be uninstalled yet: the releases with these names depend on it and must be uninstalled first.
    Dependents(Vec<String>),
    /// osdpl made an earlier revision, but someone else made the newest one. A person must decide what to do about it.
    Foreign {
        /// The number of the revision that someone else made.
        revision: i64,
        /// helm's description of the operation that made the revision, such as `Rollback to 1`; empty until the
        /// operator has read the record.
        description: String,
        /// When someone else made the revision; `None` if the time is unknown.
        since: Option<Timestamp>,
    },
    /// A person must decide what to do with the release, because osdpl made none of its revisions. Contains the result
    /// of comparing the newest revision with the desired state; `None` until osdpl has compared them.
    Unmanaged(Option<ComparisonResult>),
    /// A person must inspect the release's records, because osdpl cannot use them. Contains the reason.
    Undecodable(String),
    /// The namespace of the release is being deleted, so Kubernetes creates no objects in it. Contains the namespace's
    /// name.
    Terminating(String),
}

impl Step {
    /// Returns the time at which the operator must decide about the release again; `None` if the step does not wait
    /// until a known time.
    pub fn requeue_at(&self) -> Option<Timestamp> {
        match self {
            Self::Wait(Wait::Backoff { until, .. }) => Some(*until),
            Self::Wait(Wait::Locked { until, .. }) => *until,
            _ => None,
        }
    }
}

impl Context<'_> {
    /// Returns the step of a desired release.
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
            // adoption that a person requested; the arm of `State::Unmanaged` above returns its step.
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
            _ if self.is_paused(name) && !self.policy.deleting => Step::Wait(Wait::Paused),
            State::Abandoned(_)
            | State::Uninstalling(_)
            | State::Failed(_)
            | State::OutOfDate(_)
            | State::InSync(_)
            | State::Foreign(_) => self.uninstall_step(name, key),
        }
    }

    fn is_paused(&self, name: &str) -> bool {
        self.policy.paused || self.policy.paused_releases.contains(name)
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
    /// The uninstall skips the hooks if a person requested that, or if the namespace is being deleted: no hook Job can
    /// start in such a namespace.
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
        // Stop an uninstall that runs hooks if it must now skip them: after its start, a person has requested that, or
        // Kubernetes has begun to delete the namespace.
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

    /// Returns the hook that helm waits for, with the hook's problem, and whether the hook is stuck. A hook is stuck if
    /// its Job failed, if a pod of the Job failed, or if the Job cannot proceed without a fix.
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

pub(super) fn locked_wait(record: &ObservedRelease, until: Option<Timestamp>) -> Wait {
    let who = match until {
        None => "another operator process, which may still run helm".to_owned(),
        Some(until) => format!("a helm process that osdpl did not start (its lock expires at {until:.0})"),
    };
    Wait::Locked { until, message: format!("revision {} is {}, held by {who}", record.revision, record.status) }
}
