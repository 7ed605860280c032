//! The seam to the network: the store says what it wants, the `helm` room runs the program that gets it.

use std::path::{Path, PathBuf};

use futures::future::BoxFuture;

/// One version of one chart in a repository.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// An `http(s)://` chart repository or an `oci://` registry path.
    pub repository: String,
    /// The chart.
    pub chart: String,
    /// The exact version.
    pub version: String,
}

/// Something that gets charts from repositories.
pub trait Pull: Send + Sync + 'static {
    /// Puts the chart's archive into the folder `into`, which is empty and goes away soon after, and says where it is.
    fn pull<'a>(&'a self, request: &'a Request, into: &'a Path) -> BoxFuture<'a, Result<PathBuf, Failure>>;

    /// The newest version that the repository has.
    fn newest<'a>(&'a self, repository: &'a str, chart: &'a str) -> BoxFuture<'a, Result<String, Failure>>;
}

/// Why a pull failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The repository answered that it has no such chart or version.
    Absent(String),
    /// The repository wants credentials, or others.
    Forbidden(String),
    /// It did not answer, or not as a repository does.
    Unreachable(String),
    /// No room where the archive was to be put.
    Full,
    /// The archive could not be put there for another reason.
    Unwritable(String),
    /// The program does not run.
    Program(String),
}

/// For a store that has only folders and never pulls.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPull;

impl Pull for NoPull {
    fn pull<'a>(&'a self, _: &'a Request, _: &'a Path) -> BoxFuture<'a, Result<PathBuf, Failure>> {
        Box::pin(async { Err(Failure::Program("no helm program was given".to_owned())) })
    }

    fn newest<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(async { Err(Failure::Program("no helm program was given".to_owned())) })
    }
}
