//! What an object's writers left on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use super::Left;
use super::fields::{Fields, Mark};

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
    /// How often each field is held by writers, in the order of their marks; but for those without a time, unless they may write.
    held: Box<[(Mark, u16)]>,
    /// The newest write by others that counts; one without a time only where there is no other.
    pub foreign: Option<Box<Write>>,
}

impl Trace {
    /// What counts of an object's `managedFields`.
    pub fn read(entries: &[Entry], tolerated: &Tolerated) -> Self {
        let own = || entries.iter().filter(|entry| entry.manager == HELM);
        let foreign = entries.iter().filter_map(|entry| foreign(entry, tolerated));
        Self {
            helm: own().filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max(),
            held: held(entries, tolerated),
            foreign: foreign.max_by_key(|write| write.at).map(Box::new),
        }
    }
}

/// What was written at some time is either told with its writer, or was accepted by an operation since: nobody misses it.
fn held(entries: &[Entry], tolerated: &Tolerated) -> Box<[(Mark, u16)]> {
    let known = |entry: &&Entry| {
        let may = entry.manager == HELM || tolerated.managers.contains(&entry.manager);
        entry.subresource != "status" && (may || entry.time.is_some())
    };
    let mut held: BTreeMap<Mark, u16> = BTreeMap::new();
    for mark in entries.iter().filter(known).flat_map(|entry| &entry.fields_v1.marks) {
        let count = held.entry(*mark).or_default();
        *count = count.saturating_add(1);
    }
    held.into_iter().collect()
}

impl Trace {
    /// The fields that the manifest sets and that nobody holds any more. Where a whole (an atomic list or map) is held, so is what is in it.
    pub(super) fn lost<'a>(&self, left: &'a Left) -> Vec<&'a str> {
        let count = |path: &str| {
            let found = self.held.binary_search_by_key(&Mark::of(path), |(mark, _)| *mark);
            found.map_or(0, |index| self.held[index].1)
        };
        let whole = |path: &str| path.match_indices(['.', '[']).any(|(end, _)| count(&path[..end]) > 0);
        let lost = left.0.iter().filter(|(path, times)| count(path) < *times && !whole(path));
        let lost: Vec<&str> = lost.map(|(path, _)| path.as_ref()).collect();
        let mut told: Vec<&str> = lost.iter().map(|path| root(path, left, &lost)).collect();
        told.dedup();
        told
    }
}

/// The shortest path on the way to a lost one below which several were and none is left: what was taken out in one piece is told in one.
fn root<'a>(path: &'a str, left: &Left, lost: &[&str]) -> &'a str {
    let ends = path.match_indices(['.', '[']).map(|(end, _)| &path[..end]);
    let below = |path: &str, root: &str| path.strip_prefix(root).is_some_and(|rest| rest.starts_with(['.', '[']));
    let gone = |root: &&str| {
        let mut within = left.0.iter().filter(|(path, _)| below(path, root));
        within.clone().count() > 1 && within.all(|(path, _)| lost.contains(&path.as_ref()))
    };
    ends.filter(|root| *root != "data").find(gone).unwrap_or(path)
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
    Some(Write { manager: manager.clone(), at: time.as_ref().map(|time| time.0), fields: told(&counted, more) })
}

/// The first of these fields, and how many more there are.
pub(super) fn told(fields: &[&str], more: usize) -> String {
    let mut told = fields.iter().take(TOLD).copied().collect::<Vec<_>>().join(", ");
    let untold = fields.len().saturating_sub(TOLD) + more;
    if untold > 0 {
        let _ = write!(told, " and {untold} more");
    }
    told
}
