//! Reads and writes the lock (`values/lock.yaml`): the version of each chart to install, and its digest if known.
//!
//! ```yaml
//! charts:
//!   keystone:
//!     version: 2026.1.24+0ee5adeff       # the version to request from a repository
//!     digest: sha256:…                   # the only accepted digest of that version; absent if not yet known
//!     repository: https://example.org    # only if it differs from the source of the store
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::metadata::{is_name, is_version};
use super::source;
use osdpl_core::catalog::file;

/// The versions, and if known the digests, of the charts that osdpl installs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// The locked version of each chart, by the name of the chart.
    pub charts: BTreeMap<String, LockEntry>,
}

/// The entry of one chart in the lock: the version to install, and the chart's digest if known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockEntry {
    /// The version of the chart to install.
    pub version: String,
    /// The only digest that the store accepts for this version; unset if the digest is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The repository from which a store with a repository as its source pulls this chart; if unset, the store pulls
    /// the chart from its source. A repository in the request takes precedence. A store with a folder as its source
    /// ignores this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
}

/// The error about an invalid lock. Names the file and the line or field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {problem}; correct the lock, or delete it and write a new one with `osdpl charts lock`")]
pub struct InvalidLock {
    location: String,
    problem: String,
}

/// The comment that osdpl writes at the top of a lock.
const HEAD: &str = "\
# The version of each chart to install. osdpl refuses a chart whose content does not match its digest here.
# Written by `osdpl charts lock`.
";

impl Lock {
    /// Returns the lock that this build of osdpl contains.
    ///
    /// # Errors
    /// Returns an error if the built-in lock is invalid. A test ensures that it is valid.
    pub fn built_in() -> Result<Self, InvalidLock> {
        Self::parse("values/lock.yaml", include_str!("../../../values/lock.yaml"))
    }

    /// Parses the text of a lock. `file` is the file name for error messages. An empty text is a lock without charts.
    ///
    /// # Errors
    /// Returns an error if the text is not YAML, a field is unknown, or an entry is invalid. The error names the line
    /// and column; for an invalid entry, it names the field.
    pub fn parse(file: &str, text: &str) -> Result<Self, InvalidLock> {
        let lock: Option<Self> = osdpl_values::yaml::parse(file, text).map_err(|error| InvalidLock {
            location: format!("{file}:{}:{}", error.line, error.column),
            problem: error.message,
        })?;
        let lock = lock.unwrap_or_default();
        lock.check().map_err(|(field, problem)| InvalidLock { location: format!("{file}: {field}"), problem })?;
        Ok(lock)
    }

    /// Converts the lock in a catalogue into a `Lock` of the chart store.
    ///
    /// # Errors
    /// Returns an error if an entry is invalid.
    pub fn of_catalogue(pins: &BTreeMap<String, file::Pin>) -> Result<Self, InvalidLock> {
        let location = |field| format!("values/lock.yaml: {field}");
        let mut lock = Self::default();
        for (name, file::Pin { version, digest, repository }) in pins {
            let digest = digest.as_deref().map(str::parse).transpose().map_err(|error: super::InvalidDigest| {
                InvalidLock { location: location(format!("charts.{name}.digest")), problem: error.to_string() }
            })?;
            let pinned = LockEntry { version: version.clone(), digest, repository: repository.clone() };
            lock.charts.insert(name.clone(), pinned);
        }
        lock.check().map_err(|(field, problem)| InvalidLock { location: location(field), problem })?;
        Ok(lock)
    }

    fn check(&self) -> Result<(), (String, String)> {
        for (name, LockEntry { version, digest, repository }) in &self.charts {
            if !is_name(name) {
                return Err(("charts".to_owned(), format!("{name:?} is not a chart name")));
            }
            if !is_version(version) {
                let problem = format!("{version:?} is not a version such as 2026.1.7+0ee5ade");
                return Err((format!("charts.{name}.version"), problem));
            }
            if let Some(repository) = repository {
                // With a digest, the store notices a chart that someone replaced on the network. Without a digest, only
                // an encrypted connection protects the chart.
                let check = if digest.is_some() { source::repository } else { source::encrypted_repository };
                check(repository).map_err(|error| (format!("charts.{name}.repository"), error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Checks that the connections to all repositories in the lock are encrypted. This check is necessary even if the
    /// lock contains a digest for each chart: the spec can request another version of a chart, for which the lock
    /// contains no digest. `file` is the file name for error messages.
    ///
    /// # Errors
    /// Returns an error if the lock names a repository with an `http://` address.
    pub fn check_encrypted(&self, file: &str) -> Result<(), InvalidLock> {
        for (name, LockEntry { repository, .. }) in &self.charts {
            let checked = repository.as_deref().map_or(Ok(()), source::check_allowed);
            checked.map_err(|error| InvalidLock {
                location: format!("{file}: charts.{name}.repository"),
                problem: error.to_string(),
            })?;
        }
        Ok(())
    }

    /// Returns the text of `values/lock.yaml`, sorted and with one field per line, so that two versions are easy to
    /// compare.
    pub fn to_yaml(&self) -> String {
        format!("{HEAD}{}", osdpl_values::yaml::write(self))
    }
}
