//! Detects drift: objects of a release that someone edited or deleted outside of helm since the last helm operation.
//!
//! Pure module (no I/O). osdpl derives drift from two sources in the cluster, so the result is the same after a restart
//! of the operator. `managedFields` lists every writer of an object with its fields and the time of its write, also
//! writers that do not use server-side apply. helm's record lists the objects that must exist.
//!
//! ```text
//! kind    the kinds of objects that are watched      fields     the fields that a writer owns
//! trace   the traces of writers on an object         expected   the expected objects of a release, and the drift found
//! ```
//!
//! Rules:
//!
//! * Changes below `metadata` and `status` are ignored: other tools store their state in labels, annotations and
//!   finalizers.
//! * Changes by writers that are part of the cluster, and changes of a few fields that people set on purpose, are
//!   tolerated (`values/drift.yaml`, [`ToleratedChanges`]).
//! * A write counts as drift if it happened after helm's last write to the object and after the start of the newest
//!   helm operation, or in the same second. Older writes do not count: the newest helm operation reverted their changes
//!   of fields that helm sets, and accepted all others.
//! * If someone *removes* a field, `managedFields` names no writer. If someone writes through a subresource (`kubectl
//!   scale`), it has no time. In both cases a field that the manifest sets has no owner any more, which counts as
//!   drift.

mod expected;
mod fields;
mod kind;
mod trace;

use std::fmt;

use k8s_openapi::jiff::Timestamp;

pub use expected::{ExpectedFields, ObservedDrift, list_watched_objects};
pub use fields::{OwnedFields, PathHash};
pub use kind::{KINDS, Kind, find_kind};
pub use trace::{Entry, ForeignWrite, ToleratedChanges, WriterTrace};

/// The path of the field that `kubectl scale` writes.
const SCALE: &str = "spec.replicas";

/// The identity of an object that is watched for drift.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// The kind of the object.
    pub kind: &'static Kind,
    /// The object's namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind.kind, self.name)
    }
}

/// How someone changed an object outside of helm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Someone deleted the object. The API server does not record who did.
    Deleted,
    /// Someone wrote to the object after helm did.
    Edited(ForeignWrite),
    /// Someone removed these fields, which helm had set. The API server does not record who did.
    Stripped(String),
}

/// One object that someone changed outside of helm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftedObject {
    /// The changed object.
    pub id: ObjectId,
    /// How the object was changed.
    pub change: Change,
}

impl fmt::Display for DriftedObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, change } = self;
        match change {
            Change::Deleted => write!(formatter, "{id} was deleted"),
            Change::Stripped(fields) => write!(formatter, "{id} was edited ({fields} removed)"),
            Change::Edited(ForeignWrite { manager, at, fields }) => {
                let at = at.map_or_else(String::new, |at| format!(" at {at:.0}"));
                write!(formatter, "{id} was edited by {manager}{at} ({fields})")
            }
        }
    }
}

/// Returns how someone changed an object of a release outside of helm; `None` if nobody did.
///
/// `started_at` is the start of the newest helm operation. `expected` are the fields that the operation's manifest sets
/// in the object. `trace` are the current writers of the object; `None` if the object does not exist.
pub fn detect_drift(
    started_at: Option<Timestamp>,
    expected: &ExpectedFields,
    trace: Option<&WriterTrace>,
) -> Option<Change> {
    let Some(trace) = trace else { return Some(Change::Deleted) };
    let since = started_at.max(trace.helm);
    // `managedFields` has times in whole seconds, so a foreign write in the same second as helm's may be the later one.
    let later = |write: &&ForeignWrite| write.at.is_some() && write.at >= since;
    if let Some(write) = trace.foreign.as_deref().filter(later) {
        return Some(Change::Edited(write.clone()));
    }
    let removed = trace.removed_fields(expected);
    // If `managedFields` has no entry of helm, someone has cleared it. Then it does not show which fields were removed.
    if trace.helm.is_none() || removed.is_empty() {
        return None;
    }
    if removed != [SCALE] {
        return Some(Change::Stripped(trace::summarize(&removed, 0)));
    }
    // `managedFields` names no writer if someone scaled the workload to 0 or removed the field, so the message names
    // both.
    let without_writer = || Change::Stripped(format!("{SCALE} set to 0, or"));
    let scaled = trace.foreign.as_deref().filter(|write| write.at.is_none());
    Some(scaled.map_or_else(without_writer, |write| Change::Edited(write.clone())))
}

#[cfg(test)]
mod tests;
