//! The status where passes fail: what was found last, under the word that it is old.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::conditions::WARNING;
use super::{About, Event, events, shortened};
use crate::api::{OpenStackDeploymentStatus, Phase, condition, reason};

/// The end of every message of a failure, warnings aside.
const AGAIN: &str = "until this works what else this status says is from before (it is tried again every few seconds)";

/// The status of before, not ready because of that problem, and the event where that is new. Nothing else of it is touched, the generation that it
/// speaks of neither: what the pass found is not told. Nobody is asked for: it may work by itself, so that it is not stalled.
pub fn failing(
    previous: Option<&OpenStackDeploymentStatus>,
    generation: i64,
    problem: &str,
    now: Timestamp,
) -> (OpenStackDeploymentStatus, Vec<Event>) {
    let before = previous.cloned().unwrap_or_default();
    let message = format!("{problem}; {AGAIN}");
    let mut status = before.clone();
    if status.phase != Some(Phase::Deleting) {
        status.phase = Some(Phase::Degraded);
    }
    status.message = shortened(&message);
    let whole = format!("{message}{}", warnings(&before));
    for (type_, holds) in [
        (condition::READY, false),
        (condition::PROGRESSING, true),
        (condition::RECONCILING, true),
        (condition::STALLED, false),
    ] {
        let said = match type_ {
            condition::READY => (reason::FAILING, whole.clone()),
            _ if holds => (reason::FAILING, message.clone()),
            _ => (reason::NONE, String::new()),
        };
        set(&mut status.conditions, type_, holds, said, generation, now);
    }
    // What fails next may be another thing: its event is not to be folded into this one.
    let about = Some(About::Field("status.conditions".to_owned()));
    let event = events::turned(&before, &status).map(|event| Event { about, ..event });
    (status, event.into_iter().collect())
}

/// The warnings about the spec that Ready's message told before: it keeps the account of those that were events, and they hold on.
fn warnings(before: &OpenStackDeploymentStatus) -> &str {
    let ready = before.conditions.iter().find(|condition| condition.type_ == condition::READY);
    let Some(Condition { reason, message, .. }) = ready else { return "" };
    if reason == reason::FAILING {
        return message.split_once(AGAIN).map_or("", |(_, rest)| rest);
    }
    message.find(WARNING).map_or("", |at| &message[at..])
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
