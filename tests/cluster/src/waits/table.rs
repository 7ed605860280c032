//! A table of the objects of one kind, which the events of a watch keep up to date.

use std::collections::HashMap;
use std::hash::Hash;

use kube::runtime::watcher::Event;

/// The objects of one kind. `now` contains the last complete list of objects, with all later changes. If the watch must
/// list all objects again, `coming` collects the new list. When the new list is complete, it replaces `now`.
pub(super) struct Table<K, V> {
    now: HashMap<K, V>,
    coming: HashMap<K, V>,
    /// Whether the watch has listed all objects at least once.
    pub is_known: bool,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { now: HashMap::new(), coming: HashMap::new(), is_known: false }
    }
}

impl<K: Eq + Hash, V: PartialEq> Table<K, V> {
    /// Applies an event to the table, and returns whether the content of the table changed.
    pub fn apply<T>(&mut self, event: Event<T>, read: impl Fn(T) -> (K, V)) -> bool {
        match event {
            Event::Init => {
                self.coming.clear();
                false
            }
            Event::InitApply(object) => {
                let (key, value) = read(object);
                self.coming.insert(key, value);
                false
            }
            Event::InitDone => {
                self.now = std::mem::take(&mut self.coming);
                self.is_known = true;
                true
            }
            Event::Apply(object) => {
                let (key, value) = read(object);
                let is_new = self.now.get(&key) != Some(&value);
                self.now.insert(key, value);
                is_new
            }
            Event::Delete(object) => self.now.remove(&read(object).0).is_some(),
        }
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.now.get(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.now.iter()
    }
}
