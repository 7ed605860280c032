//! Whether a node and all that it takes to run instances is up again.

use k8s_openapi::jiff::civil::DateTime;
use k8s_openapi::jiff::tz::TimeZone;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::report::Told;
use super::{Act, Again, Case, Compute, Host, Now};
use crate::api::{MAINTENANCE_FINALIZER, MaintenanceStep, StepState};

/// How long it waits before it says that a person is needed.
const LONG: SignedDuration = SignedDuration::from_mins(10);

pub(super) fn agents(case: &Case<'_>, told: &mut Told<'_>) -> Now {
    let node = &case.spec.node;
    let Some(seen) = &case.facts.node else { return Now::Skipped("the node is gone".into()) };
    let changed = case.touched(MaintenanceStep::Cordon) || case.may_have_disabled();
    if !changed {
        return Now::Skipped("nothing was changed".into());
    }
    let host = match &case.facts.compute {
        Compute::Unknown(why) if case.may_have_disabled() => return unknown(case, why),
        Compute::None | Compute::Unknown(_) => None,
        // Enabled, by hand or by us: there is nothing left to hold back.
        Compute::Known(host) if host.service.is_enabled() && case.may_have_disabled() => {
            return Now::Done(String::new());
        }
        // What someone else has disabled is not ours to wait for.
        Compute::Known(host) if !case.is_ours(host.service.disabled_reason.as_deref()) => None,
        Compute::Known(host) => Some(host),
    };
    if !seen.ready {
        return awaits(
            case,
            format!("waits until node {node} is Ready; where it does not come back: kubectl delete node {node}"),
        );
    }
    let by_hand = host.map(|host| {
        format!("; to give it back as it is: openstack compute service set --enable {} nova-compute", host.service.host)
    });
    if !case.facts.unready.is_empty() {
        let (pods, by_hand) = (case.facts.unready.join(", "), by_hand.unwrap_or_default());
        return awaits(case, format!("waits until these pods on {node} are ready: {pods}{by_hand}"));
    }
    host.map_or_else(|| Now::Done(String::new()), |host| heard(case, host, told))
}

/// Whether nova and neutron hear of it, since it was begun to wait for that: they take who was silent for a minute for alive still.
fn heard(case: &Case<'_>, host: &Host, told: &mut Told<'_>) -> Now {
    let (node, service) = (&case.spec.node, &host.service);
    let known = case.status.steps.iter().find(|step| step.name == MaintenanceStep::Agents);
    let since = match known {
        Some(step) if step.state == StepState::Done => None,
        Some(step) => step.since.parse().ok(),
        None => Some(case.now),
    };
    let is_fresh = |at: Option<&str>| is_later(at, since);
    let fresh = is_fresh(service.updated.as_deref());
    if !service.is_up() || !fresh {
        let (host, again) = (&service.host, if service.is_up() { " again" } else { "" });
        let out = format!("openstack compute service set --enable {host} nova-compute");
        return awaits(
            case,
            format!(
                "waits until nova hears of nova-compute on {host}{again}; see the log of its pod, or give {node} back as it is: {out}"
            ),
        );
    }
    let lives = |kind: &str| {
        host.agents.iter().any(|agent| agent.kind == kind && agent.alive && is_fresh(agent.heard.as_deref()))
    };
    let mut wanted = told.agents.clone();
    if wanted.is_empty() {
        wanted = host.agents.iter().filter(|agent| agent.enabled).map(|agent| agent.kind.clone()).collect();
    }
    let deaf: Vec<_> = wanted.iter().filter(|kind| !lives(kind)).map(String::as_str).collect();
    if deaf.is_empty() {
        return Now::Done(String::new());
    }
    if case.retry {
        told.agents.retain(|kind| lives(kind));
        if told.agents.is_empty() {
            return Now::Done(String::new());
        }
        return Now::Act(Act::Forgive, format!("{} is not awaited any more", deaf.join(", ")));
    }
    awaits(
        case,
        format!(
            "waits until neutron hears of {} on {}; what is not to come back: kubectl annotate nm {} osdpl.dev/retry=now",
            deaf.join(", "),
            service.host,
            case.name
        ),
    )
}

/// It waits; for long, that is told as blocked.
fn awaits(case: &Case<'_>, message: String) -> Now {
    let known = case.status.steps.iter().find(|step| step.name == MaintenanceStep::Agents);
    let waits = known.filter(|step| step.state == StepState::Waiting);
    let since: Option<Timestamp> = waits.and_then(|step| step.since.parse().ok());
    Now::Wait(message, Again::Later, since.is_some_and(|since| case.now.duration_since(since) >= LONG))
}

/// Nova can't say whether the compute service is disabled still.
pub(super) fn unknown(case: &Case<'_>, why: &str) -> Now {
    let gone = case.setting.is_some_and(|setting| setting.absent);
    let out = format!(
        "; it is enabled once there is one again; where there will be none, take the finalizer {MAINTENANCE_FINALIZER} off this NodeMaintenance"
    );
    match awaits(case, format!("{why}{}", if gone { &out } else { "" })) {
        Now::Wait(message, again, long) => Now::Wait(message, again, long || gone),
        now => now,
    }
}

/// Whether a time, as nova and neutron write them, is later; what is not told, or not understood, counts as such.
fn is_later(told: Option<&str>, since: Option<Timestamp>) -> bool {
    let at = told.and_then(|told| {
        let utc = || told.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok();
        told.parse().ok().or_else(|| Some(utc()?.timestamp()))
    });
    at.zip(since).is_none_or(|(at, since)| at > since)
}
