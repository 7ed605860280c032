//! Decides the steps that prepare a node for draining.

use k8s_openapi::jiff::Timestamp;

use super::instances::sort_instances;
use super::report::{DRAIN_STEPS, Progress, report, seconds};
use super::{
    Action, Compute, Decision, Host, READY_CHECK_INTERVAL, RequeueDelay, Snapshot, StepResult, turn, wait_for,
};
use osdpl_core::api::{FailedInstance, InstancePolicy, InstancesStatus, MaintenancePhase, MaintenanceStep};

/// Decides the next action of a maintenance that prepares its node for draining.
pub(super) fn decide(snapshot: &Snapshot<'_>) -> Decision {
    if let Some(until) = settled_until(snapshot) {
        return Decision { action: None, requeue: None, requeue_at: Some(until), status: snapshot.status.clone() };
    }
    let mut progress = Progress::new(snapshot);
    progress.instances = count_instances(snapshot);
    for step in DRAIN_STEPS {
        let result = match step {
            MaintenanceStep::Turn => turn::check_turn(snapshot),
            _ if snapshot.observed.node.is_none() => StepResult::Wait(
                format!("node {} does not exist; delete this NodeMaintenance", snapshot.spec.node),
                RequeueDelay::Later,
                true,
            ),
            MaintenanceStep::DisableCompute => disable_compute(snapshot, &mut progress),
            MaintenanceStep::Instances => empty_host(snapshot, &mut progress),
            MaintenanceStep::Quorum => check_quorum(snapshot),
            _ => cordon(snapshot),
        };
        if progress.record(step, result) {
            progress.phase = phase(step);
            break;
        }
    }
    let mut decision = report(progress);
    let starts = turn::window_start(snapshot.spec).filter(|start| *start > snapshot.now);
    let ends = turn::window_end(snapshot.spec).filter(|end| *end > snapshot.now);
    let is_checked = decision.status.instances.as_ref().is_some_and(|instances| instances.checked.is_some());
    let next_check = snapshot.now.checked_add(READY_CHECK_INTERVAL).ok().filter(|_| is_checked);
    decision.requeue_at = starts.into_iter().chain(ends).chain(next_check).min();
    decision
}

/// Returns the time until which the controller keeps the status as it is; `None` if it must make a new decision now.
///
/// The status stays unchanged only while the node is ready to drain. It then stays unchanged until the next query of
/// Nova. If Nova does not respond to a query, the status stays unchanged for another minute.
fn settled_until(snapshot: &Snapshot<'_>) -> Option<Timestamp> {
    let is_unreachable = snapshot.is_settled() && matches!(snapshot.observed.compute, Compute::Unknown(_));
    snapshot
        .next_nova_check()
        .or_else(|| snapshot.now.checked_add(READY_CHECK_INTERVAL).ok().filter(|_| is_unreachable))
}

fn phase(step: MaintenanceStep) -> MaintenancePhase {
    match step {
        MaintenanceStep::Turn => MaintenancePhase::Waiting,
        MaintenanceStep::DisableCompute => MaintenancePhase::Disabling,
        MaintenanceStep::Instances => MaintenancePhase::Emptying,
        _ => MaintenancePhase::Cordoning,
    }
}

fn disable_compute(snapshot: &Snapshot<'_>, progress: &mut Progress<'_>) -> StepResult {
    let leaves = snapshot.spec.instances == Some(InstancePolicy::Leave);
    match &snapshot.observed.compute {
        Compute::None => StepResult::Skipped("the node is not a compute node".into()),
        Compute::Unknown(why) if leaves => StepResult::Skipped(format!(
            "the state of the node's compute service is unknown, and with `instances: Leave` the maintenance does not wait for it: {why}"
        )),
        Compute::Unknown(why) => wait_for(why.clone()),
        Compute::Known(host) => {
            let reason = host.service.disabled_reason.as_deref();
            if host.service.is_enabled() {
                progress.compute = Some(host.service.id.clone());
                // Store the list of alive Neutron agents only the first time that the maintenance disables the compute
                // service. If someone then enables the service, the maintenance disables it again, but keeps the first
                // list.
                if progress.agents.is_empty() {
                    let alive = host.agents.iter().filter(|agent| agent.alive && agent.enabled);
                    progress.agents = alive.map(|agent| agent.kind.clone()).collect();
                }
                let action = Action::Disable { id: host.service.id.clone(), reason: snapshot.disabled_reason() };
                return StepResult::Act(
                    action,
                    format!("the compute service of {} is being disabled", host.service.host),
                );
            }
            if snapshot.is_ours(reason) {
                progress.compute = Some(host.service.id.clone());
                return StepResult::Done(String::new());
            }
            StepResult::Skipped(format!(
                "someone else has disabled the compute service: {}",
                reason.unwrap_or("without a reason")
            ))
        }
    }
}

/// Counts the instances on the host, for the status. The field `total` is the highest of all counts since the
/// maintenance began.
fn count_instances(snapshot: &Snapshot<'_>) -> Option<InstancesStatus> {
    let Compute::Known(host) = &snapshot.observed.compute else { return snapshot.status.instances.clone() };
    let before = snapshot.status.instances.as_ref();
    let remaining = u32::try_from(host.servers.len()).unwrap_or(u32::MAX);
    let total = before.map_or(0, |before| before.total).max(remaining);
    let moved = format!("{}/{total}", total - remaining);
    Some(InstancesStatus {
        moved,
        total,
        remaining,
        after: before.and_then(|before| before.after),
        checked: before.and_then(|before| before.checked.clone()),
        ..InstancesStatus::default()
    })
}

fn empty_host(snapshot: &Snapshot<'_>, progress: &mut Progress<'_>) -> StepResult {
    let host = match &snapshot.observed.compute {
        Compute::None => return StepResult::Skipped("the node is not a compute node".into()),
        Compute::Unknown(why) if snapshot.spec.instances != Some(InstancePolicy::Leave) => {
            return wait_for(why.clone());
        }
        Compute::Unknown(_) => return StepResult::Skipped("instances stay on the node".into()),
        Compute::Known(host) => host,
    };
    let left = host.servers.len();
    match snapshot.spec.instances.unwrap_or_default() {
        InstancePolicy::Leave if left == 0 => StepResult::Done(String::new()),
        _ if left == 0 => confirm_empty(snapshot, host, progress),
        InstancePolicy::Leave => StepResult::Skipped(format!("{} on the node", format_count(left, "stays", "stay"))),
        InstancePolicy::Wait => {
            let names: Vec<_> = host.servers.iter().take(5).map(|server| server.name.as_str()).collect();
            let more = if left > names.len() { ", …" } else { "" };
            let node = &snapshot.spec.node;
            wait_for(format!(
                "waits until someone has moved or deleted the instances of {node}: {} left: {}{more}",
                format_count(left, "is", "are"),
                names.join(", ")
            ))
        }
        InstancePolicy::Migrate => migrate(snapshot, host, progress),
    }
}

/// Waits until a second query of Nova confirms that the host has no instances.
///
/// An instance can still arrive after the compute service was disabled, because its migration had already begun, or
/// because the scheduler had already placed it on the host. Nova lists a new instance on its host only when
/// nova-compute begins to create the instance.
fn confirm_empty(snapshot: &Snapshot<'_>, host: &Host, progress: &mut Progress<'_>) -> StepResult {
    let Some(instances) = &mut progress.instances else { return StepResult::Done(String::new()) };
    if !host.incoming.is_empty() {
        let (count, names) = (host.incoming.len(), host.incoming.join(", "));
        return StepResult::Wait(
            format!("{} on the way to {}: {names}", format_count(count, "is", "are"), host.service.host),
            RequeueDelay::Soon,
            false,
        );
    }
    let before = snapshot.status.instances.as_ref().and_then(|before| before.empty_since.clone());
    let since: Option<Timestamp> = before.as_ref().and_then(|since| since.parse().ok());
    instances.empty_since = before.filter(|_| since.is_some()).or_else(|| Some(seconds(snapshot)));
    if since
        .is_some_and(|since| snapshot.now.duration_since(since).unsigned_abs() >= snapshot.observed.confirmation_delay)
    {
        return StepResult::Done(String::new());
    }
    wait_for(format!("no instance is left on {}; nova is queried once more to confirm", host.service.host))
}

fn migrate(snapshot: &Snapshot<'_>, host: &Host, progress: &mut Progress<'_>) -> StepResult {
    let newest = host.migrations.iter().map(|migration| migration.id).max().unwrap_or(0);
    let started = snapshot.status.instances.as_ref().and_then(|instances| instances.after);
    let after = started.filter(|_| !snapshot.retry).unwrap_or(newest);
    let steps = sort_instances(snapshot, host, after);
    if let Some(instances) = &mut progress.instances {
        instances.after = Some(after);
        instances.migrating = u32::try_from(steps.moving + steps.to_migrate.len()).unwrap_or(u32::MAX);
        instances.failed.clone_from(&steps.stuck);
    }
    if snapshot.retry {
        return StepResult::Act(Action::ClearRetry, "failed migrations are retried".into());
    }
    let moving = steps.moving + steps.to_migrate.len();
    let mut parts = Vec::new();
    if moving + steps.queued > 0 {
        let waits = steps.queued + steps.busy.len();
        let rest = if waits > 0 { format!(", {waits} more after that") } else { String::new() };
        parts.push(format!("{} being migrated{rest}", format_count(moving, "is", "are")));
    }
    if let Some(first) = steps.busy.first().filter(|_| moving == 0) {
        let others = steps.busy.len() - 1;
        let others = if others > 0 { format!(" (and {others} more have a task)") } else { String::new() };
        parts.push(format!("instance {first}{others}, so osdpl waits until the task ends, and then migrates the instance (openstack server set --state active ends a task that hangs)"));
    }
    if let Some(first) = steps.stuck.first() {
        let FailedInstance { name, id, reason } = first;
        let others = steps.stuck.len() - 1;
        let others =
            if others > 0 { format!(" (and {others} more, see status.instances.failed)") } else { String::new() };
        parts.push(format!("instance {name} ({id}): {reason}{others}"));
    }
    let message = parts.join("; ");
    if steps.to_migrate.is_empty() {
        // If an instance can't be migrated and no other instance is migrating, report that a person must act. Report
        // this even while instances execute other tasks, such as a reboot, because these tasks may never end.
        let (in_progress, blocked) = (moving > 0, moving == 0 && !steps.stuck.is_empty());
        return StepResult::Wait(message, if in_progress { RequeueDelay::Soon } else { RequeueDelay::Later }, blocked);
    }
    StepResult::Act(Action::Migrate(steps.to_migrate), message)
}

/// Formats a number of instances with the right form of a verb: `1 instance is`, `3 instances are`.
fn format_count(count: usize, one: &str, several: &str) -> String {
    if count == 1 { format!("1 instance {one}") } else { format!("{count} instances {several}") }
}

fn check_quorum(snapshot: &Snapshot<'_>) -> StepResult {
    match snapshot.observed.eviction_obstacles.first() {
        // Ignore an obstacle to evictions if the node was ready to drain in an earlier pass. Someone may have begun to
        // drain the node, and the obstacle may exist only because pods were evicted from this node.
        Some(obstacle) if !snapshot.was_ready() => wait_for(obstacle.clone()),
        _ => StepResult::Done(String::new()),
    }
}

fn cordon(snapshot: &Snapshot<'_>) -> StepResult {
    let Some(node) = &snapshot.observed.node else { return StepResult::Skipped(String::new()) };
    match (node.cordoned, node.cordoned_by.as_deref() == Some(snapshot.name)) {
        (true, true) => StepResult::Done(String::new()),
        (true, false) => StepResult::Skipped("someone else has cordoned the node".into()),
        (false, _) => StepResult::Act(Action::Cordon, format!("{} is being cordoned", snapshot.spec.node)),
    }
}
