//! The regular expressions for the names of sections.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// The maximum number of regular expressions in one field, because a user can provide the file.
const MAX_PATTERNS: usize = 50;

/// The maximum size of a compiled regular expression, in bytes.
const MAX_PATTERN_SIZE: usize = 64 << 10;

/// Regular expressions, each with a value. An expression must match a whole name. A file contains a list of expressions
/// or, if they have values, a map from expressions to values.
#[derive(Debug)]
pub(super) struct Patterns<T>(Vec<(Regex, T)>);

impl<T> Patterns<T> {
    /// Returns the values of the expressions that match a name.
    pub fn matching(&self, name: &str) -> impl Iterator<Item = &T> {
        self.0.iter().filter(move |(pattern, _)| pattern.is_match(name)).map(|(_, value)| value)
    }

    /// Returns the values of all expressions.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }

    fn compile(patterns: impl ExactSizeIterator<Item = (String, T)>) -> Result<Self, String> {
        if patterns.len() > MAX_PATTERNS {
            return Err(format!("these are more than {MAX_PATTERNS} regular expressions; combine some of them"));
        }
        let compiled = patterns.map(|(pattern, value)| {
            let regex = RegexBuilder::new(&format!("^(?:{pattern})$")).size_limit(MAX_PATTERN_SIZE).build();
            match regex {
                Ok(regex) => Ok((regex, value)),
                Err(_) => Err(format!("{pattern:?} is no valid regular expression, or is too large")),
            }
        });
        compiled.collect::<Result<_, _>>().map(Self)
    }
}

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Patterns<()> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let patterns = Vec::<String>::deserialize(deserializer)?;
        Self::compile(patterns.into_iter().map(|pattern| (pattern, ()))).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Patterns<String> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let patterns = BTreeMap::deserialize(deserializer)?;
        Self::compile(patterns.into_iter()).map_err(D::Error::custom)
    }
}
