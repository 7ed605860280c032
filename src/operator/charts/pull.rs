//! The interface through which the store downloads charts. The module `helm` implements it with the helm program.

use std::path::{Path, PathBuf};

use futures::future::BoxFuture;

/// A request to pull one version of a chart from a repository.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// The address of the chart repository (`http(s)://`) or registry (`oci://`).
    pub repository: String,
    /// The name of the chart.
    pub chart: String,
    /// The version of the chart to pull. The store refuses any other version.
    pub version: String,
}

/// Downloads charts from repositories on behalf of the store.
pub trait Pull: Send + Sync + 'static {
    /// Downloads the chart's archive into the empty folder `into`, and returns the path of the archive.
    ///
    /// The store removes the folder as soon as it has read the archive.
    fn pull<'a>(&'a self, request: &'a Request, into: &'a Path) -> BoxFuture<'a, Result<PathBuf, PullFailure>>;

    /// Returns the newest version of a chart in a repository.
    fn newest<'a>(&'a self, repository: &'a str, chart: &'a str) -> BoxFuture<'a, Result<String, PullFailure>>;
}

/// Why osdpl could not pull a chart. The texts in the variants are helm's error messages, except in `Program`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PullFailure {
    /// The repository has no such chart or version.
    #[error("{0}; request a chart and a version that the repository has")]
    NotFound(String),
    /// The repository refuses the pull, because it requires a login.
    #[error(
        "the repository refuses access ({0}); download the charts into a folder with `helm pull`, and name that folder with --charts (the chart value `charts`) instead of the repository"
    )]
    Forbidden(String),
    /// The repository did not respond, or its response is not valid for a chart repository.
    #[error(
        "the repository cannot be reached ({0}); check the address, the network and the proxy, or use a folder of charts"
    )]
    Unreachable(String),
    /// The disk to which helm writes the archive is full.
    #[error("the disk is full, so helm cannot pull the chart; free some space")]
    Full,
    /// helm cannot write the archive, for a reason other than a full disk.
    #[error("helm cannot write the chart that it pulls ({0}); give helm a writable folder")]
    Unwritable(String),
    /// osdpl pulls no charts, because it takes them from a folder ([`NoPull`]).
    #[error("osdpl pulls no charts, because --charts names a folder; name a repository with --charts")]
    Disabled,
    /// osdpl cannot run the helm program. The text is the reason.
    #[error("helm cannot be run ({0}); install helm 3.17 or newer, or helm 4")]
    Program(String),
}

/// The [`Pull`] of a store that takes charts only from a folder: every pull fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPull;

impl Pull for NoPull {
    fn pull<'a>(&'a self, _: &'a Request, _: &'a Path) -> BoxFuture<'a, Result<PathBuf, PullFailure>> {
        Box::pin(async { Err(PullFailure::Disabled) })
    }

    fn newest<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<String, PullFailure>> {
        Box::pin(async { Err(PullFailure::Disabled) })
    }
}
