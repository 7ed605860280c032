//! The status where passes fail: what was found last, under the word that it is old.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::{Event, events, shortened};
use crate::api::{OpenStackDeploymentStatus, Phase, condition, reason};

/// The status of before, not ready because of that problem, and the event where that is new. Nothing else of it is touched, the generation that it
/// speaks of neither: nothing was looked at.
pub fn failing(
    previous: Option<&OpenStackDeploymentStatus>,
    generation: i64,
    problem: &str,
    now: Timestamp,
) -> (OpenStackDeploymentStatus, Vec<Event>) {
    let before = previous.cloned().unwrap_or_default();
    let message = format!(
        "{problem}; until this works nothing is looked at or changed, and what else this status says is from before (it is tried again every few seconds)"
    );
    let mut status = before.clone();
    if status.phase != Some(Phase::Deleting) {
        status.phase = Some(Phase::Degraded);
    }
    status.message = shortened(&message);
    for (type_, holds) in [
        (condition::READY, false),
        (condition::PROGRESSING, false),
        (condition::RECONCILING, false),
        (condition::STALLED, true),
    ] {
        let told = type_ == condition::READY || holds;
        let (reason, message) = if told { (reason::INPUTS, message.clone()) } else { (reason::NONE, String::new()) };
        set(&mut status.conditions, type_, holds, (reason, message), generation, now);
    }
    let events = events::turned(&before, &status).into_iter().collect();
    (status, events)
}

fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    holds: bool,
    (reason, message): (&str, String),
    generation: i64,
    now: Timestamp,
) {
    let status = if holds { "True" } else { "False" };
    let known = conditions.iter().position(|condition| condition.type_ == type_);
    let since = known.map(|at| &conditions[at]).filter(|known| known.status == status);
    let condition = Condition {
        type_: type_.into(),
        status: status.into(),
        observed_generation: Some(generation),
        last_transition_time: since.map_or(Time(now), |known| known.last_transition_time.clone()),
        reason: reason.into(),
        message,
    };
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}
