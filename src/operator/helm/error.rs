//! What can go wrong before a helm process runs; how a helm process itself failed is [`Failure`](super::Failure).

use std::io;
use std::path::PathBuf;

use super::Version;

/// A helm program that cannot be used, or a process that cannot be started. Each says why itself, so that none has a source that would say it again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program does not start.
    #[error(
        "cannot start {path:?}: {why}; install helm 3.17 or newer, or helm 4, and put it on PATH or name it with --helm"
    )]
    Start {
        /// The program.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// It started, but what it said is no version.
    #[error(
        "{path:?} is not a usable helm: `helm version` answered {said:?} where a version such as v4.3.1 is expected; name the right program with --helm"
    )]
    NotHelm {
        /// The program.
        path: PathBuf,
        /// The first line of its answer.
        said: String,
    },
    /// A helm whose command line we do not know.
    #[error(
        "{path:?} is helm {version}; the operator needs helm {oldest} or newer within 3, or any helm 4: install one and name it with --helm"
    )]
    WrongVersion {
        /// The program.
        path: PathBuf,
        /// What it is.
        version: Version,
        /// What it would have to be at least.
        oldest: Version,
    },
    /// It could not render a chart.
    #[error("helm can't render {release}: {said}; nothing was done")]
    Template {
        /// The release.
        release: String,
        /// Its last words, without secrets.
        said: String,
    },
    /// Neither a kubeconfig nor a pod's service account is at hand.
    #[error(
        "no cluster to hand to helm: there is no kubeconfig, no ~/.kube/config, and this is not a pod; set KUBECONFIG to a kubeconfig file"
    )]
    NoKubeconfig,
    /// Our own kubeconfig cannot be written.
    #[error(
        "cannot write the kubeconfig for helm to {path:?}: {why}; give the operator a writable folder with room in it"
    )]
    WriteKubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// `exec-helm` was called without a program.
    #[error("exec-helm is internal: it needs the parent's process id, a program and its arguments")]
    NothingToExec,
    /// The kernel refused the parent death signal.
    #[error("cannot tie helm to the life of the operator: {why}; helm was not started")]
    Tie {
        /// Why.
        why: io::Error,
    },
    /// The operator ended between starting the wrapper and now.
    #[error("the operator (process {parent}) that wanted helm is gone; helm was not started")]
    ParentGone {
        /// The process that asked.
        parent: u32,
    },
    /// Facts about a process cannot be read.
    #[error("cannot read {path:?}: {why}; the operator identifies itself by it, so /proc must be mounted")]
    Proc {
        /// The file under `/proc`.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
}
