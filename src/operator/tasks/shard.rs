//! What one watch has seen: small values made of objects, by name.

use std::collections::BTreeMap;

use kube::Resource;
use kube::runtime::watcher::Event;

use super::watch::News;

/// An object's namespace and name.
pub(super) type Name = (String, String);

/// The values of one watch. While it lists anew, the old ones stay visible.
#[derive(Debug)]
pub(super) struct Shard<V> {
    current: BTreeMap<Name, V>,
    arriving: Option<BTreeMap<Name, V>>,
    listed: bool,
    excused: bool,
}

impl<V> Default for Shard<V> {
    fn default() -> Self {
        Self { current: BTreeMap::new(), arriving: None, listed: false, excused: false }
    }
}

impl<V: PartialEq> Shard<V> {
    /// Takes what a watch tells; `read` makes the value of an object, or nothing of one that does not count. Returns whether any
    /// value changed.
    pub(super) fn take<O: Resource>(
        &mut self,
        news: impl Into<News<O>>,
        mut read: impl FnMut(&O) -> Option<V>,
    ) -> bool {
        let event = match news.into() {
            News::Event(event) => event,
            News::Refused => return !std::mem::replace(&mut self.excused, true),
        };
        match event {
            Event::Init => {
                self.arriving = Some(BTreeMap::new());
                false
            }
            Event::InitApply(object) => {
                if let Some(value) = read(&object) {
                    self.arriving.get_or_insert_default().insert(name(&object), value);
                }
                false
            }
            Event::InitDone => {
                let arrived = self.arriving.take().unwrap_or_default();
                let changed = !self.listed || arrived != self.current;
                self.current = arrived;
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

    /// Whether everything there was has been seen once.
    pub(super) fn is_listed(&self) -> bool {
        self.listed
    }

    /// Whether nobody waits for it any more: everything there was has been seen, or that failed.
    pub(super) fn is_settled(&self) -> bool {
        self.listed || self.excused
    }

    /// The value of one object.
    pub(super) fn get(&self, name: &Name) -> Option<&V> {
        self.current.get(name)
    }

    /// The values, by the objects' names.
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
