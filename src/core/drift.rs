//! Detects drift: edits and deletions of a release's objects by others since the last helm operation.
//!
//! Pure module (no I/O). Nothing is rendered or kept in memory, so the result is the same after a restart: an object's
//! `managedFields` contain each writer with its fields and the time (the API server tracks every writer, also those
//! that do not use server-side apply), and helm's record contains the objects that must exist.
//!
//! ```text
//! kind    the kinds of objects that are watched      fields     the fields that a writer owns
//! trace   the traces of writers on an object         expected   the expected objects of a release, and the drift found
//! ```
//!
//! Rules:
//!
//! * Fields below `metadata` and `status` are ignored: other tools store their state in labels, annotations and
//!   finalizers.
//! * Writers that are part of the cluster, and a few fields that people set on purpose, are tolerated
//!   (`values/drift.yaml`, [`ToleratedChanges`]).
//! * A write counts as drift if it is neither older than helm's last write to the object nor older than the newest
//!   operation. An operation reverts the fields that it sets, and accepts everything else.
//! * *Removing* a field leaves no writer, and writing through a subresource (`kubectl scale`) leaves no time. Both
//!   leave fields that the manifest sets and that have no owner any more.

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

/// The field that `kubectl scale` writes.
const SCALE: &str = "spec.replicas";

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind.kind, self.name)
    }
}

/// A change of an object by others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It does not exist. The API server does not record who deleted it.
    Deleted,
    /// Someone wrote to it after helm.
    Edited(ForeignWrite),
    /// Fields that helm set were removed; it is unknown by whom.
    Stripped(String),
}

/// One object that others changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftedObject {
    /// The object.
    pub id: ObjectId,
    /// The change.
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

/// Returns how others changed an object of a release.
///
/// `started_at` is the start of the newest operation, `expected` the fields in its manifest, `trace` the current state;
/// `None` if the object does not exist.
pub fn detect_drift(
    started_at: Option<Timestamp>,
    expected: &ExpectedFields,
    trace: Option<&WriterTrace>,
) -> Option<Change> {
    let Some(trace) = trace else { return Some(Change::Deleted) };
    let since = started_at.max(trace.helm);
    // Times have a resolution of one second, so a foreign write in the same second may be later.
    let later = |write: &&ForeignWrite| write.at.is_some() && write.at >= since;
    if let Some(write) = trace.foreign.as_deref().filter(later) {
        return Some(Change::Edited(write.clone()));
    }
    let removed = trace.removed_fields(expected);
    // If someone cleared `managedFields`, nothing can be compared.
    if trace.helm.is_none() || removed.is_empty() {
        return None;
    }
    if removed != [SCALE] {
        return Some(Change::Stripped(trace::summarize(&removed, 0)));
    }
    // Scaling to 0 leaves no writer at all.
    let without_writer = || Change::Stripped(format!("{SCALE} set to 0, or"));
    let scaled = trace.foreign.as_deref().filter(|write| write.at.is_none());
    Some(scaled.map_or_else(without_writer, |write| Change::Edited(write.clone())))
}

#[cfg(test)]
mod tests;
