//! Failed operations that osdpl had started on releases.

use k8s_openapi::jiff::Timestamp;

use crate::release::Verb;

/// A failed operation that osdpl had started on a release.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// The operation that failed: an upgrade or an uninstall.
    pub verb: Verb,
    /// The digest of the inputs with which the operation failed. If the inputs change, osdpl retries at once, without a
    /// delay.
    pub inputs: String,
    /// When the operation failed.
    pub at: Timestamp,
    /// How often in a row this operation failed with these inputs.
    pub count: u32,
    /// The error and the remedy, without secrets.
    pub message: String,
    /// The change that is needed before a retry can succeed. The delay before the next retry depends on this change.
    pub fix: RetryCondition,
    /// Whether an event already reported this failure.
    pub is_reported: bool,
}

/// The change that is needed before a retry of a failed operation can succeed. The delay before the next retry depends
/// on this change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryCondition {
    /// Perhaps nothing must change, because a hook failed or the API server did not respond. So osdpl retries soon.
    Time,
    /// The cluster must change: a person must, for example, delete an immutable object. No watch reports this change,
    /// so osdpl retries with long delays.
    Manual,
    /// The inputs must change: helm cannot render the chart with the present inputs.
    Inputs,
}
