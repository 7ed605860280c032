//! The chart store: charts out of a folder or a repository, verified, as local archives for helm.
//!
//! ```text
//!  Wanted{name, version} ─► Store::obtain ─► Chart{name, version, digest, path of a .tgz, …}
//!                             │
//!     folder: find it, pack a directory as `helm package` would        folder, directory, ignore
//!     repository: cached and verified, else pulled by helm             pull (the seam), cache
//!     every file is checked on the way: archives are untrusted         archive, contents, problem
//!     digest compared with the lock, else with the first pull          digest, lock
//! ```
//!
//! Whatever a chart came from, helm is given an archive that the store wrote itself from what it had read, checked and digested:
//! what helm unpacks later cannot be something else, even where two readers of tar or gzip would disagree, or where the file
//! changes in between. One chart that cannot be had is one [`Error`], with a reason for the condition of its release.

#![allow(clippy::disallowed_methods, reason = "the gate to charts' files")]

mod archive;
mod cache;
mod chart;
mod contents;
mod digest;
mod directory;
mod error;
mod folder;
mod ignore;
pub mod keys;
mod lock;
mod metadata;
mod problem;
mod prune;
pub mod pull;
pub mod reads;
mod seen;
mod source;
mod stock;
mod store;

pub use cache::write_whole;
pub use chart::{Chart, Pin, Wanted};
pub use contents::{LARGEST_CHART, LARGEST_FILE, MOST_ENTRIES};
pub use digest::{Digest, NoDigest};
pub use error::{Error, Mismatch};
pub use lock::{Invalid, Lock, Pinned};
pub use problem::Problem;
pub use pull::Pull;
pub use source::{NoSource, Source, UPSTREAM};
pub use store::Store;

#[cfg(test)]
mod tests;
