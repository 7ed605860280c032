//! Whether a maintenance may start: windows, limits by role, and precedence.

use k8s_openapi::jiff::Timestamp;

use super::{Act, Case, Compute, NO_CLOUD, Now, RequeueDelay, UNREAD, awaits};
use crate::api::{InstancePolicy, NodeMaintenanceSpec};

/// The start of its window.
pub(super) fn start(spec: &NodeMaintenanceSpec) -> Option<Timestamp> {
    spec.window.as_ref()?.start.as_ref()?.parse().ok()
}

/// The end of its window, when the node must be ready to drain.
pub(super) fn end(spec: &NodeMaintenanceSpec) -> Option<Timestamp> {
    spec.window.as_ref()?.end.as_ref()?.parse().ok()
}

/// Whether it may start.
pub(super) fn turn(case: &Case<'_>) -> Now {
    if case.begun {
        return Now::Done(String::new());
    }
    let node = &case.spec.node;
    let Some(setting) = case.setting else { return awaits(UNREAD.into()) };
    if let Some(start) = start(case.spec).filter(|start| *start > case.now) {
        return awaits(format!("its window begins at {start}"));
    }
    let Some(seen) = &case.facts.node else {
        let message =
            format!("node {node} does not exist; delete this NodeMaintenance and create one with the right name");
        return Now::Wait(message, RequeueDelay::Later, true);
    };
    if case.facts.unlisted {
        return awaits("the nodes can't be listed, so the roles in maintenance are not known".into());
    }
    if setting.absent && case.spec.instances != Some(InstancePolicy::Leave) {
        return awaits(format!(
            "cannot check for instances on {node}: {NO_CLOUD}; set `instances: Leave` to continue without this check"
        ));
    }
    if let Some(rival) = case.facts.rivals.iter().find(|rival| rival.node == *node && (rival.begun || rival.first)) {
        return awaits(format!("waits for NodeMaintenance {}, which uses the same node", rival.name));
    }
    for role in &seen.roles {
        let rivals: Vec<_> = case.facts.rivals.iter().filter(|rival| rival.roles.contains(role)).collect();
        let preceding = rivals.iter().filter(|rival| rival.begun || rival.first).collect::<Vec<_>>();
        let limit = setting.limits.get(role).copied().unwrap_or(1);
        if preceding.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
            let names: Vec<_> = preceding.iter().map(|rival| format!("{} ({})", rival.name, rival.node)).collect();
            return awaits(format!(
                "waits for NodeMaintenance {}: {limit} node{} of role {role} may be in maintenance at once (spec.nodes.maintenance.limits)",
                names.join(", "),
                if limit == 1 { "" } else { "s" }
            ));
        }
    }
    if let Some(refusal) = case.facts.refusals.first() {
        return awaits(refusal.clone());
    }
    match &case.facts.compute {
        Compute::Unknown(why) if case.spec.instances != Some(InstancePolicy::Leave) => {
            awaits(format!("cannot check for instances on {node}: {why}"))
        }
        _ => Now::Act(Act::AddFinalizer, String::new()),
    }
}
