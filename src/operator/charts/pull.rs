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

/// Why a pull failed; the texts are the program's own words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The repository answered that it has no such chart or version.
    #[error("{0}; ask for one that is there")]
    Absent(String),
    /// The repository wants credentials, or others.
    #[error("it refuses access ({0}); pull the charts into a folder where you are logged in, and use that folder")]
    Forbidden(String),
    /// It did not answer, or not as a repository does.
    #[error("it cannot be reached ({0}); check address, network and proxy, or use a folder of charts")]
    Unreachable(String),
    /// No room where the archive was to be put.
    #[error("no room is left for what helm pulls; free some space")]
    Full,
    /// The archive could not be put there for another reason.
    #[error("helm cannot write what it pulls ({0}); give it a folder that it may write")]
    Unwritable(String),
    /// The program does not run.
    #[error("helm does not run ({0}); install helm 3.17 or newer, or helm 4")]
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
