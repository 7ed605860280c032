//! The conditions: metav1, each with its own observedGeneration, a closed set of types and reasons.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::drift::{self, Children};
use super::{Report, causes, rollouts, verdict::Verdict};
use crate::api::{condition, reason};
use crate::catalog::Level;
use crate::ceph::{Declared, Unready};
use crate::desired::{Finding, is_of_unknown_keys};
use crate::plan::{Step, Wait};

/// How many warnings a condition tells: it is no list to work off.
pub const WARNINGS: usize = 10;

/// What each of them begins with, at the end of a message.
pub const WARNING: &str = "; warning: ";

/// The warnings about the spec, those of single values last, of which one wrong map makes many: a condition and events tell the first of them.
pub fn doubts<'a>(report: &Report<'a>) -> Vec<&'a Finding> {
    let mut doubts: Vec<_> = report.findings.iter().filter(|finding| finding.level == Level::Warning).collect();
    let is_of_a_value = |field: &str| [".values.", ".valuesFrom[", ".unset["].iter().any(|part| field.contains(part));
    doubts.sort_by_key(|finding| (is_of_unknown_keys(finding), is_of_a_value(&finding.field)));
    doubts
}

/// What others changed, and the warnings about the spec, for the end of a message: they hold whatever else goes on.
pub fn warnings(report: &Report<'_>, children: &Children) -> String {
    let warnings: Vec<String> = doubts(report).iter().map(|finding| format!("{WARNING}{finding}")).collect();
    let more = warnings.len().saturating_sub(WARNINGS);
    let more = (more > 0).then(|| format!("; and {more} more warnings, which `osdpl plan` tells"));
    drift::summary(children)
        .into_iter()
        .chain(warnings.into_iter().take(WARNINGS))
        .chain(more)
        .collect::<Vec<_>>()
        .concat()
}

/// What a pause holds back, and how to go on.
fn held(report: &Report<'_>) -> String {
    let paused = |step: &Step| *step == Step::Wait(Wait::Paused);
    let held = report.plan.decisions.iter().filter(|(_, decision)| paused(&decision.step));
    let names: Vec<_> = held.map(|(name, _)| name.as_str()).collect();
    let what = if names.is_empty() {
        "nothing is held back now".to_owned()
    } else {
        format!("held back: {}", names.join(", "))
    };
    format!("helm is not started; {what}; set spec.paused to false to go on")
}

/// Whether the declared Ceph can be used: a reason, and what is there or what to do.
fn ceph(declared: &Declared) -> (bool, (&'static str, String)) {
    let Some(trouble) = declared.trouble() else { return (true, (reason::READY, written(declared))) };
    let reason = match trouble {
        Unready::Secret(_) => reason::CEPH_SECRET,
        Unready::Rook(_) => reason::CEPH_ROOK,
        Unready::Malformed(_) => reason::CEPH_INVALID,
        Unready::Occupied(_) => reason::CEPH_OCCUPIED,
        Unready::Another { .. } => reason::CEPH_ANOTHER,
    };
    (false, (reason, trouble.to_string()))
}

fn written(declared: &Declared) -> String {
    let Ok(ceph) = &declared.read else { return String::new() };
    let source = ceph.source();
    let health = declared.cluster.as_ref().map(|cluster| {
        let health = if cluster.health.is_empty() { "health unknown" } else { &cluster.health };
        let fsid = ceph.fsid.as_deref().unwrap_or_default();
        format!("; CephCluster {}: {}, {health}, fsid {fsid}", cluster.place, cluster.phase)
    });
    let health = health.unwrap_or_default();
    if ceph.admin.is_some() {
        return format!(
            "{source} tells the monitors; ceph.conf and client.admin's key are written for the charts, which make pools and users themselves{health}"
        );
    }
    let names: Vec<_> = ceph.users.keys().map(|consumer| consumer.name()).collect();
    let names = names.join(", ");
    format!("{source} speaks for {names}; ceph.conf and their keys are written for the charts{health}")
}

pub fn conditions(
    before: &[Condition],
    verdict: &Verdict,
    report: &Report<'_>,
    children: &Children,
    now: Timestamp,
) -> Vec<Condition> {
    let none = || (reason::NONE, String::new());
    let ready = verdict.reason == reason::READY;
    let progressing = verdict.progressing && !verdict.stalled;
    let said = || (verdict.reason, verdict.message.clone());
    let led = || (verdict.reason, causes::led(verdict.message.clone(), report, false));
    let degraded = verdict.degraded.clone().map(|(reason, message)| match reason {
        // It names all nodes at once, where each is a cause of its own.
        reason::NODES => (reason, message),
        // What failed for another reason is not led by what may come by itself.
        _ => (reason, causes::led(message, report, reason != reason::UNHEALTHY)),
    });
    let truths = [
        (condition::READY, ready, (verdict.reason, format!("{}{}", verdict.message, warnings(report, children)))),
        (condition::PROGRESSING, progressing, if progressing { led() } else { none() }),
        (condition::DEGRADED, degraded.is_some(), degraded.unwrap_or_else(none)),
        (
            condition::PAUSED,
            report.spec.paused,
            if report.spec.paused { (reason::PAUSED, held(report)) } else { none() },
        ),
        // kstatus reads these two before Ready: exactly one of "at work", "stuck", "done" may be said.
        (condition::RECONCILING, progressing, if progressing { led() } else { none() }),
        (condition::STALLED, verdict.stalled, if verdict.stalled { said() } else { none() }),
    ];
    let ceph = report.ceph.map(ceph).map(|(holds, said)| (condition::CEPH_READY, holds, said));
    let rolled = rollouts::condition(report.rollouts).map(|(holds, said)| (condition::ROLLED_OUT, holds, said));
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
    truths.into_iter().chain(ceph).chain(rolled).map(condition).collect()
}
