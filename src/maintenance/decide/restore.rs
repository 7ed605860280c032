//! Decides the steps that return a node to service.

use super::agents::{check_agents, wait_for_nova};
use super::report::{Progress, report};
use super::{Action, Compute, Decision, Host, Snapshot, StepResult, wait_for};
use osdpl_core::api::{MaintenancePhase, MaintenanceStep};

/// The steps that return a node to service, in order.
const STEPS: [MaintenanceStep; 3] =
    [MaintenanceStep::Uncordon, MaintenanceStep::Agents, MaintenanceStep::EnableCompute];

/// Decides the next action of a maintenance that returns its node to service.
pub(super) fn decide(snapshot: &Snapshot<'_>) -> Decision {
    let mut progress = Progress::from_previous_steps(snapshot);
    progress.phase = if snapshot.deleting { MaintenancePhase::Returning } else { MaintenancePhase::Expired };
    if !snapshot.started {
        progress.final_message = expired(snapshot);
        return report(progress);
    }
    for step in STEPS {
        let result = match step {
            MaintenanceStep::Uncordon => uncordon(snapshot),
            MaintenanceStep::Agents => check_agents(snapshot, &mut progress),
            _ => enable_compute(snapshot),
        };
        if progress.record(step, result) {
            return report(progress);
        }
    }
    progress.action = Some(Action::RemoveFinalizer);
    progress.final_message =
        if snapshot.deleting { format!("{} is back in service", snapshot.spec.node) } else { expired(snapshot) };
    report(progress)
}

fn expired(snapshot: &Snapshot<'_>) -> String {
    format!(
        "spec.window ended before {} could be drained, so osdpl keeps the node in service; delete this NodeMaintenance and create one with another window",
        snapshot.spec.node
    )
}

fn uncordon(snapshot: &Snapshot<'_>) -> StepResult {
    match &snapshot.observed.node {
        None => StepResult::Skipped("the node was deleted".into()),
        Some(node) if node.cordoned_by.as_deref() == Some(snapshot.name) => {
            StepResult::Act(Action::Uncordon, format!("{} is being uncordoned", snapshot.spec.node))
        }
        Some(node) if node.cordoned => StepResult::Skipped("someone else has cordoned the node".into()),
        Some(_) => StepResult::Skipped("the node is not cordoned".into()),
    }
}

fn enable_compute(snapshot: &Snapshot<'_>) -> StepResult {
    let is_ours = |host: &Host| snapshot.is_ours(host.service.disabled_reason.as_deref());
    match &snapshot.observed.compute {
        Compute::None => StepResult::Skipped("the node is not a compute node".into()),
        Compute::Unknown(_) if !snapshot.may_have_disabled() => {
            StepResult::Skipped("this maintenance did not disable the compute service".into())
        }
        Compute::Unknown(why) => wait_for_nova(snapshot, why),
        Compute::Known(host) if host.service.is_enabled() && !snapshot.may_have_disabled() => {
            StepResult::Skipped("this maintenance did not disable the compute service".into())
        }
        Compute::Known(host) if host.service.is_enabled() => StepResult::Done(String::new()),
        // The node was deleted. A new node of the same name may join the cluster later and use this compute service, so
        // osdpl must enable the service. Wait first until Nova reports the service as down, because Nova's scheduler
        // places no instances on a host whose service is down.
        Compute::Known(host) if is_ours(host) && snapshot.observed.node.is_none() && host.service.is_up() => {
            wait_for(format!(
                "waits until nova reports nova-compute on {} as down, because the node was deleted",
                host.service.host
            ))
        }
        Compute::Known(host) if is_ours(host) => {
            let action = Action::Enable { id: host.service.id.clone() };
            StepResult::Act(action, format!("the compute service of {} is being enabled", host.service.host))
        }
        Compute::Known(host) => {
            let reason = host.service.disabled_reason.as_deref().unwrap_or("without a reason");
            StepResult::Skipped(format!("someone else has disabled the compute service: {reason}"))
        }
    }
}
