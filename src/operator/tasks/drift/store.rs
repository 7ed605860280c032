//! Stores the objects that the watches have seen, and finds the ones that differ from their release.

use std::collections::{BTreeMap, BTreeSet};

use super::head::Head;
use crate::tasks::Scope;
use crate::tasks::shard::Shard;
use crate::tasks::watch::Update;
use osdpl_core::drift::{Kind, ObjectId, WriterTrace, detect_drift};
use osdpl_core::observed::{ObservedRelease, ReleaseKey};
use osdpl_core::release::Status;

/// The observed objects, by kind and watch.
#[derive(Default)]
pub(super) struct Store(BTreeMap<&'static Kind, Vec<Shard<WriterTrace>>>);

/// An object that differs from its state after its release's last operation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Suspect {
    pub(super) release: ReleaseKey,
    pub(super) id: ObjectId,
    /// The object as its watch has seen it.
    pub(super) trace: Option<WriterTrace>,
}

impl Store {
    /// Adds a shard for one watch of a kind.
    pub(super) fn add(&mut self, kind: &'static Kind, index: usize) {
        let shards = self.0.entry(kind).or_default();
        shards.resize_with(shards.len().max(index + 1), Shard::default);
    }

    /// Forgets all other kinds.
    pub(super) fn retain(&mut self, kinds: &BTreeSet<&'static Kind>) {
        self.0.retain(|kind, _| kinds.contains(kind));
    }

    /// Applies an event of a watch. Returns whether anything changed.
    pub(super) fn take(
        &mut self,
        kind: &'static Kind,
        index: usize,
        update: Update<Head>,
        read: impl Fn(&Head) -> Option<WriterTrace>,
    ) -> bool {
        let shard = self.0.get_mut(kind).and_then(|shards| shards.get_mut(index));
        shard.is_some_and(|shard| shard.apply(update, read))
    }

    /// Returns the objects of deployed releases that look changed; `None` until every kind was listed once.
    ///
    /// Objects of a kind that cannot be listed are skipped.
    pub(super) fn suspects(&self, releases: &[(&ReleaseKey, &ObservedRelease)], scope: &Scope) -> Option<Vec<Suspect>> {
        let listed = |shards: &Vec<Shard<WriterTrace>>| shards.iter().all(Shard::is_listed);
        if !self.0.values().flatten().all(Shard::is_settled) {
            return None;
        }
        let mut suspects = Vec::new();
        for (key, seen) in releases {
            let left = seen.body.iter().filter(|_| is_deployed(seen)).flat_map(|body| body.applied_objects.iter());
            for (id, left) in left.filter(|(id, _)| is_in(scope, id)) {
                let Some(shards) = self.0.get(id.kind).filter(|shards| listed(shards)) else { continue };
                let name = (id.namespace.clone(), id.name.clone());
                let trace = shards.iter().find_map(|shard| shard.get(&name));
                if detect_drift(seen.created_at, left, trace).is_some() {
                    suspects.push(Suspect { release: (*key).clone(), id: id.clone(), trace: trace.cloned() });
                }
            }
        }
        Some(suspects)
    }
}

/// Whether the release is deployed: its last operation succeeded and none is running.
pub(super) fn is_deployed(seen: &ObservedRelease) -> bool {
    seen.status == Status::Deployed && seen.body.is_some()
}

fn is_in(scope: &Scope, id: &ObjectId) -> bool {
    match scope {
        Scope::All => true,
        Scope::Namespaces(names) => !id.kind.namespaced || names.contains(&id.namespace),
    }
}

#[cfg(test)]
mod tests;
