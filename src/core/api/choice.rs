//! The enumerations from which fields of the spec take their values, such as the approval and deletion policies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which changes wait until a person approves them with `osdpl approve`. With `Manual`, the default, uninstalls wait,
/// and changes that the spec did not request: a new version of the operator or a ConfigMap of `catalog` may cause them.
/// With `Automatic`, no change waits. With `Always`, every change of a release waits, even the first install and other
/// changes that the spec requested. Changes of node labels, external services and objects of Rook then wait, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    /// Uninstalls, and changes that the spec did not request, wait until a person approves them with `osdpl approve`.
    #[default]
    Manual,
    /// The operator applies changes at once, without approval, even if the spec did not request them.
    Automatic,
    /// Every install, upgrade and uninstall of a release waits until a person approves the target hash, even if the
    /// spec requested the change. Changes of node labels, external services and objects of Rook wait, too.
    Always,
}

/// Which objects the operator keeps when someone deletes the resource. `Retain`, the default, keeps credentials,
/// Secrets with keys, and the volume claims of `StatefulSet`s. A new resource with the same name uses these objects.
/// But helm deletes the claims that are part of a chart, such as `mariadb-backup-data`. `Purge` removes everything.
/// `Detach` keeps everything: the releases keep running, and people can manage them with helm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// The operator keeps credentials, Secrets with keys, and the volume claims of `StatefulSet`s. A new resource with
    /// the same name uses these objects. But helm deletes the claims that are part of a chart, unless the chart sets
    /// `helm.sh/resource-policy: keep`.
    #[default]
    Retain,
    /// The operator removes everything, including credentials, Secrets with keys, and volume claims.
    Purge,
    /// The releases keep running, and the operator keeps Secrets and labels of nodes. It does not run helm.
    Detach,
}

/// When an upgrade runs the hooks of a release, such as the Jobs that migrate its database and create its users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HookPolicy {
    /// An upgrade skips the hooks if it changes only values that no hook reads. The catalogue lists these values.
    #[default]
    WhenNeeded,
    /// Every upgrade runs the hooks.
    Always,
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
