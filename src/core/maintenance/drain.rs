//! The way there: prepares the node for draining.

use k8s_openapi::jiff::Timestamp;

use super::guests::guests;
use super::report::{Progress, report, seconds};
use super::{Act, Case, Compute, Decision, Host, Now, READY_CHECK_INTERVAL, RequeueDelay, awaits, turn};
use crate::api::{FailedInstance, InstancePolicy, InstancesStatus, MaintenancePhase, MaintenanceStep};

/// The steps in order.
pub(super) const STEPS: [MaintenanceStep; 5] = [
    MaintenanceStep::Turn,
    MaintenanceStep::DisableCompute,
    MaintenanceStep::Instances,
    MaintenanceStep::Quorum,
    MaintenanceStep::Cordon,
];

pub(super) fn decide(case: &Case<'_>) -> Decision {
    if let Some(until) = settled_until(case) {
        return Decision { act: None, requeue: None, requeue_at: Some(until), status: case.status.clone() };
    }
    let mut progress = Progress::new(case);
    progress.instances = count_instances(case);
    for step in STEPS {
        let now = match step {
            MaintenanceStep::Turn => turn::turn(case),
            _ if case.facts.node.is_none() => Now::Wait(
                format!("node {} does not exist; delete this NodeMaintenance", case.spec.node),
                RequeueDelay::Later,
                true,
            ),
            MaintenanceStep::DisableCompute => disable(case, &mut progress),
            MaintenanceStep::Instances => instances(case, &mut progress),
            MaintenanceStep::Quorum => quorum(case),
            _ => cordon(case),
        };
        if progress.take(step, now) {
            progress.phase = phase(step);
            break;
        }
    }
    let mut decision = report(progress);
    let starts = turn::start(case.spec).filter(|start| *start > case.now);
    let ends = turn::end(case.spec).filter(|end| *end > case.now);
    let looked = decision.status.instances.as_ref().is_some_and(|instances| instances.looked.is_some());
    let next_check = case.now.checked_add(READY_CHECK_INTERVAL).ok().filter(|_| looked);
    decision.requeue_at = starts.into_iter().chain(ends).chain(next_check).min();
    decision
}

/// How long a node that is ready to drain needs no check: nova was queried recently, or is unreachable, which reverts
/// nothing.
fn settled_until(case: &Case<'_>) -> Option<Timestamp> {
    let silent = case.is_settled() && matches!(case.facts.compute, Compute::Unknown(_));
    case.next_nova_check().or_else(|| case.now.checked_add(READY_CHECK_INTERVAL).ok().filter(|_| silent))
}

fn phase(step: MaintenanceStep) -> MaintenancePhase {
    match step {
        MaintenanceStep::Turn => MaintenancePhase::Waiting,
        MaintenanceStep::DisableCompute => MaintenancePhase::Disabling,
        MaintenanceStep::Instances => MaintenancePhase::Emptying,
        _ => MaintenancePhase::Cordoning,
    }
}

fn disable(case: &Case<'_>, progress: &mut Progress<'_>) -> Now {
    let leaves = case.spec.instances == Some(InstancePolicy::Leave);
    match &case.facts.compute {
        Compute::None => Now::Skipped("the node is not a compute node".into()),
        Compute::Unknown(why) if leaves => Now::Skipped(format!("instances stay, and nova cannot be queried: {why}")),
        Compute::Unknown(why) => awaits(why.clone()),
        Compute::Known(host) => {
            let reason = host.service.disabled_reason.as_deref();
            if host.service.is_enabled() {
                progress.compute = Some(host.service.id.clone());
                // If it is disabled a second time, the agents of the first time are kept.
                if progress.agents.is_empty() {
                    let alive = host.agents.iter().filter(|agent| agent.alive && agent.enabled);
                    progress.agents = alive.map(|agent| agent.kind.clone()).collect();
                }
                let act = Act::Disable { id: host.service.id.clone(), reason: case.mark() };
                return Now::Act(act, format!("the compute service of {} is being disabled", host.service.host));
            }
            if case.is_ours(reason) {
                progress.compute = Some(host.service.id.clone());
                return Now::Done(String::new());
            }
            Now::Skipped(format!("someone else has disabled it: {}", reason.unwrap_or("without a reason")))
        }
    }
}

/// The instance counts. The total contains all instances that were there at the start.
fn count_instances(case: &Case<'_>) -> Option<InstancesStatus> {
    let Compute::Known(host) = &case.facts.compute else { return case.status.instances.clone() };
    let before = case.status.instances.as_ref();
    let remaining = u32::try_from(host.servers.len()).unwrap_or(u32::MAX);
    let total = before.map_or(0, |before| before.total).max(remaining);
    let moved = format!("{}/{total}", total - remaining);
    Some(InstancesStatus {
        moved,
        total,
        remaining,
        after: before.and_then(|before| before.after),
        looked: before.and_then(|before| before.looked.clone()),
        ..InstancesStatus::default()
    })
}

fn instances(case: &Case<'_>, progress: &mut Progress<'_>) -> Now {
    let host = match &case.facts.compute {
        Compute::None => return Now::Skipped("the node is not a compute node".into()),
        Compute::Unknown(why) if case.spec.instances != Some(InstancePolicy::Leave) => return awaits(why.clone()),
        Compute::Unknown(_) => return Now::Skipped("instances stay".into()),
        Compute::Known(host) => host,
    };
    let left = host.servers.len();
    match case.spec.instances.unwrap_or_default() {
        InstancePolicy::Leave if left == 0 => Now::Done(String::new()),
        _ if left == 0 => empty(case, host, progress),
        InstancePolicy::Leave => Now::Skipped(format!("{} there", format_count(left, "stays", "stay"))),
        InstancePolicy::Wait => {
            let names: Vec<_> = host.servers.iter().take(5).map(|server| server.name.as_str()).collect();
            let more = if left > names.len() { ", …" } else { "" };
            let node = &case.spec.node;
            awaits(format!(
                "waits until someone has emptied {node}: {} left: {}{more}",
                format_count(left, "is", "are"),
                names.join(", ")
            ))
        }
        InstancePolicy::Migrate => migrate(case, host, progress),
    }
}

/// Checks whether a node without instances stays empty.
///
/// Migrations that started before the compute service was disabled may still arrive, and a scheduled build has no host
/// until the host claims it.
fn empty(case: &Case<'_>, host: &Host, progress: &mut Progress<'_>) -> Now {
    let Some(instances) = &mut progress.instances else { return Now::Done(String::new()) };
    if !host.incoming.is_empty() {
        let (count, names) = (host.incoming.len(), host.incoming.join(", "));
        return Now::Wait(
            format!("{} on the way to {}: {names}", format_count(count, "is", "are"), host.service.host),
            RequeueDelay::Soon,
            false,
        );
    }
    let before = case.status.instances.as_ref().and_then(|before| before.empty_since.clone());
    let since: Option<Timestamp> = before.as_ref().and_then(|since| since.parse().ok());
    instances.empty_since = before.filter(|_| since.is_some()).or_else(|| Some(seconds(case)));
    if since.is_some_and(|since| case.now.duration_since(since).unsigned_abs() >= case.facts.apart) {
        return Now::Done(String::new());
    }
    awaits(format!("no instance is left on {}; nova is queried once more to confirm", host.service.host))
}

fn migrate(case: &Case<'_>, host: &Host, progress: &mut Progress<'_>) -> Now {
    let newest = host.migrations.iter().map(|migration| migration.id).max().unwrap_or(0);
    let begun = case.status.instances.as_ref().and_then(|instances| instances.after);
    let after = begun.filter(|_| !case.retry).unwrap_or(newest);
    let guests = guests(case, host, after);
    if let Some(instances) = &mut progress.instances {
        instances.after = Some(after);
        instances.migrating = u32::try_from(guests.moving + guests.to_migrate.len()).unwrap_or(u32::MAX);
        instances.failed.clone_from(&guests.stuck);
    }
    if case.retry {
        return Now::Act(Act::ClearRetry, "failed migrations are retried".into());
    }
    let moving = guests.moving + guests.to_migrate.len();
    let mut parts = Vec::new();
    if moving + guests.queued > 0 {
        let waits = guests.queued + guests.busy.len();
        let rest = if waits > 0 { format!(", {waits} more after that") } else { String::new() };
        parts.push(format!("{} being migrated{rest}", format_count(moving, "is", "are")));
    }
    if let Some(first) = guests.busy.first().filter(|_| moving == 0) {
        let others = guests.busy.len() - 1;
        let others = if others > 0 { format!(" (and {others} more have a task)") } else { String::new() };
        parts.push(format!("instance {first}{others}, and is migrated after that (openstack server set --state active ends a task that hangs)"));
    }
    if let Some(first) = guests.stuck.first() {
        let FailedInstance { name, id, reason } = first;
        let others = guests.stuck.len() - 1;
        let others =
            if others > 0 { format!(" (and {others} more, see status.instances.failed)") } else { String::new() };
        parts.push(format!("instance {name} ({id}) {reason}{others}"));
    }
    let message = parts.join("; ");
    if guests.to_migrate.is_empty() {
        // A hanging task is no progress: instances that cannot be migrated are reported as blocked despite it.
        let (in_progress, blocked) = (moving > 0, moving == 0 && !guests.stuck.is_empty());
        return Now::Wait(message, if in_progress { RequeueDelay::Soon } else { RequeueDelay::Later }, blocked);
    }
    Now::Act(Act::Migrate(guests.to_migrate), message)
}

/// Formats the count: `1 instance is`, `3 instances are`.
fn format_count(count: usize, one: &str, several: &str) -> String {
    if count == 1 { format!("1 instance {one}") } else { format!("{count} instances {several}") }
}

fn quorum(case: &Case<'_>) -> Now {
    match case.facts.refusals.first() {
        // A node that was ready before may be partly drained: its own pods are the missing ones.
        Some(refusal) if !case.was_ready() => awaits(refusal.clone()),
        _ => Now::Done(String::new()),
    }
}

fn cordon(case: &Case<'_>) -> Now {
    let Some(node) = &case.facts.node else { return Now::Skipped(String::new()) };
    match (node.cordoned, node.mark.as_deref() == Some(case.name)) {
        (true, true) => Now::Done(String::new()),
        (true, false) => Now::Skipped("someone else has cordoned it".into()),
        (false, _) => Now::Act(Act::Cordon, format!("{} is being cordoned", case.spec.node)),
    }
}
