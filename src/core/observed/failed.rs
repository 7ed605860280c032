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
    /// What a retry needs to succeed. It decides the delay before the retry.
    pub fix: RetryCondition,
    /// Whether an event already reported this failure.
    pub is_reported: bool,
}

/// What a retry of a failed operation needs to succeed; it decides the retry delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryCondition {
    /// Possibly only time: a hook failed, or the API server did not respond.
    Time,
    /// Manual work in the cluster, such as the deletion of an immutable object. No watch reports that it was done.
    Manual,
    /// Other inputs: helm cannot render the chart with the present ones.
    Inputs,
}
