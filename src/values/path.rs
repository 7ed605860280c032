//! Defines the path of a value in a tree of chart values, such as `conf.nova.DEFAULT.debug`.
//!
//! A key with dots is in quotes: `labels."a.b/c"`.

use std::fmt;

/// The keys from the root of a tree to a value. A path never leads into a list: it ends at the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Vec<String>);

/// Why a string is not a valid path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A key is empty: the string is empty, begins or ends with a dot, or contains two dots in a row.
    #[error(
        "{0:?} is not a valid path: a key is empty; write keys separated by single dots, such as conf.nova.DEFAULT.debug"
    )]
    EmptyKey(String),
    /// A quote is not closed, or the closing quote is not at the end of its key.
    #[error(
        "{0:?} is not a valid path: a quote is not closed at the end of its key; put the whole key in quotes, as in \
         labels.\"example.org/zone\""
    )]
    UnclosedQuote(String),
}

impl Path {
    /// Returns the path without keys, which leads to the whole tree.
    pub fn root() -> Self {
        Self::default()
    }

    /// Returns this path with one more key at its end.
    #[must_use]
    pub fn child(&self, key: &str) -> Self {
        let mut keys = self.0.clone();
        keys.push(key.to_owned());
        Self(keys)
    }

    /// Returns the keys of the path, from the root.
    pub fn keys(&self) -> &[String] {
        &self.0
    }

    /// Whether this path is equal to `other`, or leads to a map that contains the value at `other`.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Parses a path such as `conf.nova.DEFAULT.debug` or `labels."a.b/c"`.
    ///
    /// # Errors
    /// Returns an error if a key is empty, or if a quote is not closed at the end of its key.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let mut keys = Vec::new();
        let mut rest = text;
        loop {
            let (key, after) = if let Some(quoted) = rest.strip_prefix('"') {
                let end = quoted.find('"').ok_or_else(|| PathError::UnclosedQuote(text.into()))?;
                (&quoted[..end], &quoted[end + 1..])
            } else {
                let end = rest.find('.').unwrap_or(rest.len());
                (&rest[..end], &rest[end..])
            };
            if key.is_empty() {
                return Err(PathError::EmptyKey(text.into()));
            }
            keys.push(key.to_owned());
            match after.strip_prefix('.') {
                Some(next) => rest = next,
                None if after.is_empty() => return Ok(Self(keys)),
                None => return Err(PathError::UnclosedQuote(text.into())),
            }
        }
    }
}

impl<K: Into<String>> FromIterator<K> for Path {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        Self(keys.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, key) in self.0.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            if key.contains('.') { write!(formatter, "{dot}\"{key}\"")? } else { write!(formatter, "{dot}{key}")? }
        }
        Ok(())
    }
}
