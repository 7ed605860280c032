//! The enumerations that are the types of fields of the spec.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which changes wait until a person approves them with `osdpl approve`. `Manual`, the default: uninstalls, and changes
/// that the spec did not request, such as those in a new version of the operator or in a ConfigMap of `catalog`.
/// `Automatic`: no changes. `Always`: every change of a release, even if the spec requested it, including the first
/// install; also changes of node labels, external services and objects of Rook.
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

/// Which objects the operator keeps when someone deletes the resource. `Retain`, the default, keeps the volume claims
/// of `StatefulSet`s, credentials and key Secrets. A new resource with the same name uses these objects. But helm
/// deletes the claims that are part of a chart, such as `mariadb-backup-data`. `Purge` removes everything. `Detach`
/// keeps everything: the releases keep running, and people can manage them with helm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// The operator keeps the volume claims of `StatefulSet`s, credentials and key Secrets. A new resource with the
    /// same name uses these objects. But helm deletes the claims that are part of a chart, unless the chart sets
    /// `helm.sh/resource-policy: keep`.
    #[default]
    Retain,
    /// The operator removes everything, including volume claims, credentials and key Secrets.
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
