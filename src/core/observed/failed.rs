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
    /// The possible fix.
    pub fix: Fix,
    /// Whether an event reported it.
    pub is_reported: bool,
}

/// The possible fix of a failure, which decides the retry delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Possibly only time: a failing hook, or an API server that does not respond.
    Time,
    /// Manual work in the cluster, such as the deletion of an immutable object. No watch reports it.
    Manual,
    /// Only other inputs: the chart cannot be rendered with these.
    Inputs,
}
