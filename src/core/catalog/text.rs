//! Texts of a catalogue, and trees that are stored as text.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde_json::Value;

use osdpl_values::canonical;
use osdpl_values::yaml;

/// The files of a catalogue: maps the path below its root (`values/services/nova.yaml`) to the text.
pub type Files = BTreeMap<String, Text>;

/// The text of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// A file that is compiled into the program. Tests verify these files, so their expressions are compiled only when they
    /// are used.
    BuiltIn {
        /// The text as written.
        text: &'static str,
        /// The same as JSON, which is parsed several times as fast as YAML.
        json: &'static str,
    },
    /// Provided by a user. Everything in it is checked when it is loaded.
    UserProvided(String),
}

impl Text {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        self
    }

    /// Parses the text; `path` is used in errors.
    ///
    /// # Errors
    /// If the text does not have the shape of `T`; with line and column.
    pub fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, yaml::Error> {
        let compiled = if let Self::BuiltIn { json, .. } = self { serde_json::from_str(json).ok() } else { None };
        // If the JSON can't be parsed, parse the YAML again to get an error with a location.
        compiled.map_or_else(|| yaml::parse(path, self), Ok)
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::BuiltIn { text, .. } => text,
            Self::UserProvided(text) => text,
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::UserProvided(text.to_owned())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::UserProvided(text)
    }
}

/// A tree that is stored as text until it is used. Few are, and a tree takes ten times as much memory.
pub struct LazyTree {
    text: Box<str>,
    tree: OnceLock<Value>,
}

impl LazyTree {
    /// Stores a tree as text.
    pub fn new(tree: &Value) -> Self {
        Self { text: canonical(tree).into(), tree: OnceLock::new() }
    }

    /// Whether the text contains this key or string. If not, the tree does not either.
    pub(crate) fn contains_text(&self, name: &str) -> bool {
        self.text.contains(name)
    }

    /// Parses the tree without caching it, for a single use.
    pub fn read(&self) -> Value {
        // The text was serialized from a tree, so it can be parsed.
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

impl Deref for LazyTree {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.tree.get_or_init(|| self.read())
    }
}

impl fmt::Debug for LazyTree {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}
