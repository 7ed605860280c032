//! Collects the metadata of release records, and finds the newest record of each release.

use std::collections::BTreeMap;

use kube::runtime::watcher::Event;

use crate::tasks::cache::WatchCache;
use crate::tasks::partial::{Partial, RecordHead};
use osdpl_core::observed::{PastRevision, ReleaseKey};
use osdpl_core::release::{RecordMeta, RevisionOrigin, Status};

/// The metadata of one release record, or the reason why this metadata is malformed.
#[derive(Clone, Debug, PartialEq)]
enum Head {
    Valid(Box<RecordMeta>),
    /// The metadata is malformed, but its labels name the release.
    Malformed {
        release: ReleaseKey,
        why: String,
    },
}

/// The newest record of a release, and a summary of all its records.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Newest {
    /// The metadata of the newest record; `None` if all records of the release are malformed.
    pub(super) meta: Option<RecordMeta>,
    /// Every revision of the release, lowest first.
    pub(super) history: Vec<PastRevision>,
    /// The newest revision of the release that osdpl made, with the digest of that revision's inputs.
    pub(super) operator_revision: Option<(u32, Option<String>)>,
    /// Whether any revision of the release was ever deployed.
    pub(super) was_deployed: bool,
    /// Why a record of the release is malformed; `None` if no record is malformed. The malformed record may be newer
    /// than the record that `meta` describes.
    pub(super) malformed: Option<String>,
}

/// The metadata of the release records, in one cache for each watch of records.
#[derive(Default)]
pub(super) struct Records(Vec<WatchCache<Head>>);

impl Records {
    /// Adds an empty cache for a watch of records. Returns the index of the cache.
    pub(super) fn add(&mut self) -> usize {
        self.0.push(WatchCache::default());
        self.0.len() - 1
    }

    /// Stores an event from the watch whose cache is at position `index`. Returns whether the records changed.
    pub(super) fn take(&mut self, index: usize, event: Event<Partial<RecordHead>>) -> bool {
        self.0[index].apply(event, read)
    }

    /// Returns the newest record of each release; `None` until the watches have listed all records.
    pub(super) fn newest(&self) -> Option<BTreeMap<ReleaseKey, Newest>> {
        if !self.0.iter().all(WatchCache::is_listed) {
            return None;
        }
        let mut all: BTreeMap<ReleaseKey, Newest> = BTreeMap::new();
        for (_, head) in self.0.iter().flat_map(WatchCache::entries) {
            match head {
                Head::Valid(meta) => all.entry(key(meta)).or_default().add(meta),
                Head::Malformed { release, why } => {
                    all.entry(release.clone()).or_default().malformed.get_or_insert_with(|| why.clone());
                }
            }
        }
        for newest in all.values_mut() {
            newest.history.sort_by_key(|past| past.revision);
        }
        Some(all)
    }
}

impl Newest {
    fn add(&mut self, meta: &RecordMeta) {
        self.history.push(PastRevision { revision: meta.revision, status: meta.status, cleaned_up: meta.cleaned_up });
        self.was_deployed |= matches!(meta.status, Status::Deployed | Status::Superseded);
        if matches!(meta.origin, RevisionOrigin::Ours(_))
            && self.operator_revision.as_ref().is_none_or(|(revision, _)| *revision < meta.revision)
        {
            self.operator_revision = Some((meta.revision, meta.inputs.clone()));
        }
        if self.meta.as_ref().is_none_or(|newest| newest.revision < meta.revision) {
            self.meta = Some(meta.clone());
        }
    }
}

fn key(meta: &RecordMeta) -> ReleaseKey {
    ReleaseKey::new(meta.release.namespace.clone(), meta.release.name.clone())
}

fn read(record: &Partial<RecordHead>) -> Option<Head> {
    let metadata = &record.metadata;
    match RecordMeta::read(metadata) {
        Ok(meta) => Some(Head::Valid(Box::new(meta))),
        Err(malformed) => {
            // Skip a record without a release name: it belongs to no release, and helm ignores it, too.
            let name = metadata.labels.as_ref()?.get("name").filter(|name| !name.is_empty())?;
            let release = ReleaseKey::new(metadata.namespace.clone().unwrap_or_default(), name.clone());
            Some(Head::Malformed { release, why: malformed.to_string() })
        }
    }
}

/// Whether the record is locked: helm is installing, upgrading, rolling back or uninstalling the release, or was
/// interrupted.
pub(super) fn is_locked(meta: &RecordMeta) -> bool {
    meta.status.is_pending() || meta.status == Status::Uninstalling
}
