//! Runs the `helm` program. This is the only module that starts processes.
//!
//! helm runs as a separate process, so its memory is freed after each run. One helm process installs, upgrades or
//! uninstalls one release; this module then interprets its exit code and its messages. The plan of a pass decides
//! *whether* and *when* helm runs.
//!
//! ```text
//! program     finds helm, checks its version, sets its environment   kubeconfig  provides the kubeconfig for helm
//! arguments   creates the command lines of helm                      exec        ends helm when the operator ends
//! runner      starts a limited number of helm processes              child       runs one process
//! failure     classifies helm's error messages                       instance    identifies operator processes
//! pull        pulls charts for the chart store                       template    renders a chart
//! guard       kills helm if the operator hangs                       version     the version of a helm program
//! limits      limits the memory and the processor time of helm
//! ```
//!
//! The module is based on the behaviour of helm v3.22.0 and v4.3.1. Two rules matter everywhere:
//!
//! * An upgrade never uses `--wait` or `--atomic`, because helm would wait for ever: pods wait for OpenStack-Helm's
//!   Jobs, and these Jobs are post hooks, which helm starts only after the pods are ready.
//! * The operator passes values to helm only on stdin. Every user of the machine can read a command line, and files
//!   remain on disk.

mod arguments;
mod child;
mod error;
pub mod exec;
mod failure;
#[cfg(test)]
pub(crate) mod fake;
pub mod guard;
mod instance;
pub mod kubeconfig;
mod limits;
pub mod program;
pub mod pull;
mod runner;
mod spawner;
mod tail;
pub mod template;
mod version;

pub use arguments::{ChartReference, Upgrade};
pub use error::Error;
pub use instance::{Instance, ProcessState};
pub use program::Program;
pub use runner::{Config, Runner};
pub use version::Version;

pub(crate) use arguments::{ApplyMode, Operation, Uninstall};
pub(crate) use child::{Exit, Outcome, StopReason};
pub(crate) use failure::{Failure, Subject};
pub(crate) use guard::Guard;
pub(crate) use osdpl_core::release::{ReleaseKey, Verb};
pub(crate) use runner::{Counters, Job, JobRejection, RunningJob};
