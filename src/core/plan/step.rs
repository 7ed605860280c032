//! The step for each state.

use k8s_openapi::jiff::Timestamp;

use super::{Context, DriftAction, Policy, State, settle_step};
use crate::catalog::Component;
use crate::desired::DesiredRelease;
use crate::observed::{ComparisonResult, ObservedRelease, ReleaseKey, RunningHelm};
use crate::release::{Cleanup, Status, Verb};

/// The decision about one release.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The release's identity.
    pub key: ReleaseKey,
    /// The operation to start, or the reason to wait.
    pub step: Step,
    /// The leftovers of failed revisions to clean up before the step.
    pub cleanup: Option<Cleanup>,
    /// The handling of drift; `None` without drift.
    pub drift_action: Option<DriftAction>,
}

/// The next step of a release.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Start an operation.
    Do(Action, Reason),
    /// Start nothing, for this reason.
    Wait(Wait),
    /// In sync, but these workloads and Jobs are not ready yet, one line each.
    Settling(Vec<String>),
    /// In sync and ready.
    Ready,
}

/// An operation for `osdpl-operator` to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// `helm upgrade --install`, after deleting these Jobs.
    Upgrade {
        /// The Jobs to delete first: plain Jobs are immutable, and hook Jobs of the previous revision must not be
        /// mistaken for new ones.
        delete_jobs: Vec<String>,
    },
    /// `helm uninstall`.
    Uninstall {
        /// Whether hooks are skipped.
        skip_hooks: bool,
    },
    /// Unlock the record of an interrupted operation.
    Unlock,
    /// Remove our labels from the release's records, which leaves it unmanaged.
    Unmanage,
    /// Add our labels to a record that someone else made.
    Adopt {
        /// Whether it equals the desired state; otherwise it is out of date afterwards.
        in_sync: bool,
    },
    /// Stop the running helm process: its inputs are outdated and it cannot succeed.
    Stop,
}

/// The reason for an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is not installed.
    Install,
    /// The spec, or an input that it refers to, changed.
    Spec,
    /// The operator or its catalogue changed, not the spec.
    Catalog,
    /// Settings that running instances depend on changed. Contains the hosts of the instances.
    Instances(String),
    /// The `DaemonSets` are split by node differently. Contains the components whose pods are recreated, each with the
    /// number of nodes.
    Split(Vec<(Component, i32)>),
    /// The last attempt failed.
    Retry(u32),
    /// A person requested a repair.
    Repair,
    /// Others changed its objects, and the spec sets `drift: Repair`.
    Drift,
    /// It is no longer desired.
    NotDesired,
    /// An uninstall was started and not finished.
    Unfinished,
    /// An interrupted operation left this status.
    Abandoned(Status),
    /// The spec does not manage it any more.
    Unmanaged,
    /// A foreign revision equals the desired state.
    Matches,
    /// A person requested its adoption.
    AdoptRequested,
    /// It was adopted and differs from the desired state.
    Adopted,
    /// The desired state changed while helm runs. With the hook that helm waits for, and the hook's problem.
    Superseded(Option<String>),
}

/// Why a release waits.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    /// For these components to become available.
    Needs(Vec<Component>),
    /// For our own helm process.
    Helm {
        /// Its operation.
        verb: Verb,
        /// Whether it is queued for a free slot, or for CPUs that other helm processes use to render.
        queued: bool,
        /// The hook that it waits for, with its problem.
        hook: Option<String>,
    },
    /// For a foreign helm process, or for another operator process that is running.
    Locked {
        /// When the lock expires, if it does. No watch reports that.
        until: Option<Timestamp>,
        /// The holder.
        message: String,
    },
    /// For approval.
    Approval(Reason),
    /// For the backoff after a failure.
    Backoff {
        /// When it ends.
        until: Timestamp,
        /// The number of failures in a row.
        count: u32,
        /// The failure.
        message: String,
    },
    /// For the spec, or an object that it refers to, to be fixed.
    Blocked {
        /// The reason of the condition.
        reason: String,
        /// What happened, where and why, and what to do.
        message: String,
    },
    /// For `paused` to be removed.
    Paused,
    /// For the spec to be fixed: a refused spec is not applied.
    Refused,
    /// For its release record to be read, which decides what is deleted before the operation.
    ReleaseRecord,
    /// For these dependent releases to be removed.
    Dependents(Vec<String>),
    /// For a person to decide about a foreign revision.
    Foreign {
        /// The revision.
        revision: i64,
        /// Helm's description of the operation (`Rollback to 1`); empty before the record was read.
        description: String,
        /// When the record was created.
        since: Option<Timestamp>,
    },
    /// For a person to decide about a release that osdpl never managed, with the comparison if it is known.
    Unmanaged(Option<ComparisonResult>),
    /// For a person to inspect a record that cannot be decoded.
    Undecodable(String),
    /// The namespace is being deleted.
    Terminating(String),
}

impl Step {
    /// Returns when to requeue, if the wait only needs time.
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
            // While paused, not even labels are written, unless a person requested the adoption.
            _ if paused => Step::Wait(Wait::Paused),
            State::Foreign(record) | State::OutOfDate(record) if self.matches_desired(release, record) => {
                Step::Do(Action::Adopt { in_sync: true }, Reason::Matches)
            }
            _ if self.observed.terminating.contains(&release.key.namespace) => {
                Step::Wait(Wait::Terminating(release.key.namespace.clone()))
            }
            State::Abandoned(record) => Step::Do(Action::Unlock, Reason::Abandoned(record.status)),
            State::Uninstalling(_) => Step::Do(self.uninstall(name, &release.key), Reason::Unfinished),
            State::Absent => self.upgrade_step(name, release, None, Reason::Install),
            State::Failed(record) => self.retry_step(name, release, record),
            State::OutOfDate(record) => self.change_step(name, release, record),
            State::Foreign(record) => self.foreign_step(name, release, record),
            State::InSync(record) => self.upgrade_step(name, release, Some(record), self.repair_reason(name)),
        }
    }

    /// Returns the step of a release that is no longer desired.
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

    /// Returns the step of a release that is no longer desired: its uninstall, or the reason why that waits.
    ///
    /// Helm uninstalls a release in any status, also a pending one, so the record is not unlocked first.
    fn uninstall_step(&self, name: &str, key: &ReleaseKey) -> Step {
        let dependents = self.dependents(name);
        if !dependents.is_empty() {
            return Step::Wait(Wait::Dependents(dependents));
        }
        if !self.policy.deleting && !self.approved() {
            return Step::Wait(Wait::Approval(Reason::NotDesired));
        }
        if let Some(wait) = self.backoff(name, key, Verb::Uninstall, "") {
            return wait;
        }
        Step::Do(self.uninstall(name, key), Reason::NotDesired)
    }

    /// Returns the uninstall operation. It skips hooks in a namespace that is being deleted, because no Job starts
    /// there.
    fn uninstall(&self, name: &str, key: &ReleaseKey) -> Action {
        let skip_hooks = self.observed.terminating.contains(&key.namespace);
        Action::Uninstall { skip_hooks: skip_hooks || Policy::selects(&self.policy.skip_hooks, name) }
    }

    /// Returns the step while a helm process runs.
    ///
    /// Helm is stopped only if its inputs are outdated, it cannot succeed, and another operation can start instead.
    fn running_step(&self, name: &str, key: &ReleaseKey, child: &RunningHelm, wanted: Option<&DesiredRelease>) -> Step {
        let (hook, stuck) = self.describe_hook(key);
        let outdated = child.verb == Verb::Upgrade && wanted.map(|release| &release.inputs) != Some(&child.inputs);
        // A deletion does not wait for a hook, even if the hook makes progress: its result is not used.
        let stop =
            outdated && !child.stopping && (self.policy.deleting || stuck && self.has_replacement(name, key, wanted));
        // An uninstall with a hook that cannot end is stopped once a person requested to skip hooks.
        let skip_hooks = self.uninstall(name, key) == Action::Uninstall { skip_hooks: true };
        let skip = child.verb == Verb::Uninstall && !child.stopping && !child.skips_hooks && skip_hooks;
        if stop || skip {
            return Step::Do(Action::Stop, Reason::Superseded(hook));
        }
        Step::Wait(Wait::Helm { verb: child.verb, queued: false, hook })
    }

    /// Whether another operation could start after helm was stopped. If not, helm is not stopped.
    fn has_replacement(&self, name: &str, key: &ReleaseKey, wanted: Option<&DesiredRelease>) -> bool {
        let state = self.observed.releases.get(key).map_or(State::Absent, State::Failed);
        let next = match wanted {
            Some(release) => self.desired_step(name, release, state),
            None => self.removal_step(name, key, state),
        };
        matches!(next, Step::Do(..))
    }

    /// Returns the hook that helm waits for, with its problem, and whether it cannot succeed.
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
        None => "another operator process that is still running".to_owned(),
        Some(until) => format!("a helm process that osdpl did not start (its lock expires at {until:.0})"),
    };
    Wait::Locked { until, message: format!("revision {} is {}, held by {who}", record.revision, record.status) }
}
