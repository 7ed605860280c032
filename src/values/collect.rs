//! Collects iterators into B-tree maps and sets, with less machine code than `Iterator::collect`.

use std::collections::{BTreeMap, BTreeSet};

/// Collects the items of an iterator into a B-tree map or set.
///
/// `Iterator::collect` sorts the items first, and the compiler generates 4 KB of machine code for this sort again for
/// each type of iterator. The methods of this trait sort nothing: they insert one item after the other.
pub trait CollectSorted: Iterator + Sized {
    /// Collects pairs of a key and a value into a map. If several pairs have the same key, the map contains the value
    /// of the last one.
    fn collect_map<K: Ord, V>(self) -> BTreeMap<K, V>
    where
        Self: Iterator<Item = (K, V)>,
    {
        let mut map = BTreeMap::new();
        for (key, value) in self {
            map.insert(key, value);
        }
        map
    }

    /// Collects the items into a set.
    fn collect_set(self) -> BTreeSet<Self::Item>
    where
        Self::Item: Ord,
    {
        let mut set = BTreeSet::new();
        for item in self {
            set.insert(item);
        }
        set
    }
}

impl<I: Iterator> CollectSorted for I {}
