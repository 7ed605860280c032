//! Finds out from the `managedFields` of an object who wrote to the object, and which fields someone removed since helm
//! set them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use super::ExpectedFields;
use super::fields::{OwnedFields, PathHash};

/// The name of helm as a writer in `managedFields`. helm 3 and 4 always use this name, whatever the name of the
/// program's file (helm: `kube.ManagedFieldsManager`).
pub const HELM_MANAGER: &str = "helm";

/// The maximum number of changed fields that a message about drift lists.
const SHOWN: usize = 3;

/// One entry of an object's `managedFields`: a writer with its fields and the time of its last write.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Entry {
    manager: String,
    subresource: String,
    time: Option<Time>,
    fields_v1: OwnedFields,
}

/// Changes that osdpl does not report as drift: all changes by the writers in `managers`, and changes of the fields in
/// `fields` by any writer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToleratedChanges {
    /// The writers whose changes osdpl tolerates, by their names in `managedFields`.
    pub managers: BTreeSet<String>,
    /// The paths of the fields whose changes osdpl tolerates, in the notation of `values/drift.yaml`. A path also
    /// stands for all fields below it.
    pub fields: BTreeSet<String>,
}

impl ToleratedChanges {
    fn is_field(&self, path: &str) -> bool {
        let below = |field: &String| path.strip_prefix(field.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']));
        self.fields.contains(path) || self.fields.iter().any(below)
    }
}

/// A write to an object by a foreign writer: a writer that is neither helm nor one of the tolerated writers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignWrite {
    /// The name of the writer as in `managedFields`, such as `kubectl-edit`.
    pub manager: String,
    /// The time of the write, in whole seconds; `None` for a write through a subresource, such as `kubectl scale`.
    pub at: Option<Timestamp>,
    /// The fields that the foreign writer owns, except for tolerated fields, as messages show them.
    pub fields: String,
}

/// The information about an object's writers that osdpl takes from the object's `managedFields`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriterTrace {
    /// The time of helm's last write that changed the object. A helm operation that leaves the object as it is does not
    /// change this time.
    pub helm: Option<Timestamp>,
    /// The number of writers that own each field, sorted by the hash of the field's path. `count_owners` decides which
    /// writers count.
    owner_counts: Box<[(PathHash, u16)]>,
    /// The newest write by a foreign writer. A write without a time counts as older than any write with a time.
    pub foreign: Option<Box<ForeignWrite>>,
}

impl WriterTrace {
    /// Reads the writers of an object from the entries of its `managedFields`.
    pub fn read(entries: &[Entry], tolerated: &ToleratedChanges) -> Self {
        let own = || entries.iter().filter(|entry| entry.manager == HELM_MANAGER);
        let foreign = entries.iter().filter_map(|entry| foreign(entry, tolerated));
        Self {
            helm: own().filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max(),
            owner_counts: count_owners(entries, tolerated),
            foreign: foreign.max_by_key(|write| write.at).map(Box::new),
        }
    }
}

/// Counts the writers that own each field of an object.
///
/// A foreign writer ([`ForeignWrite`]) whose write has a time counts as an owner, so that osdpl does not report the
/// fields of the write as removed. If the write is newer than helm's last operation, osdpl reports the write itself as
/// drift. If the write is older, it is no drift, because helm has run since then.
///
/// A foreign writer whose write has no time, such as `kubectl scale`, does not count. osdpl notices such a write only
/// if the writer has taken a field from helm, because then no counted writer owns this field.
fn count_owners(entries: &[Entry], tolerated: &ToleratedChanges) -> Box<[(PathHash, u16)]> {
    let counts = |entry: &&Entry| {
        let is_allowed = entry.manager == HELM_MANAGER || tolerated.managers.contains(&entry.manager);
        entry.subresource != "status" && (is_allowed || entry.time.is_some())
    };
    let mut owner_counts: BTreeMap<PathHash, u16> = BTreeMap::new();
    for hash in entries.iter().filter(counts).flat_map(|entry| &entry.fields_v1.hashes) {
        let count = owner_counts.entry(*hash).or_default();
        *count = count.saturating_add(1);
    }
    owner_counts.into_iter().collect()
}

impl WriterTrace {
    /// Returns the paths of the fields that someone removed from an object. These are the fields of the manifest that
    /// have no owner in the object's `managedFields`. Paths have no list indexes, so several fields can have the same
    /// path. The method therefore compares the number of fields with the number of owners at each path.
    ///
    /// If a list or map itself has an owner, this owner counts as an owner of each field in it, because the API server
    /// tracks an atomic list or map as one field.
    pub(super) fn removed_fields<'a>(&self, expected: &'a ExpectedFields) -> Vec<&'a str> {
        let count = |path: &str| {
            let found = self.owner_counts.binary_search_by_key(&PathHash::of(path), |(hash, _)| *hash);
            found.map_or(0, |index| self.owner_counts[index].1)
        };
        let has_owned_parent = |path: &str| path.match_indices(['.', '[']).any(|(end, _)| count(&path[..end]) > 0);
        let removed = expected.0.iter().filter(|(path, times)| count(path) < *times && !has_owned_parent(path));
        let removed: Vec<&str> = removed.map(|(path, _)| path.as_ref()).collect();
        let mut roots: Vec<&str> = removed.iter().map(|path| root(path, expected, &removed)).collect();
        roots.dedup();
        roots
    }
}

/// Returns the path that osdpl reports for a removed field.
///
/// If someone removed all fields of a map or list, the result for each of these fields is the path of the map or list.
/// So osdpl reports one path instead of one for each field. The result is never the path `data`, so that the message
/// names the removed keys of a ConfigMap or Secret.
fn root<'a>(path: &'a str, expected: &ExpectedFields, removed: &[&str]) -> &'a str {
    let ends = path.match_indices(['.', '[']).map(|(end, _)| &path[..end]);
    let below = |path: &str, root: &str| path.strip_prefix(root).is_some_and(|rest| rest.starts_with(['.', '[']));
    let is_removed = |root: &&str| {
        let mut within = expected.0.iter().filter(|(path, _)| below(path, root));
        within.clone().count() > 1 && within.all(|(path, _)| removed.contains(&path.as_ref()))
    };
    ends.filter(|root| *root != "data").find(is_removed).unwrap_or(path)
}

fn foreign(entry: &Entry, tolerated: &ToleratedChanges) -> Option<ForeignWrite> {
    let Entry { manager, subresource, time, fields_v1: fields } = entry;
    if manager == HELM_MANAGER || subresource == "status" || tolerated.managers.contains(manager) {
        return None;
    }
    let counted: Vec<&str> = fields.paths.iter().map(String::as_str).filter(|path| !tolerated.is_field(path)).collect();
    let more = fields.count - fields.paths.len();
    if counted.is_empty() && more == 0 {
        return None;
    }
    Some(ForeignWrite {
        manager: manager.clone(),
        at: time.as_ref().map(|time| time.0),
        fields: summarize(&counted, more),
    })
}

/// Formats a list of fields: the first few of `fields`, and the number of the remaining fields, as in `a, b, c and 2
/// more`. `more` is the number of changed fields that are not in `fields`, because osdpl does not know their paths.
pub(super) fn summarize(fields: &[&str], more: usize) -> String {
    let mut text = fields.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    let hidden = fields.len().saturating_sub(SHOWN) + more;
    if hidden > 0 {
        let _ = write!(text, " and {hidden} more");
    }
    text
}
