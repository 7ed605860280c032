//! What others did to the objects of a release since helm was there: edits and deletions, by whom and when.
//!
//! Pure room. Nothing is rendered and nothing remembered: an object's own `managedFields` say who wrote which fields when (Kubernetes:
//! server-side apply tracks every writer, those that do not apply as well), helm's record which objects there must be. So a verdict is the
//! same after a restart.
//!
//! ```text
//! kind    the kinds of object that are looked after     fields   which fields a writer holds
//! trace   what an object's writers left on it           seen     what was found, by release
//! ```
//!
//! What counts:
//!
//! * Fields below `metadata` and `status` are nobody's business: labels, annotations and finalizers are how other tools remember things.
//! * Writers that are part of the cluster, and a few fields that people write on purpose, are named in `values/drift.yaml` ([`Tolerated`]).
//! * A write counts when it is no older than helm's own last write to the object, and no older than the newest operation: an operation takes
//!   back what it sets, and what it leaves standing it has accepted.
//! * What is taken *out* of an object leaves no writer behind, and what goes through a subresource (`kubectl scale`) no time. Both tell by what
//!   the manifest sets and nobody holds any more.

mod fields;
mod kind;
mod seen;
mod trace;

use std::fmt;

use k8s_openapi::jiff::Timestamp;

pub use fields::{Fields, Mark};
pub use kind::{KINDS, Kind, kind};
pub use seen::{DriftSeen, Left, left};
pub use trace::{Entry, HELM, Tolerated, Trace, Write};

/// What `kubectl scale` writes.
const SCALE: &str = "spec.replicas";

/// One object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its namespace; empty for a kind without namespaces.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind.kind, self.name)
    }
}

/// What was done to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is not there. The API server tells nobody who deleted it.
    Deleted,
    /// Someone wrote to it after helm.
    Edited(Write),
    /// These fields that helm set are gone from it: they were taken out, and whoever did it left no name.
    Stripped(String),
}

/// One object that is not as the release left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drifted {
    /// The object.
    pub id: Id,
    /// What was done to it.
    pub change: Change,
}

impl fmt::Display for Drifted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, change } = self;
        match change {
            Change::Deleted => write!(formatter, "{id} was deleted"),
            Change::Stripped(fields) => write!(formatter, "{id} was edited ({fields} taken out)"),
            Change::Edited(Write { manager, at, fields }) => {
                let at = at.map_or_else(String::new, |at| format!(" at {at:.0}"));
                write!(formatter, "{id} was edited by {manager}{at} ({fields})")
            }
        }
    }
}

/// What was done to an object of a release: `began` is when the newest operation began, `left` what its manifest says of the object, `trace`
/// what is on it now, `None` where it is not there.
pub fn verdict(began: Option<Timestamp>, left: &Left, trace: Option<&Trace>) -> Option<Change> {
    let Some(trace) = trace else { return Some(Change::Deleted) };
    let since = began.max(trace.helm);
    // Times are whole seconds: of two writes in one second the other one may be the later.
    let later = |write: &&Write| write.at.is_some() && write.at >= since;
    if let Some(write) = trace.foreign.as_deref().filter(later) {
        return Some(Change::Edited(write.clone()));
    }
    let lost = trace.lost(left);
    // Whoever cleared the writers left nothing to judge by.
    if trace.helm.is_none() || lost.is_empty() {
        return None;
    }
    if lost != [SCALE] {
        return Some(Change::Stripped(trace::told(&lost, 0)));
    }
    // A scale of 0 leaves no writer at all.
    let nameless = || Change::Stripped(format!("{SCALE} set to 0, or"));
    let scaled = trace.foreign.as_deref().filter(|write| write.at.is_none());
    Some(scaled.map_or_else(nameless, |write| Change::Edited(write.clone())))
}

#[cfg(test)]
mod tests;
