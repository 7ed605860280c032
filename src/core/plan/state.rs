//! Determines the state of a release ([`State`]), from which the plan decides the release's next step.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::desired::DesiredRelease;
use crate::observed::{Liveness, Observed, ObservedRelease, ReleaseKey, RunningHelm};
use crate::release::Status;

/// The time for which a pending record must stay unchanged before osdpl considers it abandoned.
///
/// The timeout applies only if osdpl does not know whether the helm process that wrote the record still runs. With
/// upstream's charts, a running helm process never leaves its record unchanged for this long.
const FOREIGN_LOCK_TIMEOUT: SignedDuration = SignedDuration::from_mins(30);

/// The state of one release. The plan maps each state to a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State<'a> {
    /// helm has no record of the release, or only records of an uninstalled release (`helm uninstall --keep-history`).
    Absent,
    /// The operator runs helm for the release now.
    Running(&'a RunningHelm),
    /// Another process could be running helm for the release. Contains the time at which osdpl starts to consider that
    /// process dead; `None` means never.
    Locked(&'a ObservedRelease, Option<Timestamp>),
    /// The newest record is pending, and osdpl considers the helm process that wrote it dead.
    Abandoned(&'a ObservedRelease),
    /// helm began to uninstall the release and has not finished, and this operator process does not run helm for the
    /// release now.
    Uninstalling(&'a ObservedRelease),
    /// osdpl made the newest revision, but helm's operation for this revision failed.
    Failed(&'a ObservedRelease),
    /// osdpl made the newest revision, but not with the desired inputs, or the release is no longer desired.
    OutOfDate(&'a ObservedRelease),
    /// osdpl made the newest revision with the desired inputs, and helm deployed it.
    InSync(&'a ObservedRelease),
    /// osdpl made an earlier revision, but someone else made the newest one.
    Foreign(&'a ObservedRelease),
    /// osdpl made no revision of the release.
    Unmanaged(&'a ObservedRelease),
    /// osdpl cannot use the records: the newest record cannot be decoded, or the metadata of a record is invalid.
    /// Contains the reason.
    Undecodable(&'a str),
}

/// Determines the state of a release. `wanted` is `None` if the release is no longer desired.
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
        // The record has no attempt label, so someone else made this revision. osdpl manages the release only if helm
        // still has the record of an earlier revision that osdpl made (`is_ours`).
        return if record.is_ours() { State::Foreign(record) } else { State::Unmanaged(record) };
    };
    // When someone else upgrades or rolls back, helm copies osdpl's labels from an earlier revision. So osdpl made this
    // revision only if the attempt label contains the number of this revision.
    let ours = attempt.revision == record.revision;
    match record.status {
        Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback => match (ours, attempt.owner) {
            (true, Liveness::Us | Liveness::Dead) => State::Abandoned(record),
            (true, Liveness::Alive) => State::Locked(record, None),
            (false, _) | (true, Liveness::Unknown) => {
                let unchanged = observed.unchanged.get(key).copied().unwrap_or_default();
                if unchanged >= FOREIGN_LOCK_TIMEOUT {
                    State::Abandoned(record)
                } else {
                    State::Locked(record, now.checked_add(FOREIGN_LOCK_TIMEOUT - unchanged).ok())
                }
            }
        },
        Status::Uninstalling => State::Uninstalling(record),
        // `helm uninstall --keep-history` leaves records with this status behind, but helm can install the release
        // again despite these records. So treat the release as absent.
        Status::Uninstalled => State::Absent,
        Status::Failed if ours => State::Failed(record),
        _ if !ours => State::Foreign(record),
        Status::Deployed if wanted.is_some_and(|wanted| record.inputs.as_deref() == Some(wanted.inputs.as_str())) => {
            State::InSync(record)
        }
        _ => State::OutOfDate(record),
    }
}
