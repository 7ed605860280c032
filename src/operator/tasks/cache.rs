//! Caches data about the objects of one watch: one value for each object, by the object's namespace and name.
//!
//! The tasks keep the values so that neither they nor passes send requests to read the objects. After a restart of the
//! operator, the watch lists the objects again, so nothing is lost.

use std::collections::BTreeMap;

use kube::Resource;
use kube::runtime::watcher::Event;

use super::watch::Update;

/// An object's namespace and name.
pub(super) type Name = (String, String);

/// The cached values of the objects of one watch. If the watch restarts and lists the objects again, the cache returns
/// the old values until the new list is complete.
#[derive(Debug)]
pub(super) struct WatchCache<V> {
    /// The values that the last complete list and later events of the watch have reported.
    current: BTreeMap<Name, V>,
    /// The values of a list that is not complete yet.
    incoming: Option<BTreeMap<Name, V>>,
    /// Whether the watch has completed a list. A new operator process starts with `false`, so that no task takes a
    /// cache that is still empty for an empty cluster.
    listed: bool,
    /// Whether a request to list or watch the objects has ever failed. A task that can do without the objects waits
    /// only until the watch has completed its first list or has failed once (`is_settled`).
    failed: bool,
}

impl<V> Default for WatchCache<V> {
    fn default() -> Self {
        Self { current: BTreeMap::new(), incoming: None, listed: false, failed: false }
    }
}

impl<V: PartialEq> WatchCache<V> {
    /// Applies an update of the watch to the cache. Returns `true` if a cached value changed, the first list became
    /// complete, or a request to list or watch the objects failed for the first time.
    ///
    /// `read` returns the value to cache for an object, or `None` for an object that the cache ignores.
    pub(super) fn apply<O: Resource>(
        &mut self,
        update: impl Into<Update<O>>,
        mut read: impl FnMut(&O) -> Option<V>,
    ) -> bool {
        let event = match update.into() {
            Update::Event(event) => event,
            Update::Failed => return !std::mem::replace(&mut self.failed, true),
        };
        match event {
            Event::Init => {
                self.incoming = Some(BTreeMap::new());
                false
            }
            Event::InitApply(object) => {
                if let Some(value) = read(&object) {
                    self.incoming.get_or_insert_default().insert(name(&object), value);
                }
                false
            }
            Event::InitDone => {
                let incoming = self.incoming.take().unwrap_or_default();
                let changed = !self.listed || incoming != self.current;
                self.current = incoming;
                self.listed = true;
                changed
            }
            Event::Apply(object) => self.put(name(&object), read(&object)),
            Event::Delete(object) => self.put(name(&object), None),
        }
    }

    fn put(&mut self, name: Name, value: Option<V>) -> bool {
        let Some(value) = value else {
            return self.current.remove(&name).is_some();
        };
        if self.current.get(&name) == Some(&value) {
            return false;
        }
        self.current.insert(name, value);
        true
    }

    /// Whether the watch has completed its first list.
    pub(super) fn is_listed(&self) -> bool {
        self.listed
    }

    /// Whether the watch has completed its first list, or at least one of its requests has failed.
    pub(super) fn is_settled(&self) -> bool {
        self.listed || self.failed
    }

    /// Returns the cached value of the object `name`.
    pub(super) fn get(&self, name: &Name) -> Option<&V> {
        self.current.get(name)
    }

    /// Returns all cached values, each with the name of its object.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&Name, &V)> {
        self.current.iter()
    }
}

fn name(object: &impl Resource) -> Name {
    let metadata = object.meta();
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests;
