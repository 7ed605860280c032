//! What an object's writers left on it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use super::Fields;

/// The name under which helm writes, whatever its program is called (helm 3 and 4: `kube.ManagedFieldsManager`).
pub const HELM: &str = "helm";

/// So many fields of a write are told.
const TOLD: usize = 3;

/// One writer in an object's `managedFields`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Entry {
    manager: String,
    subresource: String,
    time: Option<Time>,
    fields_v1: Fields,
}

/// What others may write without its being drift.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tolerated {
    /// Writers, as `managedFields` call them.
    pub managers: BTreeSet<String>,
    /// Fields, as [`Fields`] writes their paths; what is below one is meant as well.
    pub fields: BTreeSet<String>,
}

impl Tolerated {
    fn is_field(&self, path: &str) -> bool {
        let below = |field: &String| path.strip_prefix(field.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']));
        self.fields.contains(path) || self.fields.iter().any(below)
    }
}

/// What others wrote last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Who, as `managedFields` call it: `kubectl-edit` and the like.
    pub manager: String,
    /// When, to the second; what went through a subresource leaves no time.
    pub at: Option<Timestamp>,
    /// The fields that this writer holds, for people.
    pub fields: String,
}

/// What is on an object of its writers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// When helm last changed anything in it; an operation that finds it as wanted leaves no time.
    pub helm: Option<Timestamp>,
    /// How many keys of `data` are held by helm, or by others that may.
    pub data: usize,
    /// Whether `spec.replicas` is held by helm, or by others that may.
    pub replicas: bool,
    /// The newest write by others that counts; one without a time only where there is no other.
    pub foreign: Option<Box<Write>>,
}

impl Trace {
    /// What counts of an object's `managedFields`.
    pub fn read(entries: &[Entry], tolerated: &Tolerated) -> Self {
        let own = || entries.iter().filter(|entry| entry.manager == HELM);
        let known =
            || entries.iter().filter(|entry| entry.manager == HELM || tolerated.managers.contains(&entry.manager));
        let foreign = entries.iter().filter_map(|entry| foreign(entry, tolerated));
        Self {
            helm: own().filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max(),
            data: known().map(|entry| entry.fields_v1.data).sum(),
            replicas: known().any(|entry| entry.fields_v1.replicas),
            foreign: foreign.max_by_key(|write| write.at).map(Box::new),
        }
    }
}

fn foreign(entry: &Entry, tolerated: &Tolerated) -> Option<Write> {
    let Entry { manager, subresource, time, fields_v1: fields } = entry;
    if manager == HELM || subresource == "status" || tolerated.managers.contains(manager) {
        return None;
    }
    let counted: Vec<&str> = fields.paths.iter().map(String::as_str).filter(|path| !tolerated.is_field(path)).collect();
    let more = fields.count - fields.paths.len();
    if counted.is_empty() && more == 0 {
        return None;
    }
    let mut told = counted.iter().take(TOLD).copied().collect::<Vec<_>>().join(", ");
    let untold = counted.len().saturating_sub(TOLD) + more;
    if untold > 0 {
        let _ = write!(told, " and {untold} more");
    }
    Some(Write { manager: manager.clone(), at: time.as_ref().map(|time| time.0), fields: told })
}
