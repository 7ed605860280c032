//! Detects drift: since helm's last operation on a release, someone has edited or deleted an object of the release
//! without helm.
//!
//! Pure module (no I/O). osdpl detects drift only from two sources in the cluster, so the operator needs no memory of
//! earlier states, and a restart does not change the result. The first source is the `managedFields` of each object:
//! they list each writer with its fields and the time of its write, even if the writer does not use server-side apply.
//! The second source is helm's record of the release: it lists the objects that must exist.
//!
//! ```text
//! kind    the kinds of objects that are watched      fields     the fields that a writer owns
//! trace   who wrote to an object, and when           expected   the expected objects of a release, and the drift found
//! ```
//!
//! Rules:
//!
//! * osdpl ignores changes below `metadata` and `status`, because other tools store their state in labels, annotations
//!   and finalizers.
//! * osdpl tolerates changes by writers that are part of the cluster, and changes of a few fields that people set on
//!   purpose (`values/drift.yaml`, [`ToleratedChanges`]).
//! * A write is drift if it is at least as new as helm's last write to the object and as the start of helm's newest
//!   operation on the release. The times have a resolution of one second. An older write is no drift: helm's newest
//!   operation has reverted the writer's changes of fields that helm sets, and accepted the writer's other changes.
//! * If someone *removes* a field, `managedFields` does not name this writer. If someone writes through a subresource
//!   (`kubectl scale`), `managedFields` names the writer, but not the time of the write. In both cases, osdpl detects
//!   the drift because a field that the manifest sets no longer has an owner in `managedFields`. For this check, a
//!   writer without a time counts as an owner only if osdpl tolerates the writer.

mod expected;
mod fields;
mod kind;
mod trace;

use std::fmt;

use k8s_openapi::jiff::Timestamp;

pub use expected::{ExpectedFields, ObservedDrift, list_watched_objects};
pub use fields::{OwnedFields, PathHash};
pub use kind::{KINDS, Kind, find_kind};
pub use trace::{Entry, ForeignWrite, HELM_MANAGER, ToleratedChanges, WriterTrace};

/// The path of the field that `kubectl scale` writes.
const SCALE: &str = "spec.replicas";

/// Identifies an object that osdpl watches for drift.
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

/// A change that someone made to an object outside of helm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Someone deleted the object. The API server does not record who deleted it.
    Deleted,
    /// Someone wrote to the object after helm's last write.
    Edited(ForeignWrite),
    /// Someone removed fields that helm had set. Contains the names of the fields. `managedFields` does not tell who
    /// removed them.
    ///
    /// If the only field is `spec.replicas`, someone may have scaled the object to 0 instead. The string is then
    /// `spec.replicas set to 0, or`, because the word `removed` follows it in messages.
    Stripped(String),
}

/// One object of a release that someone changed outside of helm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftedObject {
    /// The identity of the changed object.
    pub id: ObjectId,
    /// The change that someone made to the object.
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

/// Returns the change that someone made to an object of a release outside of helm; `None` if there is no such change.
///
/// `started_at` is the start of helm's newest operation on the release. `expected` are the fields of the object that
/// the manifest of this operation sets. `trace` contains the writers in the object's `managedFields`; `None` if the
/// object does not exist.
pub fn detect_drift(
    started_at: Option<Timestamp>,
    expected: &ExpectedFields,
    trace: Option<&WriterTrace>,
) -> Option<Change> {
    let Some(trace) = trace else { return Some(Change::Deleted) };
    let since = started_at.max(trace.helm);
    // The times in `managedFields` are whole seconds. If someone else wrote in the same second as helm, the write may
    // be later than helm's write. So treat it as later.
    let later = |write: &&ForeignWrite| write.at.is_some() && write.at >= since;
    if let Some(write) = trace.foreign.as_deref().filter(later) {
        return Some(Change::Edited(write.clone()));
    }
    let removed = trace.removed_fields(expected);
    // If helm has no entry in `managedFields`, someone has cleared `managedFields`. Then osdpl can't find out which
    // fields someone removed.
    if trace.helm.is_none() || removed.is_empty() {
        return None;
    }
    if removed != [SCALE] {
        return Some(Change::Stripped(trace::summarize(&removed, 0)));
    }
    // A scale to 0 and a removal of `spec.replicas` both leave no writer of the field in `managedFields`, so osdpl
    // can't tell them apart. If there is no writer, the message names both possibilities.
    let without_writer = || Change::Stripped(format!("{SCALE} set to 0, or"));
    let scaled = trace.foreign.as_deref().filter(|write| write.at.is_none());
    Some(scaled.map_or_else(without_writer, |write| Change::Edited(write.clone())))
}

#[cfg(test)]
mod tests;
