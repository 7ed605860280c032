//! The chart store: reads charts from a folder or a repository, verifies them, and writes them as local archives for
//! helm.
//!
//! ```text
//!  ChartRequest{name, version, repository, digest} ─► Store::obtain ─► Chart{name, version, digest, path of a .tgz, …}
//!                             │
//!     folder: find the chart, pack a directory like `helm package`     folder, directory, ignore
//!     repository: cached and verified, else pulled by helm             pull (interface), cache
//!     check each file, as archives are not trusted                     archive, contents, problem
//!     compare the digest with lock.yaml, else with the first pull      digest, lock
//! ```
//!
//! helm never installs a chart directly from the folder or the repository. The store reads the chart, checks its
//! content, computes the digest of the content, and writes the content to a new archive for helm. So helm unpacks
//! exactly the content that osdpl has checked, even if helm and osdpl read tar or gzip differently, or if the chart in
//! the folder changes after the check. If the store cannot provide a chart, it returns one [`Error`]. The operator
//! reports the error's reason in the condition of the chart's release.

#![allow(clippy::disallowed_methods, reason = "the only module that reads and writes chart files")]

mod archive;
mod cache;
mod chart;
mod contents;
mod digest;
mod directory;
mod error;
mod file_states;
mod files;
mod folder;
mod ignore;
pub mod keys;
mod lock;
mod metadata;
mod problem;
mod prune;
pub mod pull;
pub mod reads;
mod source;
mod store;

pub use cache::write_atomically;
pub use chart::{Chart, LockState};
pub use digest::{Digest, InvalidDigest};
pub use error::{Error, Mismatch};
pub use lock::{InvalidLock, Lock, LockEntry};
pub use problem::ChartProblem;
pub use pull::Pull;
pub use source::{InvalidSource, Source, UPSTREAM};
pub use store::Store;

pub use osdpl_decide::ChartRequest;

#[cfg(test)]
mod tests;
