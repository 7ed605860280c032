//! The conditions: metav1, each with its own observedGeneration, a closed set of types and reasons.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::{Report, verdict::Verdict};
use crate::api::{condition, reason};

pub fn conditions(before: &[Condition], verdict: &Verdict, report: &Report<'_>, now: Timestamp) -> Vec<Condition> {
    let none = || (reason::NONE, String::new());
    let ready = verdict.reason == reason::READY;
    let said = || (verdict.reason, verdict.message.clone());
    let degraded = verdict.degraded.clone();
    let truths = [
        (condition::READY, ready, said()),
        (condition::PROGRESSING, verdict.progressing, if verdict.progressing { said() } else { none() }),
        (condition::DEGRADED, degraded.is_some(), degraded.unwrap_or_else(none)),
        (
            condition::PAUSED,
            report.spec.paused,
            if report.spec.paused { (reason::PAUSED, String::new()) } else { none() },
        ),
        // kstatus reads these two before Ready: exactly one of "at work", "stuck", "done" may be said.
        (
            condition::RECONCILING,
            verdict.progressing && !verdict.stalled,
            if verdict.progressing { said() } else { none() },
        ),
        (condition::STALLED, verdict.stalled, if verdict.stalled { said() } else { none() }),
    ];
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
    truths.into_iter().map(condition).collect()
}
