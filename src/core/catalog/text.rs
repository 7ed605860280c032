//! The texts of a catalogue, and trees that are kept as texts.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde_json::Value;

use osdpl_values::canonical;
use osdpl_values::yaml;

/// The files of a catalogue: path below its root (`values/services/nova.yaml`) to text.
pub type Files = BTreeMap<String, Text>;

/// The text of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// Part of the program. Tests hold it to be right, so that what nobody asks for is never compiled, and nothing of it is copied.
    BuiltIn {
        /// As it is written.
        text: &'static str,
        /// The same as JSON, which is read several times as fast as YAML.
        json: &'static str,
    },
    /// Somebody else's: everything in it is looked at when it is loaded.
    Given(String),
}

impl Text {
    /// The text.
    pub fn as_str(&self) -> &str {
        self
    }

    /// What it says; `path` is where it stands.
    ///
    /// # Errors
    /// With line and column, when it is not of the shape of `T`.
    pub fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, yaml::Error> {
        let compiled = if let Self::BuiltIn { json, .. } = self { serde_json::from_str(json).ok() } else { None };
        // What is wrong with the JSON has its place in the text that it was made of.
        compiled.map_or_else(|| yaml::parse(path, self), Ok)
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::BuiltIn { text, .. } => text,
            Self::Given(text) => text,
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::Given(text.to_owned())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::Given(text)
    }
}

/// A tree that is kept as its text until it is asked for: few ever are, and a tree takes ten times as much memory.
pub struct Late {
    text: Box<str>,
    tree: OnceLock<Value>,
}

impl Late {
    /// Keeps a tree.
    pub fn new(tree: &Value) -> Self {
        Self { text: canonical(tree).into(), tree: OnceLock::new() }
    }

    /// Whether a key or text of this name may stand in it; where not, none does.
    pub fn mentions(&self, name: &str) -> bool {
        self.text.contains(name)
    }

    /// The tree, for somebody who needs it once.
    pub fn read(&self) -> Value {
        // The text was made of a tree.
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

impl Deref for Late {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.tree.get_or_init(|| self.read())
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}
