//! Enumerations that fields of the spec have as their type.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The approval of changes that the spec did not request (those of a new operator or catalogue, and uninstalls):
/// `Manual`, the default, waits for `osdpl approve`; `Automatic` applies them at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    /// Changes wait until a person approves them with `osdpl approve`.
    #[default]
    Manual,
    /// The operator applies changes at once, without an approval.
    Automatic,
}

/// The objects that remain after a deletion of the resource: `Retain`, the default, keeps volume claims, credentials
/// and key Secrets, which the same resource uses when it is applied again; `Purge` removes everything; `Detach` keeps
/// everything, so that the releases keep running and can be managed with helm by hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// Keeps volume claims, credentials and key Secrets. The resource uses them when it is applied again.
    #[default]
    Retain,
    /// Removes everything, also volume claims, credentials and key Secrets.
    Purge,
    /// Keeps the releases running, and keeps Secrets and labels of nodes. The operator does not run helm.
    Detach,
}

/// The reaction to objects of a release that someone edited or deleted without helm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftPolicy {
    /// Reports in the status what was changed, when and by whom.
    #[default]
    Report,
    /// Applies the release again, which reverts the change.
    Repair,
    /// Ignores the change.
    Ignore,
}
