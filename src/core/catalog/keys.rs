//! What keys charts know: a tree for each.
//!
//! OpenStack-Helm's charts have thirty thousand keys in thousands of small maps, and the operator keeps those of the charts that it was
//! asked about for as long as it lives: hence sorted slices (a `BTreeMap` makes room for eleven entries at once) and types in place of
//! long defaults.

mod entry;
mod read;

pub use entry::{ANY_KEY, KeyType, READ, TEXT, entry_name, entry_shape, is_short};

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Number, Value};

use super::Text;
use osdpl_values::yaml;
use osdpl_values::{Path, Values};

/// The keys of charts, those of each read when they are first asked for.
#[derive(Debug, Default)]
pub struct Keys(BTreeMap<String, Chart>);

#[derive(Debug)]
struct Chart {
    text: &'static str,
    tree: OnceLock<Option<KeyTree>>,
}

impl Keys {
    /// The keys of a chart, where they are known.
    pub fn get(&self, chart: &str) -> Option<&KeyTree> {
        self.0.get(chart)?.tree()
    }

    /// Whether the keys of a chart are known.
    pub fn contains(&self, chart: &str) -> bool {
        self.0.contains_key(chart)
    }

    /// The charts whose keys are known.
    pub fn charts(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether this holds for the keys of any chart; those that were read already are asked first.
    pub fn any(&self, holds: impl Fn(&KeyTree) -> bool) -> bool {
        let read = self.0.values().filter_map(|chart| chart.tree.get()?.as_ref());
        let others = self.0.values().filter(|chart| chart.tree.get().is_none()).filter_map(Chart::tree);
        read.chain(others).any(holds)
    }

    /// Adds those of a chart.
    ///
    /// # Errors
    /// When the text is given by somebody else and is no tree of keys.
    pub(super) fn add(&mut self, chart: String, path: &str, text: &Text) -> Result<(), yaml::Error> {
        let entry = match text {
            Text::BuiltIn { json, .. } => Chart { text: json, tree: OnceLock::new() },
            Text::Given(_) => Chart { text: "", tree: OnceLock::from(Some(text.read(path)?)) },
        };
        self.0.insert(chart, entry);
        Ok(())
    }
}

impl Chart {
    /// What is part of the program is held to be right by tests; where it were not, the chart's keys would not be known.
    fn tree(&self) -> Option<&KeyTree> {
        self.tree.get_or_init(|| serde_json::from_str(self.text).ok()).as_ref()
    }
}

/// A chart's keys. Leaves name their type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyTree {
    /// What the chart's default is, where it is more than what follows.
    Leaf(KeyType),
    /// A short text.
    Text(Box<str>),
    /// A number.
    Number(Number),
    /// `true` or `false`.
    Boolean(bool),
    /// A map with known keys, sorted by them.
    Map(Box<[(Box<str>, KeyTree)]>),
    /// A list that has entries: their names ([`entry_name`]).
    List(Box<[Box<str>]>),
    /// The templates read it, and whatever is below; the chart has no default.
    Read,
}

impl KeyTree {
    /// A map of known keys.
    pub fn map(entries: impl IntoIterator<Item = (Box<str>, Self)>) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self::Map(entries.into())
    }

    /// Whether the chart's own values have exactly this path.
    pub fn knows(&self, path: &Path) -> bool {
        self.find(path.keys()).is_some()
    }

    /// The type of the chart's default; `None` where it has none.
    pub fn kind(&self) -> Option<KeyType> {
        match self {
            Self::Leaf(kind) => Some(*kind),
            Self::Text(_) => Some(KeyType::String),
            Self::Number(_) => Some(KeyType::Number),
            Self::Boolean(_) => Some(KeyType::Boolean),
            Self::Map(_) => Some(KeyType::Map),
            Self::List(_) => Some(KeyType::List),
            Self::Read => None,
        }
    }

    /// The chart's default, where the tree knows it whole.
    pub fn default(&self) -> Option<Value> {
        self.is_whole().then(|| self.outline())
    }

    fn is_whole(&self) -> bool {
        match self {
            Self::Leaf(kind) => matches!(kind, KeyType::Map | KeyType::List | KeyType::Null),
            Self::Map(map) => map.iter().all(|(_, tree)| tree.is_whole()),
            Self::Text(_) | Self::Number(_) | Self::Boolean(_) | Self::Read => true,
            Self::List(_) => false,
        }
    }

    /// The chart's default as far as the tree knows it: entries of lists by their names, and of a text that is long or secret the type alone
    /// (`<string>`).
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
            Self::Leaf(KeyType::Null) | Self::Read => Value::Null,
            Self::Leaf(kind) => Value::from(format!("<{}>", kind.name())),
        }
    }

    /// The part of the tree at these keys, where the chart's own values have it.
    pub fn find(&self, keys: &[String]) -> Option<&Self> {
        keys.iter().try_fold(self, |tree, key| tree.below(key)).filter(|tree| tree.has_default())
    }

    /// The values at paths that the chart's own values have; maps that become empty go as well.
    pub fn known(&self, values: &Values) -> Values {
        let known = values.iter().filter_map(|(key, value)| {
            let below = self.below(key)?;
            let known = match value {
                Value::Object(map) if !map.is_empty() => {
                    Some(below.known(map)).filter(|map| !map.is_empty()).map(Value::Object)
                }
                leaf => below.has_default().then(|| leaf.clone()),
            };
            Some((key.clone(), known?))
        });
        known.collect()
    }

    /// What is below one key, be it a default or read alone.
    pub fn below(&self, key: &str) -> Option<&Self> {
        let Self::Map(map) = self else { return None };
        let place = map.binary_search_by(|(known, _)| known.as_ref().cmp(key));
        place.ok().map(|index| &map[index].1)
    }

    /// Whether the chart's own values have this, or something of it.
    pub fn has_default(&self) -> bool {
        match self {
            Self::Leaf(_) | Self::Text(_) | Self::Number(_) | Self::Boolean(_) | Self::List(_) => true,
            Self::Read => false,
            Self::Map(map) => map.is_empty() || map.iter().any(|(_, tree)| tree.has_default()),
        }
    }

    /// Whether templates may read any key of this map.
    pub fn is_open(&self) -> bool {
        self.below(ANY_KEY).is_some_and(|any| *any == Self::Read)
    }

    /// The names of a map's keys, with those that are read alone.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let map: &[(Box<str>, Self)] = if let Self::Map(map) = self { map } else { &[] };
        map.iter().map(|(key, _)| key.as_ref()).filter(|key| *key != ANY_KEY)
    }

    /// The short texts of a map, by their keys.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let map: &[(Box<str>, Self)] = if let Self::Map(map) = self { map } else { &[] };
        map.iter().filter_map(|(key, tree)| if let Self::Text(text) = tree { Some((&**key, &**text)) } else { None })
    }

    /// Whether a key has this name, wherever it stands.
    pub fn names_anywhere(&self, name: &str) -> bool {
        let Self::Map(map) = self else { return false };
        map.iter().any(|(key, tree)| key.as_ref() == name || tree.names_anywhere(name))
    }
}
