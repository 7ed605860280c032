//! The states that a release can be in.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::desired::DesiredRelease;
use crate::observed::{Key, Observed, Owner, ReleaseSeen, RunningSeen};

/// How long a pending record of a foreign helm is respected: no operation of upstream's charts takes longer without a new record.
const FOREIGN_PATIENCE: SignedDuration = SignedDuration::from_mins(30);

/// The state of one release: every case that `plan` tells apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State<'a> {
    /// Helm has no record of it.
    Absent,
    /// A child of ours is at it.
    Running(&'a RunningSeen),
    /// Someone alive holds it: until when that is respected, where that ends.
    Locked(&'a ReleaseSeen, Option<Timestamp>),
    /// A dead attempt left it pending.
    Abandoned(&'a ReleaseSeen),
    /// An uninstall began and did not end.
    Uninstalling(&'a ReleaseSeen),
    /// The newest operation, ours, failed.
    Failed(&'a ReleaseSeen),
    /// Deployed by us, with other inputs than are wanted.
    OutOfDate(&'a ReleaseSeen),
    /// Deployed by us with the wanted inputs.
    InSync(&'a ReleaseSeen),
    /// Ours, but the newest revision is someone else's.
    Foreign(&'a ReleaseSeen),
    /// Never ours.
    Unmanaged(&'a ReleaseSeen),
    /// Its newest record can't be read.
    Undecodable(&'a str),
}

/// Classifies a release; `wanted` is `None` for one that is not wanted any more.
pub fn classify<'a>(wanted: Option<&DesiredRelease>, key: &Key, observed: &'a Observed, now: Timestamp) -> State<'a> {
    if let Some(running) = observed.running.get(key) {
        return State::Running(running);
    }
    let Some(seen) = observed.releases.get(key) else { return State::Absent };
    if let Some(problem) = &seen.undecodable {
        return State::Undecodable(problem);
    }
    let Some(attempt) = &seen.attempt else {
        // Someone's revision without our labels over revisions of ours is as foreign as one that inherited them.
        return if seen.is_ours() { State::Foreign(seen) } else { State::Unmanaged(seen) };
    };
    // A foreign upgrade inherits our labels, a rollback revives old ones: only an attempt for this very revision is ours.
    let ours = attempt.revision == seen.revision;
    match seen.status.as_str() {
        "pending-install" | "pending-upgrade" | "pending-rollback" => match (ours, attempt.owner) {
            (true, Owner::Us | Owner::Dead) => State::Abandoned(seen),
            (true, Owner::Alive) => State::Locked(seen, None),
            (false, _) | (true, Owner::Unknown) => {
                let until = seen.since.and_then(|since| since.checked_add(FOREIGN_PATIENCE).ok());
                if until.is_some_and(|until| until <= now) {
                    State::Abandoned(seen)
                } else {
                    State::Locked(seen, until)
                }
            }
        },
        "uninstalling" => State::Uninstalling(seen),
        // With --keep-history an uninstalled release still has records; an install goes over them.
        "uninstalled" => State::Absent,
        "failed" if ours => State::Failed(seen),
        _ if !ours => State::Foreign(seen),
        "deployed" if wanted.is_some_and(|wanted| seen.inputs.as_deref() == Some(wanted.inputs.as_str())) => {
            State::InSync(seen)
        }
        _ => State::OutOfDate(seen),
    }
}
