//! Checks on the way back: whether the node and everything that runs instances is up.

use k8s_openapi::jiff::civil::DateTime;
use k8s_openapi::jiff::tz::TimeZone;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::report::Progress;
use super::{Act, Case, Compute, Host, Now, RequeueDelay};
use crate::api::{MAINTENANCE_FINALIZER, MaintenanceStep, StepState};

/// How long it waits before it reports that a person is needed.
const BLOCKED_AFTER: SignedDuration = SignedDuration::from_mins(10);

pub(super) fn agents(case: &Case<'_>, progress: &mut Progress<'_>) -> Now {
    let node = &case.spec.node;
    let Some(seen) = &case.facts.node else { return Now::Skipped("the node was deleted".into()) };
    let changed = case.was_started(MaintenanceStep::Cordon) || case.may_have_disabled();
    if !changed {
        return Now::Skipped("nothing was changed".into());
    }
    let host = match &case.facts.compute {
        Compute::Unknown(why) if case.may_have_disabled() => return unknown(case, why),
        Compute::None | Compute::Unknown(_) => None,
        // It is enabled, by us or by hand: nothing is left to wait for.
        Compute::Known(host) if host.service.is_enabled() && case.may_have_disabled() => {
            return Now::Done(String::new());
        }
        // A service that someone else disabled is not awaited.
        Compute::Known(host) if !case.is_ours(host.service.disabled_reason.as_deref()) => None,
        Compute::Known(host) => Some(host),
    };
    if !seen.ready {
        return awaits(
            case,
            format!("waits until node {node} is Ready; if it does not recover: kubectl delete node {node}"),
        );
    }
    let by_hand = host.map(|host| {
        format!("; to return it as it is: openstack compute service set --enable {} nova-compute", host.service.host)
    });
    if !case.facts.unready.is_empty() {
        let (pods, by_hand) = (case.facts.unready.join(", "), by_hand.unwrap_or_default());
        return awaits(case, format!("waits until these pods on {node} are ready: {pods}{by_hand}"));
    }
    host.map_or_else(|| Now::Done(String::new()), |host| check_reports(case, host, progress))
}

/// Whether nova and neutron report it as up, with a report that is newer than the start of this step: they detect a
/// silent host only after a minute.
fn check_reports(case: &Case<'_>, host: &Host, progress: &mut Progress<'_>) -> Now {
    let (node, service) = (&case.spec.node, &host.service);
    let known = case.status.steps.iter().find(|step| step.name == MaintenanceStep::Agents);
    let since = match known {
        Some(step) if step.state == StepState::Done => None,
        Some(step) => step.since.parse().ok(),
        None => Some(case.now),
    };
    let is_fresh = |time: Option<&str>| is_later(time, since);
    let fresh = is_fresh(service.updated.as_deref());
    if !service.is_up() || !fresh {
        let (host, again) = (&service.host, if service.is_up() { " again" } else { "" });
        let out = format!("openstack compute service set --enable {host} nova-compute");
        return awaits(
            case,
            format!(
                "waits until nova reports nova-compute on {host} as up{again}; see the log of its pod, or return {node} as it is: {out}"
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
        return Now::Done(String::new());
    }
    if case.retry {
        progress.agents.retain(|kind| is_alive(kind));
        if progress.agents.is_empty() {
            return Now::Done(String::new());
        }
        return Now::Act(Act::ClearRetry, format!("no longer waits for {}", missing.join(", ")));
    }
    awaits(
        case,
        format!(
            "waits until neutron reports {} on {} as alive; if it is not expected to return: kubectl annotate nm {} osdpl.dev/retry=now",
            missing.join(", "),
            service.host,
            case.name
        ),
    )
}

/// Waits; a long wait is reported as blocked.
fn awaits(case: &Case<'_>, message: String) -> Now {
    let known = case.status.steps.iter().find(|step| step.name == MaintenanceStep::Agents);
    let waits = known.filter(|step| step.state == StepState::Waiting);
    let since: Option<Timestamp> = waits.and_then(|step| step.since.parse().ok());
    Now::Wait(message, RequeueDelay::Later, since.is_some_and(|since| case.now.duration_since(since) >= BLOCKED_AFTER))
}

/// Waits because nova cannot report whether the compute service is still disabled.
pub(super) fn unknown(case: &Case<'_>, why: &str) -> Now {
    let gone = case.setting.is_some_and(|setting| setting.absent);
    let out = format!(
        "; the compute service is enabled once there is one again; otherwise remove the finalizer {MAINTENANCE_FINALIZER} from this NodeMaintenance"
    );
    match awaits(case, format!("{why}{}", if gone { &out } else { "" })) {
        Now::Wait(message, again, long) => Now::Wait(message, again, long || gone),
        now => now,
    }
}

/// Whether a timestamp of nova or neutron is later. Missing and invalid timestamps count as later.
fn is_later(reported: Option<&str>, since: Option<Timestamp>) -> bool {
    let at = reported.and_then(|reported| {
        let utc = || reported.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok();
        reported.parse().ok().or_else(|| Some(utc()?.timestamp()))
    });
    at.zip(since).is_none_or(|(at, since)| at > since)
}
