//! From state to step: the table.

use k8s_openapi::jiff::Timestamp;

use super::{Context, Mending, Policy, State, settling};
use crate::catalog::Component;
use crate::desired::DesiredRelease;
use crate::observed::{Key, ReleaseSeen, RunningSeen, Verdict};
use crate::release::Sweep;

/// The decision about one release.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The release's identity.
    pub key: Key,
    /// What to do, or what it waits for.
    pub step: Step,
    /// What failed revisions left behind, to be removed before the step.
    pub sweep: Option<Sweep>,
    /// What is done about objects that others changed, where there are any.
    pub mending: Option<Mending>,
}

/// What to do with a release now.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Start this.
    Do(Action, Why),
    /// Nothing to start, for this reason.
    Wait(Wait),
    /// In sync; these workloads and Jobs are not ready yet, one line each.
    Settle(Vec<String>),
    /// In sync and ready.
    Ready,
}

/// Something that the shell can start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// `helm upgrade --install`, after deleting these Jobs.
    Upgrade {
        /// Jobs to delete before: plain ones are immutable, and those of hooks must not be taken for this revision's.
        delete_jobs: Vec<String>,
    },
    /// `helm uninstall`.
    Uninstall {
        /// Whether hooks are left out.
        skip_hooks: bool,
    },
    /// Unlock the record that a dead attempt left behind.
    Recover,
    /// Take our labels from the release's records: it is nobody's from then on.
    LetGo,
    /// Label the record that someone else made, as ours.
    Adopt {
        /// Whether it is as wanted; else it is out of date from then on.
        in_sync: bool,
    },
    /// Stop the child that runs: its inputs are not wanted any more and can't succeed.
    Stop,
}

/// Why something is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is not installed.
    Install,
    /// The spec (or an input it names) changed.
    Spec,
    /// The operator or its catalogue changed, not the spec.
    Catalog,
    /// Something changed that guests which run hold on to; where they may run, see [`super::guests::hosts`].
    Guests(String),
    /// Its `DaemonSets` are split by node in another way: all their pods, of these components on so many nodes, are made anew.
    Split(Vec<(Component, i32)>),
    /// The last attempt failed.
    Retry(u32),
    /// Repair was asked for.
    Repair,
    /// Others changed its objects, and the spec wants that taken back.
    Drift,
    /// It is not wanted any more.
    Unwanted,
    /// An uninstall began and did not end.
    Unfinished,
    /// A dead attempt left this status.
    Abandoned(String),
    /// The spec lets it go.
    Unmanaged,
    /// Someone else made it just as it is wanted.
    Alike,
    /// A person asked for it to be taken over.
    Asked,
    /// It was taken over as others made it, and is not as wanted.
    Adopted,
    /// The spec changed while helm waits for something that can't succeed.
    Superseded(String),
}

/// Why a release waits.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    /// For components to become available.
    Needs(Vec<Component>),
    /// For our own helm.
    Helm {
        /// `upgrade` or `uninstall`.
        verb: String,
        /// Whether it waits for a free slot, or for processors that other helms render on.
        queued: bool,
        /// The hook that it waits for, and what is wrong with it.
        hook: Option<String>,
    },
    /// For a helm that is not ours, or an operator that still lives.
    Locked {
        /// Until when that is respected, where that ends: no watch tells.
        until: Option<Timestamp>,
        /// Who holds it.
        message: String,
    },
    /// For a person's approval.
    Approval(Why),
    /// For time to pass after a failure.
    Backoff {
        /// Until when.
        until: Timestamp,
        /// How often it failed in a row.
        count: u32,
        /// What went wrong.
        message: String,
    },
    /// For the spec, or what it refers to, to be mended.
    Blocked {
        /// A condition's reason.
        reason: String,
        /// What, where, why, what to do.
        message: String,
    },
    /// For `paused` to be taken back.
    Paused,
    /// For the spec to be mended: nothing is done for one that is refused.
    Refused,
    /// For its release record to be read: what it says decides what is deleted before.
    Record,
    /// For releases that need it to be gone.
    Dependents(Vec<String>),
    /// A person must decide: someone else's revision.
    Foreign {
        /// The revision.
        revision: i64,
        /// Helm's own words for what was done (`Rollback to 1`); empty until its record was read.
        description: String,
        /// When its record was made.
        since: Option<Timestamp>,
    },
    /// A person must decide: never ours. With how it stands to what is wanted, where that is known.
    Unmanaged(Option<Verdict>),
    /// A person must look: unreadable.
    Undecodable(String),
    /// The namespace is being deleted.
    Terminating(String),
}

impl Step {
    /// When only time has to pass: until when.
    pub fn wake(&self) -> Option<Timestamp> {
        match self {
            Self::Wait(Wait::Backoff { until, .. }) => Some(*until),
            Self::Wait(Wait::Locked { until, .. }) => *until,
            _ => None,
        }
    }
}

impl Context<'_> {
    pub(super) fn wanted(&self, name: &str, release: &DesiredRelease, state: State<'_>) -> Step {
        match state {
            State::Running(child) => self.running(name, &release.key, child, Some(release)),
            _ if !release.managed => Self::let_go(state),
            State::Undecodable(problem) => Step::Wait(Wait::Undecodable(problem.to_owned())),
            State::Unmanaged(seen) => self.unmanaged(name, release, seen),
            State::Locked(seen, until) => Step::Wait(locked(seen, until)),
            _ if release.is_refused() => Self::blocked(release).unwrap_or(Step::Wait(Wait::Refused)),
            State::InSync(seen) if !self.mends(name, release) => settling(release, seen, self.observed),
            // Labels change nothing that runs: what was done by hand while it was paused is in sync already.
            State::Foreign(seen) | State::OutOfDate(seen) if self.is_alike(release, seen) => {
                Step::Do(Action::Adopt { in_sync: true }, Why::Alike)
            }
            _ if self.policy.paused || release.paused => Step::Wait(Wait::Paused),
            _ if self.observed.terminating.contains(&release.key.namespace) => {
                Step::Wait(Wait::Terminating(release.key.namespace.clone()))
            }
            State::Abandoned(seen) => Step::Do(Action::Recover, Why::Abandoned(seen.status.clone())),
            State::Uninstalling(_) => Step::Do(self.uninstall(name, &release.key), Why::Unfinished),
            State::Absent => self.submit(name, release, None, Why::Install),
            State::Failed(seen) => self.failed(name, release, seen),
            State::OutOfDate(seen) => self.approve(name, release, seen),
            State::Foreign(seen) => self.foreign(name, release, seen),
            State::InSync(seen) => self.submit(name, release, Some(seen), self.why_again(name)),
        }
    }

    pub(super) fn unwanted(&self, name: &str, key: &Key, state: State<'_>) -> Step {
        match state {
            State::Running(child) => self.running(name, key, child, None),
            State::Undecodable(problem) => Step::Wait(Wait::Undecodable(problem.to_owned())),
            State::Unmanaged(_) | State::Absent => Step::Ready,
            State::Locked(seen, until) => Step::Wait(locked(seen, until)),
            _ if self.holds(name) && !self.policy.deleting => Step::Wait(Wait::Paused),
            State::Abandoned(_)
            | State::Uninstalling(_)
            | State::Failed(_)
            | State::OutOfDate(_)
            | State::InSync(_)
            | State::Foreign(_) => self.remove(name, key),
        }
    }

    fn holds(&self, name: &str) -> bool {
        self.policy.paused || self.policy.paused_releases.contains(name)
    }

    /// Helm's uninstall works on any status, a pending one included, and needs no unlocking first.
    fn remove(&self, name: &str, key: &Key) -> Step {
        let dependents = self.dependents(name);
        if !dependents.is_empty() {
            return Step::Wait(Wait::Dependents(dependents));
        }
        if !self.policy.deleting && !self.approved() {
            return Step::Wait(Wait::Approval(Why::Unwanted));
        }
        if let Some(wait) = self.backoff(name, key, "uninstall", "") {
            return wait;
        }
        Step::Do(self.uninstall(name, key), Why::Unwanted)
    }

    /// In a namespace that is being deleted no Job starts any more: a hook there could never end.
    fn uninstall(&self, name: &str, key: &Key) -> Action {
        let hopeless = self.observed.terminating.contains(&key.namespace);
        Action::Uninstall { skip_hooks: hopeless || Policy::names(&self.policy.skip_hooks, name) }
    }

    /// A child of ours runs: it goes on, unless what it was started with is not wanted any more, it can't succeed, and there is something to
    /// start in its place.
    fn running(&self, name: &str, key: &Key, child: &RunningSeen, wanted: Option<&DesiredRelease>) -> Step {
        let (hook, stuck) = self.hook(key);
        let outdated = child.verb == "upgrade" && wanted.map(|release| &release.inputs) != Some(&child.inputs);
        // A deletion waits for no healthy hook: nobody wants its result any more.
        let vain = child.queued || stuck;
        let stop = outdated && !child.stopping && (self.policy.deleting || vain && self.replaces(name, key, wanted));
        // An uninstall whose hooks can never end is stopped once a person said to skip them.
        let hopeless = self.uninstall(name, key) == Action::Uninstall { skip_hooks: true };
        let skip = child.verb == "uninstall" && !child.stopping && !child.skips_hooks && hopeless;
        if stop || skip {
            return Step::Do(Action::Stop, Why::Superseded(hook.unwrap_or_else(|| "it had not begun".into())));
        }
        Step::Wait(Wait::Helm { verb: child.verb.clone(), queued: child.queued, hook })
    }

    /// Whether the table starts anything once helm is gone: what can't be started yet (no chart, no input, no approval) ends nothing.
    fn replaces(&self, name: &str, key: &Key, wanted: Option<&DesiredRelease>) -> bool {
        let state = self.observed.releases.get(key).map_or(State::Absent, State::Failed);
        let next = match wanted {
            Some(release) => self.wanted(name, release, state),
            None => self.unwanted(name, key, state),
        };
        matches!(next, Step::Do(..))
    }

    /// The hook that helm waits for, in words, and whether it can't succeed.
    fn hook(&self, key: &Key) -> (Option<String>, bool) {
        let body = self.observed.releases.get(key).and_then(|seen| seen.body.as_ref());
        let Some(hook) = body.and_then(|body| body.hook.as_ref()) else { return (None, false) };
        let is =
            |job: &&crate::observed::JobSeen| job.namespace == key.namespace && Some(&job.name) == hook.job.as_ref();
        let Some(job) = self.observed.jobs.iter().find(is) else { return (Some(hook.name.clone()), false) };
        let stuck = job.failed || job.failures > 0 || job.trouble.as_ref().is_some_and(|trouble| trouble.stuck);
        let text = job
            .trouble
            .as_ref()
            .map_or_else(|| hook.name.clone(), |trouble| format!("{}: {}", hook.name, trouble.message));
        (Some(text), stuck)
    }
}

pub(super) fn locked(seen: &ReleaseSeen, until: Option<Timestamp>) -> Wait {
    let who = match until {
        None => "another operator process that still lives".to_owned(),
        Some(until) => format!("a helm that is not ours (it is taken for dead at {until:.0})"),
    };
    Wait::Locked { until, message: format!("revision {} is {}, held by {who}", seen.revision, seen.status) }
}
