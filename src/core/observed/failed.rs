//! Failed operations of osdpl on releases.

use k8s_openapi::jiff::Timestamp;

use crate::release::Verb;

/// An operation of osdpl on a release that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// The operation that failed: an upgrade or an uninstall.
    pub verb: Verb,
    /// The digest of the inputs that the operation failed with. The backoff ends at once when the inputs change.
    pub inputs: String,
    /// When the operation failed.
    pub at: Timestamp,
    /// The number of failures in a row.
    pub count: u32,
    /// The error and what to do, without secrets.
    pub message: String,
    /// What must change before a retry can succeed. The delay before the retry depends on it.
    pub fix: RetryCondition,
    /// Whether an event already reported this failure.
    pub is_reported: bool,
}

/// What must change before a retry of a failed operation can succeed. The delay before the retry depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryCondition {
    /// Perhaps nothing, so osdpl retries soon: a hook failed, or the API server did not respond.
    Time,
    /// The cluster: a person must, for example, delete an immutable object. No watch reports that this was done.
    Manual,
    /// The inputs: helm cannot render the chart with the present ones.
    Inputs,
}
