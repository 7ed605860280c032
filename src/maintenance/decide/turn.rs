//! Decides whether a maintenance may start now. The decision depends on the maintenance's window, on other maintenances
//! of the same node, on how many nodes of a role may be in maintenance at the same time, on quorums and disruption
//! budgets, and on Nova.

use k8s_openapi::jiff::Timestamp;

use super::{Action, Compute, RequeueDelay, Snapshot, StepResult, wait_for};
use osdpl_core::api::{InstancePolicy, NodeMaintenanceSpec};
use osdpl_core::maintenance::NO_CLOUD;

/// The message in the status of a maintenance as long as the operator has no settings of the cloud for maintenance.
pub(crate) const UNREAD: &str =
    "the operator has not read the cloud's OpenStackDeployment yet, or refuses it (see its status)";

/// Returns the time at which the window of a maintenance begins; `None` if the spec sets no start.
pub(super) fn window_start(spec: &NodeMaintenanceSpec) -> Option<Timestamp> {
    spec.window.as_ref()?.start.as_ref()?.parse().ok()
}

/// Returns the time at which the window of a maintenance ends, and by which the node must be ready to drain; `None` if
/// the spec sets no end.
pub(super) fn window_end(spec: &NodeMaintenanceSpec) -> Option<Timestamp> {
    spec.window.as_ref()?.end.as_ref()?.parse().ok()
}

/// Whether the window of a maintenance is open at the time `now`; a maintenance without a window is always open.
pub(crate) fn is_open(spec: &NodeMaintenanceSpec, now: Timestamp) -> bool {
    window_start(spec).is_none_or(|start| start <= now) && window_end(spec).is_none_or(|end| end > now)
}

/// Decides whether the maintenance starts now. If it must wait, the result contains the reason.
pub(super) fn check_turn(snapshot: &Snapshot<'_>) -> StepResult {
    if snapshot.started {
        return StepResult::Done(String::new());
    }
    let node = &snapshot.spec.node;
    let Some(setting) = snapshot.setting else { return wait_for(UNREAD.into()) };
    if let Some(start) = window_start(snapshot.spec).filter(|start| *start > snapshot.now) {
        return wait_for(format!("waits until spec.window begins at {start}"));
    }
    let Some(observed_node) = &snapshot.observed.node else {
        let message =
            format!("node {node} does not exist; delete this NodeMaintenance and create one with the right node name");
        return StepResult::Wait(message, RequeueDelay::Later, true);
    };
    if snapshot.observed.nodes_unknown {
        return wait_for(
            "the nodes can't be listed, so osdpl does not know how many nodes of each role are in maintenance; allow \
             the operator to list nodes"
                .into(),
        );
    }
    if setting.absent && snapshot.spec.instances != Some(InstancePolicy::Leave) {
        return wait_for(format!(
            "cannot check for instances on {node}: {NO_CLOUD}; set `instances: Leave` to continue without this check"
        ));
    }
    let preceding = || snapshot.observed.others.iter().filter(|other| other.started || other.takes_precedence);
    if let Some(other) = preceding().find(|other| other.node == *node) {
        return wait_for(format!("waits for NodeMaintenance {}, which uses the same node", other.name));
    }
    for role in &observed_node.roles {
        let others: Vec<_> = preceding().filter(|other| other.roles.contains(role)).collect();
        let limit = setting.limits.get(role).copied().unwrap_or(1);
        if others.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
            let names: Vec<_> = others.iter().map(|other| format!("{} ({})", other.name, other.node)).collect();
            return wait_for(format!(
                "waits for NodeMaintenance {}: {limit} node{} of role {role} may be in maintenance at once (spec.nodes.maintenance.limits)",
                names.join(", "),
                if limit == 1 { "" } else { "s" }
            ));
        }
    }
    if let Some(obstacle) = snapshot.observed.eviction_obstacles.first() {
        return wait_for(obstacle.clone());
    }
    match &snapshot.observed.compute {
        Compute::Unknown(why) if snapshot.spec.instances != Some(InstancePolicy::Leave) => {
            wait_for(format!("cannot check for instances on {node}: {why}"))
        }
        _ => StepResult::Act(Action::AddFinalizer, String::new()),
    }
}
