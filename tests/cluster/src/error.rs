//! What can go wrong with a local control plane, said so that the reader knows what to do.

use std::path::{Path, PathBuf};

/// Everything that starting, steering or ending a local control plane can fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read, written, made or removed.
    #[error("cannot {action} {}: {reason}", path.display())]
    File {
        /// The verb: `read`, `write`, `create` …
        action: &'static str,
        /// What it was tried on.
        path: PathBuf,
        /// The operating system's answer.
        reason: std::io::Error,
    },
    /// A file of ours does not hold what we write there.
    #[error("{} is not a file this version wrote: {reason}; run `cluster down` on its folder and start anew", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
    /// The Go toolchain is not there or too old.
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
    /// Python is not there, too old, or without its venv module.
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
        /// How it failed.
        reason: String,
        /// The last lines that Go printed.
        tail: String,
    },
    /// One of the control plane's programs did not come up.
    #[error("{component} did not come up: {reason}\n{tail}")]
    Boot {
        /// The program or step.
        component: String,
        /// Why it is believed to have failed.
        reason: String,
        /// The last lines of its log.
        tail: String,
    },
    /// No block of free ports was left.
    #[error(
        "no free ports for another cluster on 127.0.0.1 between {first} and {last}: end some with `cluster down DIR`"
    )]
    Ports {
        /// First port looked at.
        first: u16,
        /// Last port looked at.
        last: u16,
    },
    /// A folder holds something that is not ours.
    #[error("{} is neither empty nor a cluster's folder: name another one, nothing was touched", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// There is no running cluster in the folder.
    #[error("no cluster runs in {}: start one with `cluster up {}`", path.display(), path.display())]
    NotRunning {
        /// The folder.
        path: PathBuf,
    },
    /// The supervising process refused or did not answer.
    #[error("the cluster's supervisor: {reason}")]
    Supervisor {
        /// Its answer.
        reason: String,
    },
    /// Asked of a cluster that was not started here.
    #[error("{what} is not possible on a cluster that is only used, not started here: run without KUBECONFIG")]
    NotOurs {
        /// What was asked.
        what: &'static str,
    },
    /// A program was not among those asked for in the options.
    #[error("{program} was not asked for: name it in the options' programs")]
    NotAskedFor {
        /// The program.
        program: String,
    },
    /// A certificate could not be made.
    #[error("cannot make the certificate {name}: {reason}")]
    Certificate {
        /// File name of the certificate.
        name: String,
        /// What the library said.
        reason: String,
    },
    /// The API server answered with an error, or not at all.
    #[error("the API server, {action}: {reason}")]
    Api {
        /// What was being done.
        action: String,
        /// Its answer.
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
        move |error| Self::Api { action, reason: said(&error) }
    }
}

/// What the API server said, without the debug text that kube's own `Display` adds.
pub(crate) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
