//! The states that a release can be in.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::desired::DesiredRelease;
use crate::observed::{Liveness, Observed, ObservedRelease, ReleaseKey, RunningHelm};
use crate::release::Status;

/// How long a pending record of a foreign helm process counts as a lock. No operation of the upstream charts takes
/// longer without a new record.
const FOREIGN_LOCK_TIMEOUT: SignedDuration = SignedDuration::from_mins(30);

/// The state of one release.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State<'a> {
    /// Helm has no record of it.
    Absent,
    /// A helm process of ours is running for it.
    Running(&'a RunningHelm),
    /// Another process has locked it, until the given time if the lock expires.
    Locked(&'a ObservedRelease, Option<Timestamp>),
    /// An interrupted operation left it pending.
    Abandoned(&'a ObservedRelease),
    /// An uninstall was started and not finished.
    Uninstalling(&'a ObservedRelease),
    /// Our newest operation failed.
    Failed(&'a ObservedRelease),
    /// Deployed by us with other inputs than desired.
    OutOfDate(&'a ObservedRelease),
    /// Deployed by us with the desired inputs.
    InSync(&'a ObservedRelease),
    /// Managed by us, but someone else made the newest revision.
    Foreign(&'a ObservedRelease),
    /// Never managed by us.
    Unmanaged(&'a ObservedRelease),
    /// Its newest record cannot be decoded.
    Undecodable(&'a str),
}

/// Classifies a release; `wanted` is `None` if it is no longer desired.
pub fn classify<'a>(
    wanted: Option<&DesiredRelease>,
    key: &ReleaseKey,
    observed: &'a Observed,
    now: Timestamp,
) -> State<'a> {
    if let Some(running) = observed.running.get(key) {
        return State::Running(running);
    }
    let Some(record) = observed.releases.get(key) else { return State::Absent };
    if let Some(problem) = &record.undecodable {
        return State::Undecodable(problem);
    }
    let Some(attempt) = &record.attempt else {
        // A revision without our labels, made on top of ours, is as foreign as one that inherited the labels.
        return if record.is_ours() { State::Foreign(record) } else { State::Unmanaged(record) };
    };
    // A foreign upgrade inherits our labels and a rollback restores old ones. The revision is ours only if the attempt
    // label names it.
    let ours = attempt.revision == record.revision;
    match record.status {
        Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback => match (ours, attempt.owner) {
            (true, Liveness::Us | Liveness::Dead) => State::Abandoned(record),
            (true, Liveness::Alive) => State::Locked(record, None),
            (false, _) | (true, Liveness::Unknown) => {
                let until = record.created_at.and_then(|since| since.checked_add(FOREIGN_LOCK_TIMEOUT).ok());
                if until.is_some_and(|until| until <= now) {
                    State::Abandoned(record)
                } else {
                    State::Locked(record, until)
                }
            }
        },
        Status::Uninstalling => State::Uninstalling(record),
        // With --keep-history an uninstalled release still has records; an install is possible on top of them.
        Status::Uninstalled => State::Absent,
        Status::Failed if ours => State::Failed(record),
        _ if !ours => State::Foreign(record),
        Status::Deployed if wanted.is_some_and(|wanted| record.inputs.as_deref() == Some(wanted.inputs.as_str())) => {
            State::InSync(record)
        }
        _ => State::OutOfDate(record),
    }
}
