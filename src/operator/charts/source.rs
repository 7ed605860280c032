//! Where charts come from.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The repository that OpenStack-Helm publishes to.
pub const UPSTREAM: &str = "https://tarballs.opendev.org/openstack/openstack-helm";

/// A folder of the user's, or a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder of `<name>-<version>.tgz` archives, of chart directories `<name>/Chart.yaml`, or of both.
    Folder(PathBuf),
    /// A chart repository (`https://…`) or a registry (`oci://…`).
    Repository {
        /// Its address, without a slash at the end.
        url: String,
    },
}

/// An address that cannot be a source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSource {
    /// Empty.
    #[error("charts: an empty text is no source of charts; name a folder or a repository such as {UPSTREAM}")]
    Empty,
    /// Another scheme.
    #[error(
        "charts: {0:?} is no source of charts: only https://, http:// and oci:// repositories and folders are; use one of them"
    )]
    Scheme(String),
    /// User information in the address.
    #[error(
        "charts: the address at {host:?} holds credentials, which would show in process lists and logs; pull the charts into a folder (`osdpl charts pull`) and name that folder"
    )]
    Credentials {
        /// The host alone: the rest is secret.
        host: String,
    },
    /// A query or fragment, or characters no address has.
    #[error(
        "charts: {0:?} is no repository's address: it has no host, or a space, a quote, a '?' or a '#'; write it as {UPSTREAM} is written"
    )]
    Address(String),
}

impl Default for Source {
    fn default() -> Self {
        Self::Repository { url: UPSTREAM.to_owned() }
    }
}

impl FromStr for Source {
    type Err = NoSource;

    fn from_str(text: &str) -> Result<Self, NoSource> {
        if text.is_empty() {
            return Err(NoSource::Empty);
        }
        match text.split_once("://") {
            None => Ok(Self::Folder(PathBuf::from(text))),
            Some(_) => repository(text).map(|url| Self::Repository { url }),
        }
    }
}

/// Checks a repository's address.
pub(super) fn repository(text: &str) -> Result<String, NoSource> {
    let (scheme, rest) = text.split_once("://").ok_or_else(|| NoSource::Scheme(text.to_owned()))?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some((_, host)) = authority.rsplit_once('@') {
        return Err(NoSource::Credentials { host: host.to_owned() });
    }
    if !matches!(scheme, "https" | "http" | "oci") {
        return Err(NoSource::Scheme(text.to_owned()));
    }
    let strange =
        |character: char| character.is_whitespace() || character.is_control() || "?#\"'\\`@".contains(character);
    if authority.is_empty() || rest.contains(strange) {
        return Err(NoSource::Address(text.to_owned()));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(formatter, "{}", folder.display()),
            Self::Repository { url } => formatter.write_str(url),
        }
    }
}
