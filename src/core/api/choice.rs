//! The enumerations that are the types of fields of the spec.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether changes that the spec did not request wait for approval. Such changes come from a new version of the
/// operator, of the catalogue or of a ConfigMap in `catalog`. The uninstall of a release waits for approval, too.
/// `Manual`, the default, waits for `osdpl approve`; `Automatic` applies the changes at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    /// Changes that the spec did not request wait until a person approves them with `osdpl approve`.
    #[default]
    Manual,
    /// The operator applies changes that the spec did not request at once, without approval.
    Automatic,
}

/// Which objects the operator keeps when someone deletes the resource. `Retain`, the default, keeps volume claims,
/// credentials and key Secrets; if someone creates the resource again, it uses these objects. `Purge` removes
/// everything. `Detach` keeps everything, so that the releases keep running and people can manage them with helm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// The operator keeps volume claims, credentials and key Secrets. A new resource with the same name uses these
    /// objects.
    #[default]
    Retain,
    /// The operator removes everything, also volume claims, credentials and key Secrets.
    Purge,
    /// The releases keep running, and the operator keeps Secrets and labels of nodes. It does not run helm.
    Detach,
}

/// What the operator does if someone edited or deleted objects of a release without helm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftPolicy {
    /// The operator reports the change in the status: the object, the author and the time.
    #[default]
    Report,
    /// The operator runs helm for the release again, which reverts the change.
    Repair,
    /// The operator ignores the change.
    Ignore,
}
