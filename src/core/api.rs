//! The custom resource: what a user may ask for ([`OpenStackDeploymentSpec`]) and what the operator answers ([`OpenStackDeploymentStatus`]).
//!
//! Pure room. The CRD in `crds/` is generated from these types by `osdpl crd` and diffed by a test.

mod cause;
mod choice;
mod maintenance;
mod nodes;
mod rollout;
mod rules;
mod schema;
mod spec;
mod status;

pub use cause::{CauseObject, CauseStatus};
pub use choice::{Approval, DeletionPolicy, DriftPolicy};
pub use maintenance::{
    FailedInstance, InstancePolicy, InstancesStatus, MaintenanceLimits, MaintenancePhase, MaintenanceStep,
    MaintenanceWindow, NodeMaintenance, NodeMaintenanceSpec, NodeMaintenanceStatus, StepState, StepStatus,
    maintenance_condition,
};
pub use nodes::{NodeOperator, NodeOverride, NodeRequirement, NodeRole, NodeSelector, NodeValues, Nodes};
pub use rollout::{Rollout, RolloutPhase, RolloutStatus};
pub use schema::{SchemaError, crd, crd_yaml, maintenance_crd, maintenance_crd_yaml};
pub use spec::{
    Charts, Common, External, Images, OpenStackDeployment, OpenStackDeploymentSpec, Overrides, ReleaseOverrides,
    SecretKey, ServiceOverrides, ValuesFrom, ValuesKind,
};
pub use status::{
    ChildStatus, ComponentStatus, ComponentVerdict, ObjectDrift, OpenStackDeploymentStatus, Phase, ReleaseStatus,
    RoleStatus, TestStatus, condition, reason,
};

/// The annotation by which a person lets a waiting plan go; its value is the hash that status and `osdpl plan` print.
pub const APPROVE: &str = "osdpl.dev/approve";
/// The annotation by which a person has releases taken over that run and were made by others. A release's name, several separated by commas, or `all`.
pub const ADOPT: &str = "osdpl.dev/adopt";
/// The annotation by which a person has a release repaired: foreign revisions are overwritten, edited and deleted objects put back, and what had
/// failed for a reason that only a hand mends is tried soon. A release's name, several separated by commas, or `all`.
pub const REPAIR: &str = "osdpl.dev/repair";
/// The annotation with nodes, separated by commas, that are gone for good: what Nova and Neutron know of their hosts is removed.
pub const FORGET: &str = "osdpl.dev/forget-nodes";
/// The annotation that lets a deletion skip hooks that can never end: a release's name, several separated by commas, or `all`.
pub const SKIP_HOOKS: &str = "osdpl.dev/skip-hooks";
/// The finalizer that keeps the resource until its releases are gone.
pub const FINALIZER: &str = "osdpl.dev/releases";
/// The annotation on a node that names the labels which it has from its roles: `openstack-compute-node=enabled,openvswitch=enabled`.
pub const NODE_LABELS: &str = "osdpl.dev/labels";
/// The annotation on a node that names the NodeMaintenance that has cordoned it.
pub const NODE_MAINTENANCE: &str = "osdpl.dev/maintenance";
/// The annotation by which a person has instances of a NodeMaintenance tried again that could not be migrated; its value does not matter.
pub const RETRY: &str = "osdpl.dev/retry";
/// The finalizer that keeps a NodeMaintenance until its node is given back; it is there from the first thing that is done.
pub const MAINTENANCE_FINALIZER: &str = "osdpl.dev/maintenance";
/// The label on every Secret, Service and Endpoints that the operator itself creates.
pub const MANAGED: &str = "osdpl.dev/deployment";
