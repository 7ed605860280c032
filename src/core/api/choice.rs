//! The enumerations from which fields of the spec take their values, such as the approval and deletion policies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The policy for the changes that wait until a person approves them with `osdpl approve`. With `Manual`, the default,
/// these are uninstalls, all changes that the spec did not request (such as those of a new version of the operator or
/// of a ConfigMap that `spec.catalog` names), and upgrades that change a Ceph key of running instances, CRDs in the
/// cluster, or the division of nodes among DaemonSets. With `Automatic`, such changes do not wait. With `Always`, every change
/// of a release waits, even the first install and other changes that the spec requested. Changes of node labels,
/// external services and objects of Rook then wait, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    /// Some changes wait until a person approves them with `osdpl approve`: uninstalls, changes that the spec did not
    /// request, and upgrades that change a Ceph key of running instances, CRDs in the cluster, or the division of nodes
    /// among `DaemonSets`.
    #[default]
    Manual,
    /// The operator applies changes at once, even if the spec did not request them. Only the changes that endanger data
    /// still wait for approval: an uninstall of a release that the status does not name, and the first upgrade that
    /// changes an adopted release. Rollouts and the removal of node labels follow `spec.nodes.rollout.approval`.
    Automatic,
    /// Every install, upgrade and uninstall of a release waits until a person approves the target hash, even if the
    /// spec requested the change. Changes of node labels, external services and objects of Rook wait, too. Retries and
    /// repairs do not wait, because they change no inputs. The deletion of the resource does not wait either.
    Always,
}

/// The policy for the objects that the operator keeps when someone deletes the resource. `Retain`, the default, keeps
/// credentials, Secrets with keys (such as `keystone-fernet-keys`), and the volume claims of `StatefulSet`s. A new
/// resource with the same name uses these objects. But helm deletes the claims that are part of a chart, such as
/// `mariadb-backup-data`. `Purge` removes everything. `Detach` keeps everything: the releases keep running, and people
/// can manage them with helm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// The operator keeps credentials, Secrets with keys (such as `keystone-fernet-keys`), and the volume claims of
    /// `StatefulSet`s. A new resource with the same name uses these objects. But helm deletes the claims that are part
    /// of a chart, unless the chart sets `helm.sh/resource-policy: keep`.
    #[default]
    Retain,
    /// The operator removes everything, including credentials, Secrets with keys (such as `keystone-fernet-keys`), and
    /// volume claims.
    Purge,
    /// The operator does not run helm. The releases keep running, and their Secrets and the labels of nodes stay.
    Detach,
}

/// When an upgrade runs the hooks of a release, such as the Jobs that migrate its database and create its users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HookPolicy {
    /// An upgrade that changes only values that no hook reads skips the hooks. The catalogue lists such values.
    #[default]
    WhenNeeded,
    /// Every upgrade runs the hooks.
    Always,
}

/// The reaction of the operator if someone edited or deleted objects of a release without helm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftPolicy {
    /// The operator reports the drift in the status: the changed object, and the author and time of the change.
    #[default]
    Report,
    /// The operator runs helm for the release again, which reverts the drift.
    Repair,
    /// The operator ignores the drift.
    Ignore,
}
