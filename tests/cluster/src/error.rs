//! The errors of a local control plane. If a user can fix an error, the error's message says how.

use std::path::{Path, PathBuf};

/// An error while a local control plane is started, controlled or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read, written, created or removed.
    #[error("cannot {action} {}: {reason}", path.display())]
    File {
        /// The operation that failed, as a verb such as `read` or `write`.
        action: &'static str,
        /// The path of the file or folder for which the operation failed.
        path: PathBuf,
        /// The operating system's reason for the failure.
        reason: std::io::Error,
    },
    /// A file of the cluster, or the kubeconfig of an existing cluster, cannot be parsed.
    #[error("cannot parse {}: {reason}; if another version of `cluster` wrote it, run `cluster down` of that version", path.display())]
    Malformed {
        /// The path of the file that cannot be parsed.
        path: PathBuf,
        /// The error of the parser.
        reason: String,
    },
    /// The Go toolchain is missing or too old.
    #[error(
        "cannot build {program}: {reason}; install Go {needed} or newer (the `go` command must be on PATH), or put {program} itself on PATH"
    )]
    Go {
        /// The name of the program that can't be built; if there are several, the first one.
        program: String,
        /// Why Go cannot be used, for example because its version is too old.
        reason: String,
        /// The oldest Go version with which the program can be built, from its `go.mod`.
        needed: String,
    },
    /// Python is missing or too old, or its venv module is missing.
    #[error(
        "cannot create the Python environment of tests: {reason}; install Python 3.10 or newer with its venv module (Debian and Ubuntu: apt-get install python3-venv)"
    )]
    Python {
        /// Why Python cannot be used, for example because its version is too old.
        reason: String,
    },
    /// `go build` or the installation of Python packages failed.
    #[error("building {program} failed: {reason}\n{tail}")]
    Build {
        /// The name of the program or Python environment that could not be built.
        program: String,
        /// Why the build failed, such as its exit status.
        reason: String,
        /// The last lines of the build's output.
        tail: String,
    },
    /// A program of the control plane did not start.
    #[error("{component} did not start: {reason}\n{tail}")]
    Boot {
        /// The program that did not start, or the step of the start that failed.
        component: String,
        /// The reason why the program did not start, if the supervisor knows it.
        reason: String,
        /// The last lines of the program's log; empty if it has none.
        tail: String,
    },
    /// All ports in the range for clusters are in use.
    #[error(
        "no free ports for another cluster on 127.0.0.1 between {first} and {last}: stop a cluster with `cluster down DIR`"
    )]
    Ports {
        /// The first port of the range for clusters.
        first: u16,
        /// The last port of the range for clusters.
        last: u16,
    },
    /// The folder for a new cluster contains files that belong to no cluster.
    #[error("{} is neither empty nor the folder of a cluster, so it was not changed: name another folder", path.display())]
    Foreign {
        /// The path of the folder that contains these files.
        path: PathBuf,
    },
    /// No cluster is running in the folder.
    #[error("no cluster runs in {}: start one with `cluster up {}`", path.display(), path.display())]
    NotRunning {
        /// The path of the folder in which no cluster is running.
        path: PathBuf,
    },
    /// The supervisor refused a request or did not respond.
    #[error("the cluster's supervisor failed: {reason}")]
    Supervisor {
        /// The error message of the supervisor, or the reason why the supervisor did not respond.
        reason: String,
    },
    /// The operation is refused, because this crate did not start the cluster.
    #[error("{what} is not possible on a cluster that `cluster` did not start: start one without --kubeconfig")]
    NotOwned {
        /// The operation, such as `reading the audit log`.
        what: &'static str,
    },
    /// The caller needs a program that the options did not request.
    #[error("the cluster has no {program}, because its options do not request it: add it to `programs`")]
    NotAskedFor {
        /// The name of the program that the caller needs.
        program: String,
    },
    /// A certificate could not be created.
    #[error("cannot create the certificate {name}: {reason}")]
    Certificate {
        /// The file name of the certificate.
        name: String,
        /// The error of the TLS library.
        reason: String,
    },
    /// The API server returned an error, or did not respond.
    #[error("{action} failed: {reason}")]
    Api {
        /// The operation, such as `writing the fault rule sync`.
        action: String,
        /// The error message of the API server, or the error of the connection to the API server.
        reason: String,
    },
}

impl Error {
    /// Returns a function that turns an error of the operating system into an [`Error::File`]. `action` is a verb, such
    /// as `read`.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |reason| Self::File { action, path, reason }
    }

    /// Returns a function that turns an error of the kube client into an [`Error::Api`]. `action` names the operation,
    /// such as `creating a node`.
    pub(crate) fn api(action: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let action = action.into();
        move |error| Self::Api { action, reason: api_message(&error) }
    }
}

/// Returns the message of the API server, or if it sent none, the text of the error. (If the API server sent a message,
/// the text of `kube::Error` adds debug output to it.)
pub(crate) fn api_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
