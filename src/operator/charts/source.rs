//! Parses the source of charts: a folder or a repository.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of the repository to which OpenStack-Helm publishes its charts.
pub const UPSTREAM: &str = "https://tarballs.opendev.org/openstack/openstack-helm";

/// The folder or the repository from which the store takes charts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder of the user with archives `<name>-<version>.tgz`, chart directories `<name>/Chart.yaml`, or both.
    Folder(PathBuf),
    /// A chart repository (`https://…`) or a registry (`oci://…`).
    Repository {
        /// The address of the repository without a trailing slash.
        url: String,
    },
}

/// Why a string does not name a source of charts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSource {
    /// The string is empty.
    #[error("charts: the source of charts is empty; name a folder or a repository such as {UPSTREAM}")]
    Empty,
    /// The address has no scheme, or a scheme that osdpl does not support.
    #[error(
        "{0:?} is not the address of a repository; use an https:// or oci:// address; --charts also accepts a folder"
    )]
    Scheme(String),
    /// The spec or an addition names a repository with an unencrypted `http://` address, or the lock names such a
    /// repository for a chart without a digest.
    #[error(
        "charts: {0:?} is not encrypted, so anyone on the network could replace its charts; use https:// or oci://"
    )]
    Unencrypted(String),
    /// The option `--charts` or the lock names a repository with an unencrypted `http://` address.
    #[error(
        "charts: {0:?} is not encrypted, so anyone on the network could replace its charts; use https:// or oci://, \
         or allow it with --allow-http-charts (OSDPL_ALLOW_HTTP_CHARTS=true)"
    )]
    PlainHttp(String),
    /// The address contains a user name or password.
    #[error(
        "charts: the repository address with the host {host:?} contains credentials, which would show in process lists and logs; download the charts into a folder with `helm pull`, and name that folder with --charts (the chart value `charts`) instead of the repository"
    )]
    Credentials {
        /// The host of the address. The message contains only the host, because the rest of the address includes the
        /// credentials.
        host: String,
    },
    /// The address has no host, or contains a query, a fragment or invalid characters.
    #[error(
        "charts: {0:?} is not a repository address: it has no host, or contains a space, a quote, a backslash, a '?', a '#' or an '@'; write it like {UPSTREAM}"
    )]
    Address(String),
}

impl Default for Source {
    fn default() -> Self {
        Self::Repository { url: UPSTREAM.to_owned() }
    }
}

impl Source {
    /// Checks that the connection to the source is encrypted.
    ///
    /// # Errors
    /// Returns an error if the source is a repository with an `http://` address.
    pub fn check_encrypted(&self) -> Result<(), InvalidSource> {
        match self {
            Self::Repository { url } => check_allowed(url),
            Self::Folder(_) => Ok(()),
        }
    }
}

fn is_plain_http(url: &str) -> bool {
    url.starts_with("http://")
}

/// Refuses an `http://` address. Without `--allow-http-charts`, the operator and the commands check the option
/// `--charts` and the lock with this function.
pub(super) fn check_allowed(url: &str) -> Result<(), InvalidSource> {
    if is_plain_http(url) { Err(InvalidSource::PlainHttp(url.to_owned())) } else { Ok(()) }
}

impl FromStr for Source {
    type Err = InvalidSource;

    fn from_str(text: &str) -> Result<Self, InvalidSource> {
        if text.is_empty() {
            return Err(InvalidSource::Empty);
        }
        match text.split_once("://") {
            None => Ok(Self::Folder(PathBuf::from(text))),
            Some(_) => repository(text).map(|url| Self::Repository { url }),
        }
    }
}

/// Checks the address of a repository, and returns the address without a trailing slash. Refuses an `http://` address.
///
/// osdpl uses this check for addresses in the spec, in the catalogue, and in lock entries without a digest. A lock
/// entry with a digest may have an `http://` address, because the digest protects the chart.
pub(super) fn encrypted_repository(text: &str) -> Result<String, InvalidSource> {
    let url = repository(text)?;
    if is_plain_http(&url) { Err(InvalidSource::Unencrypted(text.to_owned())) } else { Ok(url) }
}

/// Checks the address of a repository, and returns the address without a trailing slash.
pub(super) fn repository(text: &str) -> Result<String, InvalidSource> {
    let (scheme, rest) = text.split_once("://").ok_or_else(|| InvalidSource::Scheme(text.to_owned()))?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some((_, host)) = authority.rsplit_once('@') {
        return Err(InvalidSource::Credentials { host: host.to_owned() });
    }
    if !matches!(scheme, "https" | "http" | "oci") {
        return Err(InvalidSource::Scheme(text.to_owned()));
    }
    let strange =
        |character: char| character.is_whitespace() || character.is_control() || "?#\"'\\`@".contains(character);
    if authority.is_empty() || rest.contains(strange) {
        return Err(InvalidSource::Address(text.to_owned()));
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
