//! Defines the custom resources: `OpenStackDeployment` with the desired state ([`OpenStackDeploymentSpec`]) and the
//! observed state ([`OpenStackDeploymentStatus`]) of a cloud, and [`NodeMaintenance`].
//!
//! Pure module (no I/O). `osdpl crd` generates the CRDs in `crds/` from these types, and a test verifies that the files
//! in `crds/` are up to date.

mod cause;
mod choice;
mod maintenance;
mod nodes;
mod rollout;
pub(crate) mod rules;
mod spec;
mod status;

pub use cause::{CauseObject, RootCauseStatus};
pub use choice::{Approval, DeletionPolicy, DriftPolicy, HookPolicy};
pub use maintenance::{
    FailedInstance, InstancePolicy, InstancesStatus, MaintenanceLimits, MaintenancePhase, MaintenanceStep,
    MaintenanceWindow, NodeMaintenance, NodeMaintenanceSpec, NodeMaintenanceStatus, StepState, StepStatus,
    maintenance_condition,
};
pub use nodes::{NodeOperator, NodeOverride, NodeRequirement, NodeSelector, NodeValues, Nodes, RoleNodes};
pub use rollout::{Rollout, RolloutPhase, RolloutStatus};
pub use spec::{
    AdditionReference, Charts, Common, External, Images, OpenStackDeployment, OpenStackDeploymentSpec, Overrides,
    ReleaseOverrides, SecretKey, ServiceOverrides, ValuesFrom, ValuesKind,
};
pub use status::{
    ComponentHealth, ComponentStatus, HelmReleaseStatus, LabelRemovalStatus, ObjectDrift, OpenStackDeploymentStatus,
    Phase, ReleaseStatus, RoleStatus, TestStatus, condition, reason,
};

use kube::ResourceExt;
use osdpl_values::digest;

/// The field manager of the operator's writes, and the value of the label `app.kubernetes.io/managed-by` on the objects
/// that the operator creates.
pub const MANAGER: &str = "osdpl";
/// The annotation with which a person approves changes that wait for approval. Its value is the target hash that the
/// status and `osdpl plan` show for these changes.
pub const APPROVE: &str = "osdpl.dev/approve";
/// The annotation with which a person asks the operator to adopt running releases that someone else installed. Its
/// value consists of the releases' names in the catalogue, separated by commas, or is `all`.
pub const ADOPT: &str = "osdpl.dev/adopt";
/// The annotation with which a person asks the operator to repair releases. Its value consists of the names of the
/// releases, separated by commas, or is `all`.
///
/// To repair a release, the operator restores the objects that someone edited or deleted without helm. If someone else
/// made the newest revision, the operator upgrades the release to a new revision of its own. If the operator's last
/// helm operation failed, the operator retries the operation after a short delay. If the annotation names a release
/// that needs no repair, the operator upgrades it anyway, with the same inputs; `all` skips such releases.
pub const REPAIR: &str = "osdpl.dev/repair";
/// The annotation with which a person confirms that nodes were removed permanently. Its value consists of the names of
/// the nodes, separated by commas. The operator removes the hosts of these nodes from Nova and Neutron.
pub const FORGET_NODES_ANNOTATION: &str = "osdpl.dev/forget-nodes";
/// The annotation with which a person asks the operator to uninstall releases without running the charts' hooks, for
/// example because a hook can never finish. Its value consists of the names of the releases, separated by commas, or is
/// `all`.
pub const SKIP_HOOKS: &str = "osdpl.dev/skip-hooks";
/// The annotation with which a person allows the deletion of a cloud although the deletion destroys the cloud's
/// instances. Its value is the name of the `OpenStackDeployment`.
pub const DELETE_WITH_INSTANCES: &str = "osdpl.dev/delete-with-instances";
/// The finalizer that keeps an `OpenStackDeployment` until the operator has uninstalled or detached its releases.
pub const FINALIZER: &str = "osdpl.dev/releases";
/// The annotation on a node that lists the labels which the operator has set for the node's roles. In the annotation's
/// value, the [`owner_label`] of a cloud precedes the labels that the operator has set for this cloud:
/// `openstack.cloud,openstack-compute-node=enabled,openvswitch=enabled`.
pub const NODE_LABELS: &str = "osdpl.dev/labels";
/// The annotation on a node that the operator cordoned for a `NodeMaintenance`. Its value is the name of this
/// `NodeMaintenance`.
pub const NODE_MAINTENANCE: &str = "osdpl.dev/maintenance";
/// The annotation on a `NodeMaintenance` with which a person asks the operator to retry failed migrations of instances.
/// The operator ignores the annotation's value.
pub const RETRY: &str = "osdpl.dev/retry";
/// The finalizer that keeps a `NodeMaintenance` until the operator has returned its node to the cloud. The operator
/// sets the finalizer before it changes anything for the maintenance.
pub const MAINTENANCE_FINALIZER: &str = "osdpl.dev/maintenance";
/// The label on the Secrets, ConfigMaps, Services, Endpoints and Rook objects that the operator creates. Its value is
/// [`owner_label`].
pub const DEPLOYMENT_LABEL: &str = "osdpl.dev/deployment";

/// The maximum length of a label's value, see
/// <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/>.
const LABEL_LIMIT: usize = 63;

/// Returns the value of [`DEPLOYMENT_LABEL`] on the objects of an `OpenStackDeployment`: `namespace.name`.
///
/// The namespace is part of the value, because another cloud, such as a detached one, may have the same name in another
/// namespace. If the value is too long for a label, a digest replaces its end.
pub fn owner_label(namespace: &str, name: &str) -> String {
    let mut owner = format!("{namespace}.{name}");
    if owner.len() > LABEL_LIMIT {
        let digest = digest([owner.as_str()]);
        owner.truncate(LABEL_LIMIT - 17);
        owner = format!("{owner}-{}", &digest[..16]);
    }
    owner
}

impl OpenStackDeployment {
    /// Returns the value of [`DEPLOYMENT_LABEL`] on the objects that the operator creates for this resource.
    pub fn owner_label(&self) -> String {
        owner_label(&self.namespace().unwrap_or_default(), &self.name_any())
    }
}

/// Returns the schema of a map with up to 256 entries, of any keys and values. The API server prunes none of them.
fn free_form_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "maxProperties": 256, "x-kubernetes-preserve-unknown-fields": true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_labels_are_distinct_and_valid() {
        assert_eq!(owner_label("openstack", "cloud"), "openstack.cloud");
        let long = "n".repeat(63);
        let (one, two) = (owner_label(&long, "a"), owner_label(&long, "b"));
        assert!(one.len() == 63 && two.len() == 63 && one != two, "{one} {two}");
        let is_valid = |label: &str| label.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        assert!(is_valid(&one), "{one}");
    }
}
