//! The known keys of charts: for each chart, a tree of the keys that its `values.yaml` contains or its templates read.
//!
//! If a user sets values for a chart, the operator keeps the chart's tree in memory. OpenStack-Helm's charts have
//! thirty thousand keys in thousands of small maps. To save memory, a tree stores each map as a sorted slice: a
//! `BTreeMap` would allocate space for eleven entries at once. If a default is long, a tree stores only the default's
//! type.

mod entry;
mod read;

pub use entry::{ANY_KEY, KeyType, READ_MARKER, TEXT_PREFIX, entry_name, entry_shape, is_short};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::{Number, Value};

use super::Text;
use osdpl_values::yaml;
use osdpl_values::{Path, Values};

/// The key trees of all charts, by the chart's name. osdpl parses a tree on first use.
///
/// The key tree of a chart contains the keys of its `values.yaml`, and the keys that its templates read.
#[derive(Debug, Default)]
pub struct Keys {
    charts: BTreeMap<String, Chart>,
    /// The last tree that [`Keys::read`] parsed, with the name of its chart.
    last_read: Mutex<Option<(String, Arc<KeyTree>)>>,
}

/// The key tree of one chart: the text of the tree's file and, after the first use, the parsed tree.
#[derive(Debug)]
struct Chart {
    text: Text,
    tree: OnceLock<Option<KeyTree>>,
}

impl Keys {
    /// Returns the key tree of a chart; `None` if the catalogue has none for this chart.
    pub fn get(&self, chart: &str) -> Option<&KeyTree> {
        self.charts.get(chart)?.tree()
    }

    /// Calls `read` with the key tree of a chart, and keeps only the last parsed tree in memory; `None` if the catalogue
    /// has no tree for this chart.
    ///
    /// The operator reads the trees of all its charts once, and later needs only the trees of charts for which a user
    /// sets values. A tree takes about 60 KB.
    pub fn read<T>(&self, chart: &str, read: impl FnOnce(&KeyTree) -> T) -> Option<T> {
        let entry = self.charts.get(chart)?;
        if let Some(tree) = entry.tree.get() {
            return tree.as_ref().map(read);
        }
        let mut last = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        let tree = match &*last {
            Some((name, tree)) if name == chart => Arc::clone(tree),
            _ => Arc::new(entry.parse()?),
        };
        *last = Some((chart.to_owned(), Arc::clone(&tree)));
        drop(last);
        Some(read(&tree))
    }

    /// Whether the catalogue has a key tree for a chart.
    pub fn contains(&self, chart: &str) -> bool {
        self.charts.contains_key(chart)
    }

    /// Returns the names of the charts that have a key tree.
    pub fn charts(&self) -> impl Iterator<Item = &str> {
        self.charts.keys().map(String::as_str)
    }

    /// Whether `holds` returns true for the key tree of at least one chart. To avoid parsing, the method first tries
    /// the trees that are already parsed.
    pub fn any(&self, holds: impl Fn(&KeyTree) -> bool) -> bool {
        let read = self.charts.values().filter_map(|chart| chart.tree.get()?.as_ref());
        let others = self.charts.values().filter(|chart| chart.tree.get().is_none()).filter_map(Chart::tree);
        read.chain(others).any(holds)
    }

    /// Adds the key tree of a chart from the file at `path`.
    ///
    /// # Errors
    /// Returns an error if a user provided the text and the text is not a valid key tree. If the text is built in,
    /// osdpl parses it later, on first use.
    pub(super) fn add(&mut self, chart: String, path: &str, text: &Text) -> Result<(), yaml::Error> {
        let entry = match text {
            Text::BuiltIn { .. } => Chart { text: text.clone(), tree: OnceLock::new() },
            Text::UserProvided(_) => Chart { text: "".into(), tree: OnceLock::from(Some(text.read(path)?)) },
        };
        self.charts.insert(chart, entry);
        Ok(())
    }
}

impl Chart {
    /// Returns the tree, and parses it on first use.
    ///
    /// Returns `None` if the text can't be parsed. This never happens, because tests parse every built-in tree and
    /// [`Keys::add`] parses every tree of a user.
    fn tree(&self) -> Option<&KeyTree> {
        self.tree.get_or_init(|| self.parse()).as_ref()
    }

    fn parse(&self) -> Option<KeyTree> {
        self.text.read("").ok()
    }
}

/// A node in the tree of a chart's known keys: a map of keys, or the default of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyTree {
    /// A default of which the tree stores only the type: null, an empty map or list, or a value that is too long or
    /// secret.
    Leaf(KeyType),
    /// A default that is a short string.
    Text(Box<str>),
    /// A default that is a number.
    Number(Number),
    /// A default that is a boolean.
    Boolean(bool),
    /// A map of known keys, sorted by key.
    Map(Box<[(Box<str>, KeyTree)]>),
    /// A default that is a list. The tree stores short entries of the list as text, and a description of each long
    /// entry ([`entry_name`]).
    List(Box<[Box<str>]>),
    /// A key that the chart's templates read, but that has no default in `values.yaml`. osdpl assumes that the
    /// templates also read every key below this key.
    ReadOnly,
}

impl KeyTree {
    /// Creates a map node from keys and their nodes, and sorts them by key.
    pub fn map(entries: impl IntoIterator<Item = (Box<str>, Self)>) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self::Map(entries.into())
    }

    /// Whether the chart's `values.yaml` has a default at this path.
    pub fn has_path(&self, path: &Path) -> bool {
        self.find(path.keys()).is_some()
    }

    /// Returns the type of the chart's default for this key; `None` if the key has no default. A map has the type
    /// [`KeyType::Map`], even if no key in it has a default.
    pub fn key_type(&self) -> Option<KeyType> {
        match self {
            Self::Leaf(kind) => Some(*kind),
            Self::Text(_) => Some(KeyType::String),
            Self::Number(_) => Some(KeyType::Number),
            Self::Boolean(_) => Some(KeyType::Boolean),
            Self::Map(_) => Some(KeyType::Map),
            Self::List(_) => Some(KeyType::List),
            Self::ReadOnly => None,
        }
    }

    /// Returns the chart's default for this key and all keys below it: null if there is no default, and `None` if the
    /// tree does not store the whole default.
    pub fn default(&self) -> Option<Value> {
        self.is_complete().then(|| self.outline())
    }

    fn is_complete(&self) -> bool {
        match self {
            Self::Leaf(kind) => matches!(kind, KeyType::Map | KeyType::List | KeyType::Null),
            Self::Map(map) => map.iter().all(|(_, tree)| tree.is_complete()),
            Self::Text(_) | Self::Number(_) | Self::Boolean(_) | Self::ReadOnly => true,
            Self::List(_) => false,
        }
    }

    /// Returns the chart's default for this key and all keys below it, as far as the tree stores it.
    ///
    /// A list in the result contains the names of its entries ([`entry_name`]) instead of the entries. `<string>`
    /// stands for a long or secret string.
    pub fn outline(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_ref()),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Boolean(value) => Value::Bool(*value),
            Self::List(names) => names.iter().map(AsRef::as_ref).map(Value::from).collect(),
            Self::Map(map) => {
                let kept = map.iter().filter(|(_, tree)| tree.has_default());
                Value::Object(kept.map(|(key, tree)| (key.to_string(), tree.outline())).collect())
            }
            Self::Leaf(KeyType::Map) => Value::Object(Values::new()),
            Self::Leaf(KeyType::List) => Value::Array(Vec::new()),
            Self::Leaf(KeyType::Null) | Self::ReadOnly => Value::Null,
            Self::Leaf(kind) => Value::from(format!("<{}>", kind.name())),
        }
    }

    /// Returns the node of the tree at the path `keys`; `None` if the chart's `values.yaml` has no default there.
    pub fn find(&self, keys: &[String]) -> Option<&Self> {
        keys.iter().try_fold(self, |tree, key| tree.child(key)).filter(|tree| tree.has_default())
    }

    /// Returns a copy of `values` that contains only the paths for which the chart's `values.yaml` has a default.
    pub(crate) fn filter_known(&self, values: &Values) -> Values {
        let known = values.iter().filter_map(|(key, value)| {
            let below = self.child(key)?;
            let known = match value {
                Value::Object(map) if !map.is_empty() => {
                    Some(below.filter_known(map)).filter(|map| !map.is_empty()).map(Value::Object)
                }
                leaf => below.has_default().then(|| leaf.clone()),
            };
            Some((key.clone(), known?))
        });
        known.collect()
    }

    /// Returns the child node `key`, even if `values.yaml` has no default for the key and only templates read it.
    pub fn child(&self, key: &str) -> Option<&Self> {
        let Self::Map(map) = self else { return None };
        let position = map.binary_search_by(|(known, _)| known.as_ref().cmp(key));
        position.ok().map(|index| &map[index].1)
    }

    /// Whether the chart's `values.yaml` has a default for this key, or for a key below it.
    pub fn has_default(&self) -> bool {
        match self {
            Self::Leaf(_) | Self::Text(_) | Self::Number(_) | Self::Boolean(_) | Self::List(_) => true,
            Self::ReadOnly => false,
            Self::Map(map) => map.is_empty() || map.iter().any(|(_, tree)| tree.has_default()),
        }
    }

    /// Whether the chart's templates read this map as a whole. If so, any key that users add to the map can have an
    /// effect.
    pub(crate) fn allows_any_key(&self) -> bool {
        self.child(ANY_KEY).is_some_and(|any| *any == Self::ReadOnly)
    }

    /// Returns the keys of this map, including keys that have no default but that templates read.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let map: &[(Box<str>, Self)] = if let Self::Map(map) = self { map } else { &[] };
        map.iter().map(|(key, _)| key.as_ref()).filter(|key| *key != ANY_KEY)
    }

    /// Returns the keys of this map whose default is a short string, each with its default.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let map: &[(Box<str>, Self)] = if let Self::Map(map) = self { map } else { &[] };
        map.iter().filter_map(|(key, tree)| if let Self::Text(text) = tree { Some((&**key, &**text)) } else { None })
    }

    /// Whether the tree has a key of this name at any depth.
    pub(crate) fn has_key_anywhere(&self, name: &str) -> bool {
        let Self::Map(map) = self else { return false };
        map.iter().any(|(key, tree)| key.as_ref() == name || tree.has_key_anywhere(name))
    }
}
