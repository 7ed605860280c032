//! The way back: returns the node to service.

use super::agents::{agents, unknown};
use super::report::{Progress, report};
use super::{Act, Case, Compute, Decision, Host, Now, awaits};
use crate::api::{MaintenancePhase, MaintenanceStep};

/// The steps in order.
const STEPS: [MaintenanceStep; 3] =
    [MaintenanceStep::Uncordon, MaintenanceStep::Agents, MaintenanceStep::EnableCompute];

pub(super) fn decide(case: &Case<'_>) -> Decision {
    let mut progress = Progress::from_previous_steps(case);
    progress.phase = if case.deleting { MaintenancePhase::Returning } else { MaintenancePhase::Expired };
    if !case.begun {
        progress.closing = expired(case);
        return report(progress);
    }
    for step in STEPS {
        let now = match step {
            MaintenanceStep::Uncordon => uncordon(case),
            MaintenanceStep::Agents => agents(case, &mut progress),
            _ => enable(case),
        };
        if progress.take(step, now) {
            return report(progress);
        }
    }
    progress.act = Some(Act::RemoveFinalizer);
    progress.closing = if case.deleting { format!("{} is back in service", case.spec.node) } else { expired(case) };
    report(progress)
}

fn expired(case: &Case<'_>) -> String {
    format!(
        "its window ended before {} could be drained, and the node was returned to service; delete this NodeMaintenance and create one with another window",
        case.spec.node
    )
}

fn uncordon(case: &Case<'_>) -> Now {
    match &case.facts.node {
        None => Now::Skipped("the node was deleted".into()),
        Some(node) if node.mark.as_deref() == Some(case.name) => {
            Now::Act(Act::Uncordon, format!("{} is being uncordoned", case.spec.node))
        }
        Some(node) if node.cordoned => Now::Skipped("someone else has cordoned it".into()),
        Some(_) => Now::Skipped("it was not cordoned".into()),
    }
}

fn enable(case: &Case<'_>) -> Now {
    let is_ours = |host: &Host| case.is_ours(host.service.disabled_reason.as_deref());
    match &case.facts.compute {
        Compute::None => Now::Skipped("the node is not a compute node".into()),
        Compute::Unknown(_) if !case.may_have_disabled() => Now::Skipped("it was not disabled".into()),
        Compute::Unknown(why) => unknown(case, why),
        Compute::Known(host) if host.service.is_enabled() && !case.may_have_disabled() => {
            Now::Skipped("it was not disabled".into())
        }
        Compute::Known(host) if host.service.is_enabled() => Now::Done(String::new()),
        // A node that joins again under the same name has nova's old record. Enable it while nova reports it as down,
        // so that the scheduler skips it.
        Compute::Known(host) if is_ours(host) && case.facts.node.is_none() && host.service.is_up() => awaits(format!(
            "waits until nova reports nova-compute on {} as down: its node was deleted",
            host.service.host
        )),
        Compute::Known(host) if is_ours(host) => {
            let act = Act::Enable { id: host.service.id.clone() };
            Now::Act(act, format!("the compute service of {} is being enabled", host.service.host))
        }
        Compute::Known(host) => {
            let reason = host.service.disabled_reason.as_deref().unwrap_or("without a reason");
            Now::Skipped(format!("someone else has disabled it: {reason}"))
        }
    }
}
