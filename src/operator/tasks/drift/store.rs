//! Stores the objects that the watches have reported, and finds the objects that differ from their release's manifest.

use std::collections::{BTreeMap, BTreeSet};

use super::head::ObjectHead;
use crate::tasks::cache::WatchCache;
use crate::tasks::watch::Update;
use osdpl_client::Scope;
use osdpl_core::drift::{Kind, ObjectId, WriterTrace, detect_drift};
use osdpl_core::observed::{ObservedRelease, ReleaseKey};
use osdpl_core::release::Status;

/// The objects that the watches have reported, by kind. Each kind has one cache for each of its watches.
#[derive(Default)]
pub(super) struct Store(BTreeMap<&'static Kind, Vec<WatchCache<WriterTrace>>>);

/// An object that, according to its watch, has changed since helm last installed or upgraded the release.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Suspect {
    pub(super) release: ReleaseKey,
    pub(super) id: ObjectId,
    /// The field managers of the object, as its watch has reported them; `None` if the object does not exist.
    pub(super) trace: Option<WriterTrace>,
}

impl Store {
    /// Adds an empty cache for a watch of a kind.
    ///
    /// A kind has either one watch for the whole cluster, or one for each watched namespace. `index` is the number of
    /// this watch among the watches of the kind.
    pub(super) fn add(&mut self, kind: &'static Kind, index: usize) {
        let caches = self.0.entry(kind).or_default();
        caches.resize_with(caches.len().max(index + 1), WatchCache::default);
    }

    /// Forgets the objects of all kinds except for the kinds in `kinds`.
    pub(super) fn retain(&mut self, kinds: &BTreeSet<&'static Kind>) {
        self.0.retain(|kind, _| kinds.contains(kind));
    }

    /// Stores an update from the watch `index` of a kind (see [`Self::add`]). `read` returns the value to store for an
    /// object. Returns whether the store changed.
    pub(super) fn take(
        &mut self,
        kind: &'static Kind,
        index: usize,
        update: Update<ObjectHead>,
        read: impl Fn(&ObjectHead) -> Option<WriterTrace>,
    ) -> bool {
        let cache = self.0.get_mut(kind).and_then(|caches| caches.get_mut(index));
        cache.is_some_and(|cache| cache.apply(update, read))
    }

    /// Returns the objects of deployed releases that, according to the watches, differ from the release's manifest.
    ///
    /// The result is `None` until each watch has completed its first list, or has failed once. After a failure, the
    /// result lacks the objects of a kind until all watches of this kind have completed their first lists.
    pub(super) fn suspects(&self, releases: &[(&ReleaseKey, &ObservedRelease)], scope: &Scope) -> Option<Vec<Suspect>> {
        let listed = |caches: &Vec<WatchCache<WriterTrace>>| caches.iter().all(WatchCache::is_listed);
        if !self.0.values().flatten().all(WatchCache::is_settled) {
            return None;
        }
        let mut suspects = Vec::new();
        for (key, release) in releases {
            let left =
                release.body.iter().filter(|_| is_deployed(release)).flat_map(|body| body.applied_objects.iter());
            for (id, left) in left.filter(|(id, _)| is_in(scope, id)) {
                let Some(caches) = self.0.get(id.kind).filter(|caches| listed(caches)) else { continue };
                let name = (id.namespace.clone(), id.name.clone());
                let trace = caches.iter().find_map(|cache| cache.get(&name));
                if detect_drift(release.created_at, left, trace).is_some() {
                    suspects.push(Suspect { release: (*key).clone(), id: id.clone(), trace: trace.cloned() });
                }
            }
        }
        Some(suspects)
    }
}

/// Whether the release is deployed, and the operator has read its manifest from the body of the release record.
pub(super) fn is_deployed(release: &ObservedRelease) -> bool {
    release.status == Status::Deployed && release.body.is_some()
}

fn is_in(scope: &Scope, id: &ObjectId) -> bool {
    !id.kind.namespaced || scope.contains(&id.namespace)
}

#[cfg(test)]
mod tests;
