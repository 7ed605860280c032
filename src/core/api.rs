//! The custom resource: the desired state ([`OpenStackDeploymentSpec`]) and the observed state
//! ([`OpenStackDeploymentStatus`]).
//!
//! Pure module. The CRD in `crds/` is generated from these types by `osdpl crd`, and a test compares them.

mod cause;
mod choice;
mod maintenance;
mod nodes;
mod rollout;
mod rules;
mod schema;
mod spec;
mod status;

pub use cause::{CauseObject, RootCauseStatus};
pub use choice::{Approval, DeletionPolicy, DriftPolicy};
pub use maintenance::{
    FailedInstance, InstancePolicy, InstancesStatus, MaintenanceLimits, MaintenancePhase, MaintenanceStep,
    MaintenanceWindow, NodeMaintenance, NodeMaintenanceSpec, NodeMaintenanceStatus, StepState, StepStatus,
    maintenance_condition,
};
pub use nodes::{NodeOperator, NodeOverride, NodeRequirement, NodeSelector, NodeValues, Nodes, RoleNodes};
pub use rollout::{Rollout, RolloutPhase, RolloutStatus};
pub use schema::{SchemaError, crd, crd_yaml, maintenance_crd, maintenance_crd_yaml};
pub use spec::{
    Charts, Common, External, Images, OpenStackDeployment, OpenStackDeploymentSpec, Overrides, ReleaseOverrides,
    SecretKey, ServiceOverrides, ValuesFrom, ValuesKind,
};
pub use status::{
    ComponentHealth, ComponentStatus, HelmReleaseStatus, ObjectDrift, OpenStackDeploymentStatus, Phase, ReleaseStatus,
    RoleStatus, TestStatus, condition, reason,
};

/// The field manager of the operator's writes, and the value of `app.kubernetes.io/managed-by` on its objects.
pub const MANAGER: &str = "osdpl";
/// The annotation that approves a waiting plan. The value is the hash that the status and `osdpl plan` show.
pub const APPROVE: &str = "osdpl.dev/approve";
/// The annotation that adopts running releases which others installed: names of releases separated by commas, or `all`.
pub const ADOPT: &str = "osdpl.dev/adopt";
/// The annotation that repairs a release: names of releases separated by commas, or `all`.
///
/// Foreign revisions are overwritten, edited and deleted objects are restored, and failures that need a manual fix are
/// retried soon.
pub const REPAIR: &str = "osdpl.dev/repair";
/// The annotation with nodes, separated by commas, that are permanently removed. Their hosts are deleted from Nova and
/// Neutron.
pub const FORGET_NODES_ANNOTATION: &str = "osdpl.dev/forget-nodes";
/// The annotation that lets a deletion skip hooks that can never finish: names of releases separated by commas, or
/// `all`.
pub const SKIP_HOOKS: &str = "osdpl.dev/skip-hooks";
/// The finalizer that keeps the resource until its releases are uninstalled.
pub const FINALIZER: &str = "osdpl.dev/releases";
/// The annotation on a node with the labels that its roles have set:
/// `openstack-compute-node=enabled,openvswitch=enabled`.
pub const NODE_LABELS: &str = "osdpl.dev/labels";
/// The annotation on a node with the name of the NodeMaintenance that cordoned it.
pub const NODE_MAINTENANCE: &str = "osdpl.dev/maintenance";
/// The annotation that retries instances of a NodeMaintenance that could not be migrated. The value is ignored.
pub const RETRY: &str = "osdpl.dev/retry";
/// The finalizer that keeps a NodeMaintenance until its node is returned. It is set before the first action.
pub const MAINTENANCE_FINALIZER: &str = "osdpl.dev/maintenance";
/// The label on every Secret, Service and Endpoints object that the operator creates.
pub const DEPLOYMENT_LABEL: &str = "osdpl.dev/deployment";
