//! Assesses the overall state of the cloud with an ordered list of checks. The first check that applies decides.

use std::collections::{BTreeMap, BTreeSet};

use osdpl_values::CollectSorted;

use super::{Children, Ignored, Report, crons, drift, first, labels, rollouts};
use crate::api::{ComponentHealth, ComponentStatus, Phase, reason};
use crate::catalog::{Level, WorkloadKind};
use crate::health;
use crate::observed::{Issue, ObservedJob};
use crate::plan::{Action, Decision, Reason, Step, Wait};
use crate::release::Status;

/// The health of each component, by application label, then by component label.
type Health = BTreeMap<String, BTreeMap<String, ComponentStatus>>;

/// The overall state of the cloud, from which the phase, the message and the conditions come.
pub(super) struct Assessment {
    pub phase: Phase,
    pub reason: &'static str,
    pub message: String,
    /// Whether any operation is in progress or will start without help from a person.
    pub progressing: bool,
    /// The reason and message of the condition Degraded; `None` if that condition is false.
    pub degraded: Option<(&'static str, String)>,
    /// Whether the cloud cannot continue until a person acts.
    pub stalled: bool,
}

/// Assesses the overall state of the cloud.
pub(super) fn assess(report: &Report<'_>, health: &Health, children: &Children) -> Assessment {
    let steps = || report.plan.decisions.values().map(|decision| &decision.step);
    let progressing = report.ignored.is_none()
        && !report.findings.iter().any(|finding| finding.level == Level::Error)
        && steps().any(|step| match step {
            Step::Do(..)
            | Step::Settling(_)
            | Step::Wait(
                Wait::Needs(_) | Wait::Helm { .. } | Wait::Backoff { .. } | Wait::ReleaseRecord | Wait::Dependents(_),
            ) => true,
            Step::Wait(Wait::Blocked { reason, .. }) => reason == reason::CHART_PENDING,
            Step::Ready | Step::Wait(_) => false,
        });
    let drifted = || drift::degraded(children).map(|message| (reason::DRIFTED, message));
    let crons = crons::failing(report);
    let failing = || crons.clone().map(|message| (reason::CRON_JOBS, message));
    let degraded = degraded(report, health).or_else(drifted).or_else(failing);
    let (phase, reason, message) = CHECKS.iter().find_map(|check| check(report, health)).unwrap_or_else(|| {
        let trouble = lost_nodes(report, health).or_else(|| crons.clone()).map(|trouble| (Phase::Degraded, trouble));
        // Rollouts, removals of node labels, and changes outside of releases that wait for approval do not affect
        // availability. So they change the phase and the message, but Ready stays true.
        let rollout = rollouts::first(report.rollouts).map(|(_, phase, line)| (phase, line));
        let labels = labels::progress(report);
        let phase = trouble.as_ref().or(rollout.as_ref()).or(labels.as_ref()).map_or(Phase::Ready, |(phase, _)| *phase);
        let more = trouble.into_iter().chain(rollout).chain(labels).map(|(_, message)| format!("; {message}"));
        (phase, reason::READY, format!("{}{}", ready(report), more.collect::<String>()))
    });
    let stalled = matches!(
        reason,
        reason::INVALID
            | reason::OLDER_RESOURCE
            | reason::OUTSIDE
            | reason::FOREIGN
            | reason::INPUTS
            | reason::CHART
            | reason::NO_NODES
    ) || (reason == reason::FAILED && !progressing);
    Assessment { phase, reason, message, progressing, degraded, stalled }
}

/// The result of a check: the phase, reason and message of the cloud; `None` if the check does not apply.
type Check = Option<(Phase, &'static str, String)>;

/// The checks of the cloud, in the order of urgency. The first check that applies decides phase, reason and message.
const CHECKS: [fn(&Report<'_>, &Health) -> Check; 9] =
    [ignored, deleting, invalid, paused, broken, problems, awaiting, in_progress, settling];

fn ready(report: &Report<'_>) -> String {
    let count = report.plan.decisions.len();
    format!("{count} releases are in sync, their workloads are available and their Jobs complete")
}

fn ignored(report: &Report<'_>, _: &Health) -> Check {
    let (reason, message) = match report.ignored.as_ref()? {
        Ignored::Older { other, is_readable } => {
            let remedy = if *is_readable {
                "delete one of the two".to_owned()
            } else {
                let why = other.split_once('/').map(|(namespace, name)| format!("osdpl status {name} -n {namespace}"));
                let why = why.unwrap_or_default();
                format!(
                    "osdpl can't run {other} either, because its content is invalid (see `{why}`): correct {other}, \
                     or delete one of the two"
                )
            };
            let ignores = "osdpl runs only one cloud per cluster, so osdpl ignores this OpenStackDeployment";
            (reason::OLDER_RESOURCE, format!("{other} is older, and {ignores}; {remedy}"))
        }
        Ignored::Outside(message) => (reason::OUTSIDE, message.clone()),
    };
    Some((Phase::Failed, reason, message))
}

fn deleting(report: &Report<'_>, _: &Health) -> Check {
    let rest = report.deleting.as_ref()?;
    let waits = lines(report, |step| match step {
        // osdpl unmanages a release within one pass, so the deletion never waits for `Action::Unmanage`.
        Step::Do(Action::Unmanage, _) | Step::Settling(_) | Step::Ready => None,
        Step::Do(action, _) => Some(action.to_string()),
        Step::Wait(wait) => Some(wait.to_string()),
    });
    let is_blocked =
        |step: &Step| matches!(step, Step::Wait(Wait::Blocked { reason, .. }) if reason == reason::DELETING);
    let is_blocked = report.plan.decisions.values().any(|decision| is_blocked(&decision.step));
    let message = if waits.is_empty() || is_blocked { rest.clone() } else { first(&waits) };
    Some((Phase::Deleting, reason::DELETING, message))
}

fn invalid(report: &Report<'_>, _: &Health) -> Check {
    let errors: Vec<_> =
        report.findings.iter().filter(|finding| finding.level == Level::Error).map(ToString::to_string).collect();
    (!errors.is_empty()).then(|| (Phase::Failed, reason::INVALID, first(&errors)))
}

fn paused(report: &Report<'_>, _: &Health) -> Check {
    report.spec.paused.then(|| (Phase::Paused, reason::PAUSED, Wait::Paused.to_string()))
}

fn broken(report: &Report<'_>, _: &Health) -> Check {
    let (_, reason, message) = broken_release(report)?;
    // If objects wait for approval, such as users of Ceph, the release may lack values that osdpl takes from these
    // objects. Such a release has not failed, so report that the cloud waits for approval.
    let waits = reason == reason::INPUTS && !report.awaiting_objects.is_empty();
    match labels::progress(report).filter(|_| waits) {
        Some((phase, line)) => Some((phase, reason::APPROVAL, format!("{line}; {message}"))),
        None => Some((Phase::Failed, reason, message)),
    }
}

/// Returns the name of the first release that failed or cannot continue, with the reason and message for the
/// conditions.
fn broken_release<'a>(report: &'a Report<'_>) -> Option<(&'a str, &'static str, String)> {
    report.plan.decisions.iter().find_map(|(name, decision)| {
        let reason = match &decision.step {
            Step::Wait(Wait::Backoff { .. } | Wait::Undecodable(_) | Wait::Terminating(_)) => reason::FAILED,
            Step::Wait(Wait::Foreign { .. } | Wait::Unmanaged(_)) => reason::FOREIGN,
            Step::Wait(Wait::Blocked { reason, .. }) => match reason.as_str() {
                // Neither a chart that is still being fetched nor a deletion that waits for a person is a failure.
                reason::CHART_PENDING | reason::DELETING => return None,
                reason::INPUTS => reason::INPUTS,
                reason::FAILED => reason::FAILED,
                reason::INVALID => reason::INVALID,
                reason::FOREIGN => reason::FOREIGN,
                _ => reason::CHART,
            },
            // helm still waits for a hook that fails. Report the failure now, not only when helm gives up.
            Step::Wait(Wait::Helm { .. }) if failing_hook(report, name) => reason::FAILED,
            _ => return None,
        };
        let Step::Wait(wait) = &decision.step else { return None };
        Some((name.as_str(), reason, format!("{name}: {wait}")))
    })
}

fn failing_hook(report: &Report<'_>, name: &str) -> bool {
    let Some(decision) = report.plan.decisions.get(name) else { return false };
    let body = report.observed.releases.get(&decision.key).and_then(|record| record.body.as_ref());
    let Some(job) = body.and_then(|body| body.hook.as_ref()).and_then(|hook| hook.job.as_ref()) else { return false };
    let is_hook = |other: &&ObservedJob| other.namespace == decision.key.namespace && other.name == *job;
    // Kubernetes does not count a pod as failed while its container crashes and restarts. So a Job whose pods are stuck
    // counts as failed, too.
    let fails =
        |job: &ObservedJob| job.failed || job.failures > 0 || job.trouble.as_ref().is_some_and(|trouble| trouble.stuck);
    report.observed.jobs.iter().find(is_hook).is_some_and(fails)
}

fn problems(report: &Report<'_>, _: &Health) -> Check {
    let problem = report.problems.first()?;
    Some((Phase::Degraded, reason::INPUTS, problem.clone()))
}

fn awaiting(report: &Report<'_>, _: &Health) -> Check {
    if report.desired.is_fetching() {
        return None;
    }
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, why) in report.plan.awaiting_approval() {
        let what = match why {
            Reason::Install => "installed".to_owned(),
            why if why.is_removal() => format!("uninstalled because {why}"),
            why => format!("upgraded because {why}"),
        };
        groups.entry(what).or_default().push(name);
    }
    if groups.is_empty() {
        return None;
    }
    let groups: Vec<_> = groups.iter().map(|(what, names)| format!("{} would be {what}", names.join(", "))).collect();
    let groups = groups.join("; ");
    let labels = labels::awaiting(report).map(|labels| format!("; also, {labels}")).unwrap_or_default();
    let message = format!("{groups}{labels}; see `osdpl plan`, then run `osdpl approve {}`", report.plan.hash);
    Some((Phase::AwaitingApproval, reason::APPROVAL, message))
}

fn in_progress(report: &Report<'_>, _: &Health) -> Check {
    let waits = lines(report, |step| match step {
        Step::Wait(Wait::Helm { .. }) | Step::Do(..) => Some(String::new()),
        // `Wait::Locked` counts as progress, because no person has to act: the helm process that osdpl waits for ends,
        // or osdpl considers that process dead after some time.
        Step::Wait(
            Wait::Needs(_)
            | Wait::ReleaseRecord
            | Wait::Dependents(_)
            | Wait::Paused
            | Wait::Blocked { .. }
            | Wait::Locked { .. },
        ) => Some(step_text(step)),
        Step::Wait(_) | Step::Settling(_) | Step::Ready => None,
    });
    if waits.is_empty() {
        return None;
    }
    let busy: Vec<_> = names(report, |step| matches!(step, Step::Wait(Wait::Helm { .. }) | Step::Do(..)));
    let message = match (stuck(report), busy.as_slice()) {
        (Some(stuck), _) => stuck,
        (None, []) => first(&waits),
        (None, busy) => format!("helm is running for {}", busy.join(", ")),
    };
    let installed = report.observed.releases.values().any(|record| record.was_deployed && record.revision > 1);
    Some((if installed { Phase::Updating } else { Phase::Installing }, reason::RELEASES, message))
}

/// Returns the problem of the first release with a stuck workload; `None` if no workload is stuck.
///
/// The status shows this problem instead of the message that helm is running, because helm may be waiting for the stuck
/// workload.
fn stuck(report: &Report<'_>) -> Option<String> {
    report.plan.decisions.iter().find_map(|(name, Decision { key, .. })| {
        let workloads = &report.observed.workloads;
        let mut own = workloads.iter().filter(|w| w.namespace == key.namespace && w.release == key.name);
        let trouble = own.find_map(|workload| {
            let stuck = |trouble: &&Issue| trouble.stuck;
            workload.trouble.as_ref().filter(stuck).filter(|_| workload.ready < workload.desired)
        })?;
        Some(format!("{name}: {}", trouble.message))
    })
}

fn settling(report: &Report<'_>, health: &Health) -> Check {
    let nodeless = report.observed.workloads.iter().find(|workload| {
        workload.kind == WorkloadKind::DaemonSet
            && workload.desired == 0
            && workload.observed_generation >= workload.generation
            && report.desired.releases.values().any(|release| {
                release.key.name == workload.release
                    && release.key.namespace == workload.namespace
                    && release.components.contains_key(&workload.component)
            })
    });
    let lines = lines(report, |step| match step {
        Step::Settling(lines) => Some(first(lines)),
        Step::Do(..) | Step::Wait(_) | Step::Ready => None,
    });
    if lines.is_empty() {
        return None;
    }
    if let Some(workload) = nodeless {
        let message = format!(
            "{} of {}: {}; label nodes (see `kubectl -n {} get daemonset {}`) or disable the component's service",
            workload.component,
            workload.release,
            health::assess(workload).reason,
            workload.namespace,
            workload.name
        );
        return Some((Phase::Degraded, reason::NO_NODES, message));
    }
    let unhealthy =
        health.values().flat_map(BTreeMap::values).any(|status| status.status == ComponentHealth::Unhealthy);
    let phase = if unhealthy { Phase::Degraded } else { Phase::Updating };
    let message = super::causes::prepend_cause(first(&lines), report, false);
    Some((phase, if unhealthy { reason::UNHEALTHY } else { reason::WORKLOADS }, message))
}

fn step_text(step: &Step) -> String {
    match step {
        Step::Wait(wait) => wait.to_string(),
        Step::Do(action, why) => format!("{action}: {why}"),
        Step::Settling(lines) => first(lines),
        Step::Ready => String::new(),
    }
}

/// Returns one line for each release: the release's name, and the string that the function `text` returns for the step
/// of the release. If `text` returns `None`, the release has no line.
fn lines(report: &Report<'_>, text: impl Fn(&Step) -> Option<String>) -> Vec<String> {
    let lines = report.plan.decisions.iter().filter_map(|(name, decision)| Some((name, text(&decision.step)?)));
    lines.map(|(name, text)| if text.is_empty() { name.clone() } else { format!("{name}: {text}") }).collect()
}

fn names<'a>(report: &'a Report<'_>, holds: impl Fn(&Step) -> bool) -> Vec<&'a str> {
    report.plan.decisions.iter().filter(|(_, decision)| holds(&decision.step)).map(|(name, _)| name.as_str()).collect()
}

fn degraded(report: &Report<'_>, health: &Health) -> Option<(&'static str, String)> {
    if let Some((_, reason, message)) = broken_release(report) {
        return Some((reason, message));
    }
    if let Some(message) = failure_before_pause(report) {
        return Some((reason::FAILED, message));
    }
    let unhealthy = health.iter().find_map(|(application, components)| {
        let (component, status) = components.iter().find(|(_, status)| status.status == ComponentHealth::Unhealthy)?;
        Some(format!("{application}/{component} {}: {}", status.ready, status.reason))
    });
    let unhealthy = unhealthy.map(|message| (reason::UNHEALTHY, message));
    unhealthy.or_else(|| Some((reason::NODES, lost_nodes(report, health)?)))
}

/// Describes the `NotReady` nodes, and the components that are degraded because they lack ready pods on these nodes.
fn lost_nodes(report: &Report<'_>, health: &Health) -> Option<String> {
    let all =
        health.iter().flat_map(|(application, all)| all.iter().map(move |(name, status)| (application, name, status)));
    let degraded = all.filter(|(.., status)| status.status == ComponentHealth::Degraded);
    let parts: Vec<_> =
        degraded.map(|(application, name, status)| format!("{application}/{name} {}", status.ready)).collect();
    let nodes: BTreeSet<&String> =
        report.observed.workloads.iter().flat_map(|workload| &workload.lost_nodes).collect_set();
    let nodes: Vec<String> = nodes.into_iter().cloned().collect();
    (!parts.is_empty()).then(|| format!("{}: {}", health::lost_nodes(&nodes), parts.join(", ")))
}

/// Describes the failure of the first paused release that failed before the pause. The condition Degraded continues to
/// report the failure, because a pause does not repair the release.
fn failure_before_pause(report: &Report<'_>) -> Option<String> {
    report.plan.decisions.iter().find_map(|(name, decision)| {
        let record = report.observed.releases.get(&decision.key)?;
        let is_paused = decision.step == Step::Wait(Wait::Paused) && record.status == Status::Failed;
        let failure = report.observed.failures.get(&decision.key).map(|failed| failed.message.as_str());
        let text = failure.or_else(|| record.body.as_ref().map(|body| body.description.as_str())).unwrap_or_default();
        is_paused.then(|| format!("{name}: revision {} failed: {text}", record.revision))
    })
}
