//! The lock (`values/lock.yaml`): which version of each chart is installed, and its digest where that is known.
//!
//! ```yaml
//! charts:
//!   keystone:
//!     version: 2026.1.24+0ee5adeff       # what a repository is asked for
//!     digest: sha256:…                   # another one under that version is refused; absent where nobody knows it yet
//!     repository: https://example.org    # only where it is not the deployment's own
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::metadata::{is_name, is_version};
use super::source;
use osdpl_core::catalog::file;

/// The charts that are locked, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// The charts by name.
    pub charts: BTreeMap<String, Pinned>,
}

/// What is locked of one chart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pinned {
    /// The version to install.
    pub version: String,
    /// The digest of that version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The chart's own repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
}

/// A lock that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}; correct it, or write it anew with `osdpl charts lock`")]
pub struct Invalid {
    place: String,
    problem: String,
}

/// What stands above a written lock.
const HEAD: &str = "\
# The version of each chart to install. A chart whose content does not match its digest here is refused.
# Written by `osdpl charts lock`.
";

impl Lock {
    /// The lock of the charts that this osdpl was made for.
    ///
    /// # Errors
    /// Only in a broken build: a test reads it.
    pub fn built_in() -> Result<Self, Invalid> {
        Self::parse("values/lock.yaml", include_str!("../../../values/lock.yaml"))
    }

    /// Reads a lock; `file` is its name in errors. An empty file locks nothing.
    ///
    /// # Errors
    /// When it is no YAML, has unknown fields (with line and column), or an entry that cannot be (with its field).
    pub fn parse(file: &str, text: &str) -> Result<Self, Invalid> {
        let lock: Option<Self> = osdpl_values::yaml::parse(file, text).map_err(|error| Invalid {
            place: format!("{file}:{}:{}", error.line, error.column),
            problem: error.problem,
        })?;
        let lock = lock.unwrap_or_default();
        lock.check().map_err(|(field, problem)| Invalid { place: format!("{file}: {field}"), problem })?;
        Ok(lock)
    }

    /// The lock of a catalogue that was read as a whole.
    ///
    /// # Errors
    /// When an entry cannot be.
    pub fn of_catalogue(pins: &BTreeMap<String, file::Pin>) -> Result<Self, Invalid> {
        let place = |field| format!("values/lock.yaml: {field}");
        let mut lock = Self::default();
        for (name, file::Pin { version, digest, repository }) in pins {
            let digest = digest.as_deref().map(str::parse).transpose().map_err(|error: super::NoDigest| Invalid {
                place: place(format!("charts.{name}.digest")),
                problem: error.to_string(),
            })?;
            let pinned = Pinned { version: version.clone(), digest, repository: repository.clone() };
            lock.charts.insert(name.clone(), pinned);
        }
        lock.check().map_err(|(field, problem)| Invalid { place: place(field), problem })?;
        Ok(lock)
    }

    fn check(&self) -> Result<(), (String, String)> {
        for (name, Pinned { version, digest: _, repository }) in &self.charts {
            if !is_name(name) {
                return Err(("charts".to_owned(), format!("{name:?} is no chart name")));
            }
            if !is_version(version) {
                let problem = format!("{version:?} is no version such as 2026.1.7+0ee5ade");
                return Err((format!("charts.{name}.version"), problem));
            }
            if let Some(repository) = repository {
                source::repository(repository)
                    .map_err(|error| (format!("charts.{name}.repository"), error.to_string()))?;
            }
        }
        Ok(())
    }

    /// The file's text: sorted, one field a line, so that two locks differ where the charts do.
    pub fn to_yaml(&self) -> String {
        format!("{HEAD}{}", osdpl_values::yaml::write(self))
    }
}
