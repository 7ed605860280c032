//! What keys a chart knows: the tree of its `values.yaml`, paths and types without the values.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::values::Path;

/// A chart's keys. Leaves name their type; `map` is a map that is empty in the chart: free-form.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum KeyTree {
    /// `string`, `number`, `boolean`, `list`, `map` or `null`.
    Leaf(String),
    /// A map with known keys.
    Map(BTreeMap<String, KeyTree>),
}

impl KeyTree {
    /// Whether the chart's own values have exactly this path.
    pub fn knows(&self, path: &Path) -> bool {
        self.find(path.keys()).is_some()
    }

    /// The part of the tree at these keys.
    pub fn find(&self, keys: &[String]) -> Option<&Self> {
        keys.iter().try_fold(self, |tree, key| match tree {
            Self::Map(map) => map.get(key),
            Self::Leaf(_) => None,
        })
    }
}
