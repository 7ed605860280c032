//! Defines the errors that osdpl reports if it can't prepare or start helm, or if `helm template` fails.
//!
//! If an upgrade or uninstall fails, osdpl describes the failure with a [`Failure`](super::Failure) instead.

use std::io;
use std::path::PathBuf;

use super::Version;

/// Why osdpl cannot prepare or start helm, or why `helm template` failed.
///
/// Each message includes its cause. `source()` returns `None`, because with a source a log would show the cause twice.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system cannot start the helm program, or `helm version` did not end in time.
    #[error(
        "cannot start {path:?}: {why}; install helm 3.17 or newer, or helm 4, and put it on PATH or name it with --helm"
    )]
    Start {
        /// The path of the program.
        path: PathBuf,
        /// The error of the operating system.
        why: io::Error,
    },
    /// The output of `helm version` is not a version, so the program is probably not helm.
    #[error(
        "{path:?} is not helm: `helm version` printed {output:?} instead of a version such as v4.3.1; set --helm to the path of helm"
    )]
    NotHelm {
        /// The path of the program.
        path: PathBuf,
        /// The first line of the output of `helm version`.
        output: String,
    },
    /// The program is helm, but osdpl does not support the command line of this version.
    #[error(
        "{path:?} is helm {version}; the operator needs helm 4, or helm 3 from version {oldest} on: install one of them and name it with --helm"
    )]
    WrongVersion {
        /// The path of the program.
        path: PathBuf,
        /// The version of the program.
        version: Version,
        /// The oldest version of helm 3 that osdpl supports.
        oldest: Version,
    },
    /// helm cannot render the chart of a release.
    #[error("helm cannot render {release}: {output}; nothing was changed")]
    Template {
        /// The release whose chart helm cannot render.
        release: String,
        /// helm's error message, without secrets.
        output: String,
    },
    /// helm has no kubeconfig: the user has named none, has no `~/.kube/config`, and osdpl does not run in a pod.
    #[error(
        "helm has no kubeconfig: KUBECONFIG is not set, ~/.kube/config does not exist, and osdpl does not run in a pod; set KUBECONFIG to a kubeconfig file"
    )]
    NoKubeconfig,
    /// The operator cannot write the kubeconfig for helm.
    #[error(
        "cannot write the kubeconfig for helm to {path:?}: {why}; give the operator a writable folder with free space"
    )]
    WriteKubeconfig {
        /// The path of the kubeconfig that the operator tried to write.
        path: PathBuf,
        /// The error of the operating system.
        why: io::Error,
    },
    /// `exec-helm` was called without a program.
    #[error("exec-helm is internal: it needs the parent's process id, a program and its arguments")]
    NothingToExec,
    /// `exec-helm` asked the kernel to signal helm when the operator ends, and the kernel rejected this request.
    #[error("osdpl cannot tell the kernel to stop helm when the operator ends: {why}; helm was not started")]
    ParentDeathSignal {
        /// The error of the operating system.
        why: io::Error,
    },
    /// The operator ended before `exec-helm` could start helm.
    #[error("the operator (process {parent}) has ended; helm was not started")]
    ParentGone {
        /// The operator's process id.
        parent: u32,
    },
    /// The guard process, which kills helm if the operator hangs, has ended.
    #[error("the guard process, which kills helm if the operator hangs, has ended: {why}; the operator starts no helm")]
    Guard {
        /// The error of the operating system.
        why: io::Error,
    },
    /// osdpl cannot read or parse a file in `/proc`.
    #[error("cannot read {path:?}: {why}; the operator needs this file, so /proc must be mounted")]
    Proc {
        /// The path of the file that osdpl cannot read, below `/proc`.
        path: PathBuf,
        /// The error of the operating system.
        why: io::Error,
    },
}
