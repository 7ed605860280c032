//! Computes the conditions of the status. All types and reasons of conditions are constants in `crate::api`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::{Children, Report, assessment::Assessment, causes, drift, images, rollouts};
use crate::api::{condition, reason};
use crate::catalog::Level;
use crate::ceph::{DeclaredCeph, NotReady};
use crate::desired::{Finding, is_about_unknown_keys};
use crate::plan::{Step, Wait};

/// The maximum number of warnings about the spec in a condition's message.
pub(super) const WARNINGS: usize = 10;

/// The text that precedes each warning about the spec or about images in a condition's message. The warnings are at the
/// end of the message.
pub(super) const WARNING: &str = "; warning: ";

/// Returns the warnings about the spec, the most useful warnings first.
///
/// A message contains only the first [`WARNINGS`] warnings. A single wrong map in the values can cause many warnings
/// about single values and unknown keys. These warnings come last, so that they do not displace other warnings.
pub(super) fn spec_warnings<'a>(report: &Report<'a>) -> Vec<&'a Finding> {
    let mut warnings: Vec<_> = report.findings.iter().filter(|finding| finding.level == Level::Warning).collect();
    let is_of_a_value = |field: &str| [".values.", ".valuesFrom[", ".unset["].iter().any(|part| field.contains(part));
    warnings.sort_by_key(|finding| (is_about_unknown_keys(finding), is_of_a_value(&finding.location.field)));
    warnings
}

/// Formats the end of a message: the names of the releases with drift, the warnings about images, and those about the
/// spec.
pub(super) fn warnings(report: &Report<'_>, children: &Children) -> String {
    let warnings: Vec<String> = spec_warnings(report).iter().map(|finding| format!("{WARNING}{finding}")).collect();
    let more = warnings.len().saturating_sub(WARNINGS);
    let more = (more > 0).then(|| format!("; and {more} more warnings, see `osdpl plan`"));
    drift::summary(children)
        .into_iter()
        .chain(images::warnings(report).into_iter().map(|warning| format!("{WARNING}{warning}")))
        .chain(warnings.into_iter().take(WARNINGS))
        .chain(more)
        .collect::<Vec<_>>()
        .concat()
}

/// Describes a pause of the cloud: the releases that wait because of the pause, and the way to end the pause.
fn describe_pause(report: &Report<'_>) -> String {
    let paused = |step: &Step| *step == Step::Wait(Wait::Paused);
    let paused_releases = report.plan.decisions.iter().filter(|(_, decision)| paused(&decision.step));
    let names: Vec<_> = paused_releases.map(|(name, _)| name.as_str()).collect();
    let what = if names.is_empty() {
        "no release waits".to_owned()
    } else {
        format!("waiting releases: {}", names.join(", "))
    };
    format!("osdpl does not start helm; {what}; set spec.paused to false to resume")
}

/// Returns whether osdpl can use the Ceph cluster that the spec declares, with the reason and message for the
/// condition.
fn ceph(declared: &DeclaredCeph) -> (bool, (&'static str, String)) {
    let Some(trouble) = declared.not_ready_reason() else { return (true, (reason::READY, describe_ceph(declared))) };
    let reason = match trouble {
        NotReady::Secret(_) => reason::CEPH_SECRET,
        NotReady::Spec(_) => reason::INVALID,
        NotReady::Rook(_) => reason::CEPH_ROOK,
        NotReady::Malformed(_) => reason::CEPH_INVALID,
        NotReady::Occupied(_) => reason::CEPH_OCCUPIED,
        NotReady::OtherCeph { .. } => reason::CEPH_ANOTHER,
    };
    (false, (reason, trouble.to_string()))
}

fn describe_ceph(declared: &DeclaredCeph) -> String {
    let Ok(ceph) = &declared.settings else { return String::new() };
    let source = ceph.source();
    let health = declared.cluster.as_ref().map(|cluster| {
        let health = if cluster.health.is_empty() { "health unknown" } else { &cluster.health };
        let fsid = ceph.fsid.as_deref().unwrap_or_default();
        format!("; CephCluster {}: {}, {health}, fsid {fsid}", cluster.path, cluster.phase)
    });
    let health = health.unwrap_or_default();
    if ceph.admin.is_some() {
        return format!(
            "{source} contains the addresses of the monitors; osdpl writes ceph.conf and the key of client.admin for the charts, which create pools and users themselves{health}"
        );
    }
    let names: Vec<_> = ceph.users.keys().map(|consumer| consumer.name()).collect();
    let names = names.join(", ");
    format!("{source}: users for {names}; osdpl writes ceph.conf and the keys of these users for the charts{health}")
}

/// Returns all conditions of the status. A condition whose status did not change keeps its transition time.
pub(super) fn conditions(
    before: &[Condition],
    assessment: &Assessment,
    report: &Report<'_>,
    children: &Children,
    now: Timestamp,
) -> Vec<Condition> {
    let none = || (reason::NONE, String::new());
    let ready = assessment.reason == reason::READY;
    let progressing = assessment.progressing && !assessment.stalled;
    let details = || (assessment.reason, assessment.message.clone());
    let with_cause = || (assessment.reason, causes::prepend_cause(assessment.message.clone(), report, false));
    let degraded = assessment.degraded.clone().map(|(reason, message)| match reason {
        // The message already names its root cause: the `NotReady` nodes. So put no other root cause before it.
        reason::NODES => (reason, message),
        // A root cause that may resolve by itself can explain unhealthy components, but not a failed release. So put
        // such a cause before the message only if components are unhealthy.
        _ => (reason, causes::prepend_cause(message, report, reason != reason::UNHEALTHY)),
    });
    let conditions = [
        (condition::READY, ready, (assessment.reason, format!("{}{}", assessment.message, warnings(report, children)))),
        (condition::PROGRESSING, progressing, if progressing { with_cause() } else { none() }),
        (condition::DEGRADED, degraded.is_some(), degraded.unwrap_or_else(none)),
        (
            condition::PAUSED,
            report.spec.paused,
            if report.spec.paused { (reason::PAUSED, describe_pause(report)) } else { none() },
        ),
        // Tools such as Flux judge a resource with kstatus, which checks Reconciling and Stalled before Ready. At most
        // one of Reconciling and Stalled may be true.
        (condition::RECONCILING, progressing, if progressing { with_cause() } else { none() }),
        (condition::STALLED, assessment.stalled, if assessment.stalled { details() } else { none() }),
    ];
    let ceph = report.ceph.map(ceph).map(|(holds, details)| (condition::CEPH_READY, holds, details));
    let rolled = rollouts::condition(report.rollouts).map(|(holds, details)| (condition::ROLLED_OUT, holds, details));
    let condition = |(type_, holds, (reason, message)): (&str, bool, (&str, String))| {
        let status = if holds { "True" } else { "False" };
        let known = before.iter().find(|condition| condition.type_ == type_ && condition.status == status);
        Condition {
            type_: type_.into(),
            status: status.into(),
            observed_generation: Some(report.generation),
            last_transition_time: known.map_or(Time(now), |condition| condition.last_transition_time.clone()),
            reason: reason.into(),
            message,
        }
    };
    conditions.into_iter().chain(ceph).chain(rolled).map(condition).collect()
}
