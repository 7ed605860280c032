//! Defines the steps of releases, and the reasons for them.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

use crate::catalog::Component;
use crate::observed::{ComparisonResult, ObservedRelease, ReleaseKey};
use crate::release::{Cleanup, Status, Verb};

/// The decision about one release: its step, its cleanup and the repair of its drift.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The namespace and name of the release in helm.
    pub key: ReleaseKey,
    /// The next step for the release: osdpl starts an operation, waits, or does nothing.
    pub step: Step,
    /// The cleanup of objects that failed revisions left behind; `None` if osdpl has nothing to clean up now. The
    /// operator runs the cleanup before the operation in `step`.
    pub cleanup: Option<Cleanup>,
    /// The action of osdpl on the drift of the release; `None` if the release has no drift, or if the spec ignores
    /// drift.
    pub drift_action: Option<DriftAction>,
}

/// The action of osdpl on the drift of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriftAction {
    /// Only report the drift, because the spec does not request its repair.
    Reported,
    /// Do not repair the drift, because the release is paused or its namespace is being deleted.
    Paused,
    /// Do not repair the drift before the time `until`, because someone changed the objects again after the last
    /// repair.
    Backoff {
        /// The number of drift repairs of the release in a row so far.
        count: u32,
        /// When the next repair of the drift starts.
        until: Timestamp,
    },
    /// Repair the drift now, with a helm upgrade that does not change the inputs.
    Now,
}

/// The next step for a release.
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
    /// Unlock the release after the helm process that wrote the pending record has died: mark the record as failed,
    /// because helm would otherwise refuse every upgrade. But if osdpl must repeat an install with its pre-install
    /// hooks, delete the record instead: with a failed record, helm would run an upgrade, without these hooks.
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
    /// An input of the release changed. This input does not come from the catalogue: it is a value in the spec, for
    /// example.
    Spec,
    /// The catalogue changed inputs of the release, for example after an update of the operator.
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
    /// The running helm process is outdated: after its start, the desired state changed, or the uninstall that it runs
    /// must now skip the hooks. If helm waits for a hook, contains the hook and the hook's problem.
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
        /// The number of times in a row that the operation failed.
        count: u32,
        /// The error of the last failed attempt.
        message: String,
    },
    /// osdpl cannot start the operation: for example, the chart or an input is missing, or the spec is invalid.
    Blocked {
        /// The value of `reason` in the status conditions that report the problem, such as `ReleaseFailed`.
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
        /// The number of the newest revision, which osdpl did not make.
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

pub(super) fn locked_wait(record: &ObservedRelease, until: Option<Timestamp>) -> Wait {
    let who = match until {
        None => "another operator process, which may still run helm".to_owned(),
        Some(until) => format!("a helm process, probably started without osdpl (its lock expires at {until:.0})"),
    };
    let message = format!("revision {} is {}, so osdpl waits for {who}", record.revision, record.status);
    Wait::Locked { until, message }
}
