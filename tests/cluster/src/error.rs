//! The errors of a local control plane, with a hint for the user.

use std::path::{Path, PathBuf};

/// The errors of starting, controlling or stopping a local control plane.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read, written, created or removed.
    #[error("cannot {action} {}: {reason}", path.display())]
    File {
        /// The verb: `read`, `write`, `create` …
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        reason: std::io::Error,
    },
    /// A file of the cluster has an unexpected content.
    #[error("{} is not a file this version wrote: {reason}; run `cluster down` on its folder and start anew", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The error of the parser.
        reason: String,
    },
    /// The Go toolchain is missing or too old.
    #[error(
        "cannot build {program}: {reason}; install Go {needed} or newer (the `go` command must be on PATH), or put {program} itself on PATH"
    )]
    Go {
        /// The first program that had to be built.
        program: String,
        /// What was found instead.
        reason: String,
        /// The oldest Go version that `go.mod` allows.
        needed: String,
    },
    /// Python is missing, too old, or lacks its venv module.
    #[error(
        "cannot make the Python environment of tests: {reason}; install Python 3.10 or newer with its venv module (Debian and Ubuntu: apt-get install python3-venv)"
    )]
    Python {
        /// What was found instead.
        reason: String,
    },
    /// `go build` or an installation failed.
    #[error("building {program} failed: {reason}\n{tail}")]
    Build {
        /// The program.
        program: String,
        /// The reason of the failure.
        reason: String,
        /// The last lines of Go's output.
        tail: String,
    },
    /// A program of the control plane did not start.
    #[error("{component} did not come up: {reason}\n{tail}")]
    Boot {
        /// The program or step.
        component: String,
        /// The presumed reason.
        reason: String,
        /// The last lines of its log.
        tail: String,
    },
    /// There is no free block of ports.
    #[error(
        "no free ports for another cluster on 127.0.0.1 between {first} and {last}: end some with `cluster down DIR`"
    )]
    Ports {
        /// The first checked port.
        first: u16,
        /// The last checked port.
        last: u16,
    },
    /// A folder contains files of others.
    #[error("{} is neither empty nor a cluster's folder: name another one, nothing was touched", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// No cluster is running in the folder.
    #[error("no cluster runs in {}: start one with `cluster up {}`", path.display(), path.display())]
    NotRunning {
        /// The folder.
        path: PathBuf,
    },
    /// The supervisor refused a request or did not respond.
    #[error("the cluster's supervisor: {reason}")]
    Supervisor {
        /// Its response.
        reason: String,
    },
    /// The operation is not allowed on a cluster that was not started here.
    #[error("{what} is not possible on an existing cluster that was not started here: run without KUBECONFIG")]
    NotOwned {
        /// The operation.
        what: &'static str,
    },
    /// The options did not request a program.
    #[error("{program} was not requested: add it to the programs in the options")]
    NotAskedFor {
        /// The program.
        program: String,
    },
    /// A certificate could not be created.
    #[error("cannot make the certificate {name}: {reason}")]
    Certificate {
        /// The file name of the certificate.
        name: String,
        /// The error of the library.
        reason: String,
    },
    /// The API server returned an error, or did not respond.
    #[error("the API server, {action}: {reason}")]
    Api {
        /// The operation.
        action: String,
        /// Its response.
        reason: String,
    },
}

impl Error {
    /// Wraps an error of the file system.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |reason| Self::File { action, path, reason }
    }

    /// Wraps an error of the kube client, without its debug output.
    pub(crate) fn api(action: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let action = action.into();
        move |error| Self::Api { action, reason: api_message(&error) }
    }
}

/// Returns the API server's message, without the debug text of kube's own `Display`.
pub(crate) fn api_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
