//! Checks whether the node, its DaemonSet pods, nova-compute and the Neutron agents are up, before a maintenance
//! returns the node to service.

use k8s_openapi::jiff::civil::DateTime;
use k8s_openapi::jiff::tz::TimeZone;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::report::Progress;
use super::{Action, Compute, Host, RequeueDelay, Snapshot, StepResult};
use osdpl_core::api::{MAINTENANCE_FINALIZER, MaintenanceStep, StepState};

/// The time after which the step `Agents` counts as blocked: if the node, its pods and its Neutron agents are still not
/// up, the status reports that a person must act.
const BLOCKED_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// Returns the result of the step `Agents`: the step waits until the node, its DaemonSet pods, nova-compute and the
/// Neutron agents are up.
pub(super) fn check_agents(snapshot: &Snapshot<'_>, progress: &mut Progress<'_>) -> StepResult {
    let node = &snapshot.spec.node;
    let Some(observed_node) = &snapshot.observed.node else {
        return StepResult::Skipped("the node was deleted".into());
    };
    let changed = snapshot.was_started(MaintenanceStep::Cordon) || snapshot.may_have_disabled();
    if !changed {
        return StepResult::Skipped("this maintenance changed neither the node nor the compute service".into());
    }
    let host = match &snapshot.observed.compute {
        Compute::Unknown(why) if snapshot.may_have_disabled() => return wait_for_nova(snapshot, why),
        Compute::None | Compute::Unknown(_) => None,
        // osdpl or a person has already enabled the compute service, so the step is done.
        Compute::Known(host) if host.service.is_enabled() && snapshot.may_have_disabled() => {
            return StepResult::Done(String::new());
        }
        // Someone else disabled the compute service. osdpl will not enable this service, so the maintenance need not
        // wait until Nova reports the service as up.
        Compute::Known(host) if !snapshot.is_ours(host.service.disabled_reason.as_deref()) => None,
        Compute::Known(host) => Some(host),
    };
    if !observed_node.ready {
        return wait_for(
            snapshot,
            format!("waits until node {node} is Ready; if it does not recover: kubectl delete node {node}"),
        );
    }
    let by_hand = host.map(|host| {
        format!(
            "; to return the node without waiting: openstack compute service set --enable {} nova-compute",
            host.service.host
        )
    });
    if !snapshot.observed.unready_pods.is_empty() {
        let (pods, by_hand) = (snapshot.observed.unready_pods.join(", "), by_hand.unwrap_or_default());
        return wait_for(snapshot, format!("waits until these pods on {node} are ready: {pods}{by_hand}"));
    }
    host.map_or_else(|| StepResult::Done(String::new()), |host| check_reports(snapshot, host, progress))
}

/// Decides whether the step `Agents` is done once the node and its pods are ready: the step waits until Nova and
/// Neutron report the host as up.
///
/// osdpl ignores reports that are older than the start of the step, because Nova and Neutron still report a host as up
/// for about a minute after it has died.
fn check_reports(snapshot: &Snapshot<'_>, host: &Host, progress: &mut Progress<'_>) -> StepResult {
    let (node, service) = (&snapshot.spec.node, &host.service);
    let known = snapshot.status.steps.iter().find(|step| step.name == MaintenanceStep::Agents);
    let since = match known {
        Some(step) if step.state == StepState::Done => None,
        Some(step) => step.since.parse().ok(),
        None => Some(snapshot.now),
    };
    let is_fresh = |time: Option<&str>| is_later(time, since);
    let fresh = is_fresh(service.updated.as_deref());
    if !service.is_up() || !fresh {
        let (host, again) = (&service.host, if service.is_up() { " again" } else { "" });
        let out = format!("openstack compute service set --enable {host} nova-compute");
        return wait_for(
            snapshot,
            format!(
                "waits until nova reports nova-compute on {host} as up{again}; see the log of its pod; to return {node} without waiting: {out}"
            ),
        );
    }
    let is_alive = |kind: &str| {
        host.agents.iter().any(|agent| agent.kind == kind && agent.alive && is_fresh(agent.heard.as_deref()))
    };
    let mut wanted = progress.agents.clone();
    if wanted.is_empty() {
        wanted = host.agents.iter().filter(|agent| agent.enabled).map(|agent| agent.kind.clone()).collect();
    }
    let missing: Vec<_> = wanted.iter().filter(|kind| !is_alive(kind)).map(String::as_str).collect();
    if missing.is_empty() {
        return StepResult::Done(String::new());
    }
    if snapshot.retry {
        progress.agents.retain(|kind| is_alive(kind));
        if progress.agents.is_empty() {
            return StepResult::Done(String::new());
        }
        return StepResult::Act(Action::ClearRetry, format!("no longer waits for {}", missing.join(", ")));
    }
    wait_for(
        snapshot,
        format!(
            "waits until neutron reports {} on {} as alive; if an agent will not come back, continue without it: kubectl annotate nm {} osdpl.dev/retry=now",
            missing.join(", "),
            service.host,
            snapshot.name
        ),
    )
}

/// Returns the result of the step `Agents` while the step waits.
///
/// Once the step `Agents` has waited for [`BLOCKED_AFTER`], the result says that a person must act.
fn wait_for(snapshot: &Snapshot<'_>, message: String) -> StepResult {
    let known = snapshot.status.steps.iter().find(|step| step.name == MaintenanceStep::Agents);
    let waits = known.filter(|step| step.state == StepState::Waiting);
    let since: Option<Timestamp> = waits.and_then(|step| step.since.parse().ok());
    StepResult::Wait(
        message,
        RequeueDelay::Later,
        since.is_some_and(|since| snapshot.now.duration_since(since) >= BLOCKED_AFTER),
    )
}

/// Returns the result of a step that waits for Nova. `why` is the reason why osdpl can't get the compute service from
/// Nova.
pub(super) fn wait_for_nova(snapshot: &Snapshot<'_>, why: &str) -> StepResult {
    let gone = snapshot.setting.is_some_and(|setting| setting.absent);
    let out = format!(
        "; osdpl enables the compute service when an OpenStackDeployment exists again; if you will create none, remove the finalizer {MAINTENANCE_FINALIZER} from this NodeMaintenance"
    );
    match wait_for(snapshot, format!("{why}{}", if gone { &out } else { "" })) {
        StepResult::Wait(message, requeue, long) => StepResult::Wait(message, requeue, long || gone),
        result => result,
    }
}

/// Whether a timestamp that Nova or Neutron reported is later than `since`. A missing or invalid timestamp counts as
/// later. If `since` is `None`, every timestamp counts as later.
fn is_later(reported: Option<&str>, since: Option<Timestamp>) -> bool {
    let at = reported.and_then(|reported| {
        let utc = || reported.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok();
        reported.parse().ok().or_else(|| Some(utc()?.timestamp()))
    });
    at.zip(since).is_none_or(|(at, since)| at > since)
}
