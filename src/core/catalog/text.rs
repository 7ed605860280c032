//! Texts of a catalogue, and trees that are stored as text.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::ops::Deref;
use std::sync::OnceLock;

use flate2::read::DeflateDecoder;
use serde::de::DeserializeOwned;
use serde_json::Value;

use osdpl_values::canonical;
use osdpl_values::yaml;

/// The files of a catalogue: maps the path below its root (`values/services/nova.yaml`) to the text.
pub type Files = BTreeMap<String, Text>;

/// The text of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// A file that is compiled into the program. Tests verify these files, so their expressions are compiled only when
    /// they are used.
    BuiltIn {
        /// The text as written, compressed (RFC 1951).
        deflated: &'static [u8],
        /// The content as JSON, which is parsed several times as fast as YAML; `None` if the text is JSON.
        json: Option<&'static str>,
    },
    /// Provided by a user. Everything in it is checked when it is loaded.
    UserProvided(String),
}

impl Text {
    /// Returns the text as written.
    pub fn as_written(&self) -> Cow<'_, str> {
        match self {
            Self::BuiltIn { deflated, .. } => {
                let mut text = String::new();
                // A test reads every built-in text, so decompression succeeds.
                drop(DeflateDecoder::new(*deflated).read_to_string(&mut text));
                text.into()
            }
            Self::UserProvided(text) => text.into(),
        }
    }

    /// Parses the text; `path` is used in errors.
    ///
    /// # Errors
    /// If the text does not have the shape of `T`; with line and column.
    pub fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, yaml::Error> {
        let compiled = match self {
            Self::BuiltIn { json: Some(json), .. } => serde_json::from_str(json).ok(),
            Self::BuiltIn { json: None, .. } => serde_json::from_str(&self.as_written()).ok(),
            Self::UserProvided(_) => None,
        };
        // If the JSON can't be parsed, parse the YAML again to get an error with a location.
        compiled.map_or_else(|| yaml::parse(path, &self.as_written()), Ok)
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
