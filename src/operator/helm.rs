//! Driving the `helm` program: the only room that starts processes.
//!
//! helm is a child process and never a library: what is heavy and leaky in it ends with each run. The room knows how one
//! release is installed, upgraded and removed, and what became of that; *whether* and *when* is decided by the plan.
//!
//! ```text
//! program     which helm, its version, the environment it sees        kubeconfig  the cluster it talks to
//! arguments   the command line of an upgrade and an uninstall         exec        helm that dies with us
//! runner      one child a release, bounded slots, what came out       child       one child from start to end
//! failure     what helm's last words mean                             instance    who we are, and who is dead
//! pull        charts from repositories, for the chart store       template    what a chart would render
//! ```
//!
//! Sources of the rules: helm v3.22.0 and v4.3.1. Two of them shape everything: never `--wait` or `--atomic` on an
//! upgrade (OpenStack-Helm's Jobs are post hooks, and pods wait for them, so helm would wait for ever), and values
//! only on stdin (argv is world-readable, files stay behind).

pub mod arguments;
mod child;
mod error;
pub mod exec;
pub mod failure;
#[cfg(test)]
mod fake;
pub mod instance;
pub mod kubeconfig;
pub mod program;
pub mod pull;
mod runner;
mod spawner;
mod tail;
pub mod template;

pub use arguments::{Apply, ChartReference, Uninstall, Upgrade, Verb};
pub use child::{Exit, Outcome, Stop};
pub use error::Error;
pub use failure::{Failure, Subject};
pub use instance::{Instance, Verdict};
pub use program::{Program, Version};
pub use runner::{Config, Job, Refused, Runner, Running, Tally, VerbTally};

pub use osdpl_core::release::Key;
