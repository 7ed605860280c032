//! The helm operations of osdpl that failed: upgrades and uninstalls.

use k8s_openapi::jiff::Timestamp;

use crate::release::Verb;

/// The last operation of osdpl on a helm release, if that operation failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// The operation that failed: an upgrade or an uninstall.
    pub verb: Verb,
    /// The digest of the release's inputs (chart, values and flags) with which the operation failed. If the inputs are
    /// different now, osdpl retries without a delay.
    pub inputs: String,
    /// When the helm operation failed.
    pub at: Timestamp,
    /// The number of times in a row that the operation failed with the same inputs.
    pub count: u32,
    /// The error message of the failed operation, with the remedy and without secrets.
    pub message: String,
    /// The change that is necessary before a retry can succeed. The delay before the next retry depends on it.
    pub fix: RetryCondition,
    /// Whether the operator already reported this failure in a Kubernetes event.
    pub is_reported: bool,
}

/// The change that is necessary before a retry of a failed operation can succeed. The delay before the next retry
/// depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryCondition {
    /// Perhaps no change is needed: for example, a hook failed or the API server did not respond. The same operation
    /// may succeed later, so osdpl retries after a short delay.
    Time,
    /// The cluster must change: for example, a person must delete an object because the upgrade changes one of its
    /// immutable fields. No watch reports this change, so osdpl retries with long delays.
    Manual,
    /// The inputs must change: with the current inputs, helm cannot render the chart, or the release record would be
    /// too large for a Secret. osdpl retries with the same inputs only if a person requests the retry.
    Inputs,
}
