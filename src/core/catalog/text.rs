//! The texts of the catalogue's files, and JSON values that osdpl keeps as text to save memory.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::ops::Deref;
use std::path::Path;
use std::sync::OnceLock;

use flate2::read::DeflateDecoder;
use serde::de::DeserializeOwned;
use serde_json::Value;

use osdpl_values::canonical;
use osdpl_values::yaml::{self, LocatedNode};

/// The files of a catalogue: maps the path below the catalogue's root (`values/services/nova.yaml`) to the text.
pub type Files = BTreeMap<String, Text>;

/// The text of one file of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// A file that is compiled into the program. osdpl's own tests check the content of the file. So osdpl does not
    /// check the file's expressions when it loads the catalogue, and compiles each expression on first use.
    BuiltIn {
        /// The file as written, compressed with DEFLATE (RFC 1951).
        deflated: &'static [u8],
        /// The content of a YAML file, converted to JSON and compressed with DEFLATE; `None` if the file itself is
        /// JSON. osdpl reads this JSON instead of the YAML, because JSON parses several times as fast.
        deflated_json: Option<&'static [u8]>,
    },
    /// A file that a user provided. osdpl checks its whole content when it loads the catalogue.
    UserProvided(String),
}

impl Text {
    /// Returns the file as written, decompressed if it is built in.
    pub fn as_written(&self) -> Cow<'_, str> {
        match self {
            Self::BuiltIn { deflated, .. } => inflate(deflated).into(),
            Self::UserProvided(text) => text.into(),
        }
    }

    /// Parses the text as a `T`. `path` is the path of the file. Errors name this path, and a text that a user provided
    /// is JSON if the path ends in `.json`.
    ///
    /// # Errors
    /// Returns an error with line and column if the text does not have the shape of `T`.
    pub fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, yaml::Error> {
        let compiled = match self {
            Self::BuiltIn { deflated, deflated_json } => {
                serde_json::from_str(&inflate(deflated_json.unwrap_or(deflated))).ok()
            }
            Self::UserProvided(text) if Path::new(path).extension().is_some_and(|extension| extension == "json") => {
                serde_json::from_str(text).ok()
            }
            Self::UserProvided(_) => None,
        };
        // If the JSON does not match `T`, parse the file as YAML instead, to get an error with the line.
        compiled.map_or_else(|| yaml::parse::<LocatedNode>(path, &self.as_written())?.deserialize(path), Ok)
    }
}

/// Decompresses a text that `build.rs` compressed.
fn inflate(deflated: &[u8]) -> String {
    let mut text = String::new();
    // The decompression can't fail, because a test of osdpl decompresses every built-in text.
    drop(DeflateDecoder::new(deflated).read_to_string(&mut text));
    text
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

/// A JSON value that osdpl stores as text, and parses on first use.
///
/// This saves memory, because a cloud uses few of the catalogue's JSON values, and a parsed value takes ten times as
/// much memory as its text.
pub struct LazyTree {
    text: Box<str>,
    tree: OnceLock<Value>,
}

impl LazyTree {
    /// Converts a JSON value to its text.
    pub fn new(tree: &Value) -> Self {
        Self { text: canonical(tree).into(), tree: OnceLock::new() }
    }

    /// Whether `name` occurs anywhere in the text. If not, no key and no string of the JSON value contains `name`.
    pub(crate) fn contains_text(&self, name: &str) -> bool {
        self.text.contains(name)
    }

    /// Parses the text and returns the JSON value, without keeping the value in memory.
    pub fn read(&self) -> Value {
        // Parsing can't fail, because the text was written from a JSON value.
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
