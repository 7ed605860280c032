//! The known keys of charts: a tree for each chart.
//!
//! OpenStack-Helm's charts have thirty thousand keys in thousands of small maps, and the operator keeps the trees of
//! all charts it uses in memory. Therefore maps are sorted slices (a `BTreeMap` allocates eleven entries at once), and
//! long defaults are replaced by their types.

mod entry;
mod read;

pub use entry::{ANY_KEY, KeyType, READ_MARKER, TEXT_PREFIX, entry_name, entry_shape, is_short};

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Number, Value};

use super::Text;
use osdpl_values::yaml;
use osdpl_values::{Path, Values};

/// The keys of charts. The tree of a chart is parsed on first use.
#[derive(Debug, Default)]
pub struct Keys(BTreeMap<String, Chart>);

#[derive(Debug)]
struct Chart {
    text: Text,
    tree: OnceLock<Option<KeyTree>>,
}

impl Keys {
    /// Returns the keys of a chart, if they are known.
    pub fn get(&self, chart: &str) -> Option<&KeyTree> {
        self.0.get(chart)?.tree()
    }

    /// Whether the keys of a chart are known.
    pub fn contains(&self, chart: &str) -> bool {
        self.0.contains_key(chart)
    }

    /// Returns the charts whose keys are known.
    pub fn charts(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether `holds` is true for the keys of any chart. Trees that are already parsed are checked first.
    pub fn any(&self, holds: impl Fn(&KeyTree) -> bool) -> bool {
        let read = self.0.values().filter_map(|chart| chart.tree.get()?.as_ref());
        let others = self.0.values().filter(|chart| chart.tree.get().is_none()).filter_map(Chart::tree);
        read.chain(others).any(holds)
    }

    /// Adds the keys of a chart.
    ///
    /// # Errors
    /// If a user provided the text and it is not a tree of keys.
    pub(super) fn add(&mut self, chart: String, path: &str, text: &Text) -> Result<(), yaml::Error> {
        let entry = match text {
            Text::BuiltIn { .. } => Chart { text: text.clone(), tree: OnceLock::new() },
            Text::UserProvided(_) => Chart { text: "".into(), tree: OnceLock::from(Some(text.read(path)?)) },
        };
        self.0.insert(chart, entry);
        Ok(())
    }
}

impl Chart {
    /// Returns the tree, which is parsed on first use. Tests verify the built-in trees; if one could not be parsed, the
    /// chart's keys would count as unknown.
    fn tree(&self) -> Option<&KeyTree> {
        self.tree.get_or_init(|| self.text.read("").ok()).as_ref()
    }
}

/// The keys of a chart. Leaves have a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyTree {
    /// A default of this type that none of the following variants represents.
    Leaf(KeyType),
    /// A short string.
    Text(Box<str>),
    /// A number.
    Number(Number),
    /// `true` or `false`.
    Boolean(bool),
    /// A map with known keys, sorted by them.
    Map(Box<[(Box<str>, KeyTree)]>),
    /// A list with entries, by their names ([`entry_name`]).
    List(Box<[Box<str>]>),
    /// A key without default that the templates read, with everything below it.
    ReadOnly,
}

impl KeyTree {
    /// Creates a map of known keys.
    pub fn map(entries: impl IntoIterator<Item = (Box<str>, Self)>) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self::Map(entries.into())
    }

    /// Whether the chart's `values.yaml` has exactly this path.
    pub fn has_path(&self, path: &Path) -> bool {
        self.find(path.keys()).is_some()
    }

    /// Returns the type of the chart's default; `None` if there is none.
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

    /// Returns the chart's default, if the tree has all of it.
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

    /// Returns the chart's default as far as the tree has it. Entries of lists are shown by name. Strings that are long
    /// or secret are shown by type only (`<string>`).
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

    /// Returns the subtree at these keys, if the chart's `values.yaml` has it.
    pub fn find(&self, keys: &[String]) -> Option<&Self> {
        keys.iter().try_fold(self, |tree, key| tree.child(key)).filter(|tree| tree.has_default())
    }

    /// Returns the values whose paths the chart's `values.yaml` has. Maps that become empty are removed.
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

    /// Returns the subtree below one key, whether it has a default or is only read.
    pub fn child(&self, key: &str) -> Option<&Self> {
        let Self::Map(map) = self else { return None };
        let position = map.binary_search_by(|(known, _)| known.as_ref().cmp(key));
        position.ok().map(|index| &map[index].1)
    }

    /// Whether the chart's `values.yaml` has this key or something below it.
    pub fn has_default(&self) -> bool {
        match self {
            Self::Leaf(_) | Self::Text(_) | Self::Number(_) | Self::Boolean(_) | Self::List(_) => true,
            Self::ReadOnly => false,
            Self::Map(map) => map.is_empty() || map.iter().any(|(_, tree)| tree.has_default()),
        }
    }

    /// Whether templates may read any key of this map.
    pub(crate) fn allows_any_key(&self) -> bool {
        self.child(ANY_KEY).is_some_and(|any| *any == Self::ReadOnly)
    }

    /// Returns the keys of a map, including those that are only read.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let map: &[(Box<str>, Self)] = if let Self::Map(map) = self { map } else { &[] };
        map.iter().map(|(key, _)| key.as_ref()).filter(|key| *key != ANY_KEY)
    }

    /// Returns the short strings of a map, by their keys.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let map: &[(Box<str>, Self)] = if let Self::Map(map) = self { map } else { &[] };
        map.iter().filter_map(|(key, tree)| if let Self::Text(text) = tree { Some((&**key, &**text)) } else { None })
    }

    /// Whether any key in the tree has this name.
    pub(crate) fn has_key_anywhere(&self, name: &str) -> bool {
        let Self::Map(map) = self else { return false };
        map.iter().any(|(key, tree)| key.as_ref() == name || tree.has_key_anywhere(name))
    }
}
