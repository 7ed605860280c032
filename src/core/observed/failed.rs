//! Failed operations.

use k8s_openapi::jiff::Timestamp;

use crate::release::Verb;

/// A failed operation of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// The operation.
    pub verb: Verb,
    /// The digest of the failed inputs. The operator tries other inputs at once.
    pub inputs: String,
    /// When it failed.
    pub at: Timestamp,
    /// The number of failures in a row.
    pub count: u32,
    /// The error, without secrets, and what to do.
    pub message: String,
    /// What a retry needs to succeed.
    pub fix: RetryCondition,
    /// Whether an event reported it.
    pub is_reported: bool,
}

/// What a retry of a failed operation needs to succeed; it decides the retry delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryCondition {
    /// Possibly only time: a failing hook, or an API server that does not respond.
    Time,
    /// Manual work in the cluster, such as the deletion of an immutable object. No watch reports it.
    Manual,
    /// Only other inputs: the chart cannot be rendered with these.
    Inputs,
}
