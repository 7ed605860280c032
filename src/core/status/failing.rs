//! Computes the status while reconcile passes fail: the previous status, with a message that it is outdated.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::conditions::WARNING;
use super::{Event, Subject, events, shortened};
use crate::api::{OpenStackDeploymentStatus, Phase, condition, reason};

/// The end of the message about a failing reconcile pass. In the condition Ready, this text can be followed by warnings
/// about the spec; [`warnings`] finds the warnings by this text.
const STALE: &str = "the rest of this status is outdated until a pass succeeds (osdpl retries every few seconds)";

/// Returns the previous status with the problem of the failed pass as message, and an event if the pass before did not
/// fail.
///
/// Ready becomes false, and Progressing and Reconciling become true. Stalled becomes false, because a retry may
/// succeed, so nobody has to act yet. The phase becomes Degraded, unless it is Deleting. The conditions that the
/// function sets have `generation` as their observed generation. The function does not change the rest of the status.
pub fn failing_status(
    previous: Option<&OpenStackDeploymentStatus>,
    generation: i64,
    problem: &str,
    now: Timestamp,
) -> (OpenStackDeploymentStatus, Vec<Event>) {
    let before = previous.cloned().unwrap_or_default();
    let message = format!("{problem}; {STALE}");
    let mut status = before.clone();
    if status.phase != Some(Phase::Deleting) {
        status.phase = Some(Phase::Degraded);
    }
    status.message = shortened(&message);
    let ready_message = format!("{message}{}", warnings(&before));
    for (type_, holds) in [
        (condition::READY, false),
        (condition::PROGRESSING, true),
        (condition::RECONCILING, true),
        (condition::STALLED, false),
    ] {
        let (reason, message) = match type_ {
            condition::READY => (reason::FAILING, ready_message.clone()),
            _ if holds => (reason::FAILING, message.clone()),
            _ => (reason::NONE, String::new()),
        };
        let condition = Condition {
            type_: type_.into(),
            status: if holds { "True" } else { "False" }.into(),
            observed_generation: Some(generation),
            last_transition_time: Time(now),
            reason: reason.into(),
            message,
        };
        set(&mut status.conditions, condition);
    }
    // Without this subject Kubernetes would merge the events of different failures into one.
    let about = Some(Subject::Field("status.conditions".to_owned()));
    let event = events::ready_changed(&before, &status).map(|event| Event { subject: about, ..event });
    (status, event.into_iter().collect())
}

/// Returns the warnings about the spec, which are at the end of the previous message of the condition Ready.
///
/// The new message must contain these warnings too. Otherwise the first pass that succeeds would report them as new.
fn warnings(before: &OpenStackDeploymentStatus) -> &str {
    let ready = before.conditions.iter().find(|condition| condition.type_ == condition::READY);
    let Some(Condition { reason, message, .. }) = ready else { return "" };
    if reason == reason::FAILING {
        return message.split_once(STALE).map_or("", |(_, rest)| rest);
    }
    message.find(WARNING).map_or("", |start| &message[start..])
}

/// Adds a condition, or replaces the condition of the same type. If this leaves the condition's `status` unchanged,
/// keeps the time of the last transition.
fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    let Some(known) = conditions.iter_mut().find(|known| known.type_ == condition.type_) else {
        conditions.push(condition);
        return;
    };
    if known.status == condition.status {
        condition.last_transition_time = known.last_transition_time.clone();
    }
    *known = condition;
}
