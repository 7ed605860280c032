//! What failed, and what can mend it.

use k8s_openapi::jiff::Timestamp;

/// An operation of ours that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// `upgrade` or `uninstall`.
    pub verb: String,
    /// The digest of the inputs that failed: other inputs are tried at once.
    pub inputs: String,
    /// When it failed.
    pub at: Timestamp,
    /// How many times in a row.
    pub count: u32,
    /// What went wrong, scrubbed, and what to do.
    pub message: String,
    /// What can mend it.
    pub mend: Mend,
    /// Whether an event told it.
    pub told: bool,
}

/// What can mend a failure: how soon it is tried again follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mend {
    /// Perhaps nothing but time: a hook that fails, an API server that does not answer.
    Time,
    /// Someone's hand in the cluster, such as the deletion of an object that can't be changed: nothing tells when that is done.
    Hand,
    /// Other inputs alone: the chart can't be rendered with these.
    Inputs,
}
