//! Rollouts in the status: their condition, their part of the message, and their events.

use super::Event;
use super::events::{Subject, event};
use crate::api::{Phase, RolloutPhase, RolloutStatus, reason};
use crate::rollout::Rollouts;

/// Formats a rollout: `nova/compute 12/50 updated: batch n13`.
pub fn line(name: &str, status: &RolloutStatus) -> String {
    let RolloutStatus { phase, updated, total, message, .. } = status;
    match phase {
        RolloutPhase::AwaitingApproval if *updated == 0 => format!("{name}: {message}"),
        _ => format!("{name} {updated}/{total} updated: {message}"),
    }
}

/// Returns the most severe active rollout: its condition's reason, the phase of the cloud, and its progress.
pub(super) fn first(rollouts: &Rollouts) -> Option<(&'static str, Phase, String)> {
    let severity = |status: &RolloutStatus| match status.phase {
        RolloutPhase::Stopped => Some((0, reason::ROLLOUT_STOPPED, Phase::Degraded)),
        RolloutPhase::AwaitingApproval => Some((1, reason::APPROVAL, Phase::AwaitingApproval)),
        RolloutPhase::Rolling | RolloutPhase::Pausing => Some((2, reason::ROLLING, Phase::Updating)),
        RolloutPhase::Waiting => Some((3, reason::ROLLING, Phase::Updating)),
        RolloutPhase::Pending | RolloutPhase::Complete => None,
    };
    let active = rollouts.iter().filter_map(|(name, status)| Some((severity(status)?, name, status)));
    let ((_, reason, phase), name, status) = active.min_by_key(|((rank, ..), ..)| *rank)?;
    Some((reason, phase, line(name, status)))
}

/// Returns the condition `RolledOut`, if there is any rollout.
pub(super) fn condition(rollouts: &Rollouts) -> Option<(bool, (&'static str, String))> {
    let known = rollouts.values().any(|status| status.phase != RolloutPhase::Pending);
    let done = || known.then(|| (true, (reason::NONE, String::new())));
    let lines = rollouts.iter().filter(|(_, status)| status.phase.is_active()).map(|(name, status)| line(name, status));
    let lines: Vec<String> = lines.collect();
    first(rollouts).map(|(reason, ..)| (false, (reason, lines.join("; ")))).or_else(done)
}

/// Returns events for rollouts that wait for approval, start a batch, stop or complete.
pub(super) fn events(before: &Rollouts, now: &Rollouts) -> Vec<Event> {
    let none = RolloutStatus::default();
    now.iter().filter_map(|(name, status)| changed(name, before.get(name).unwrap_or(&none), status)).collect()
}

fn changed(name: &str, before: &RolloutStatus, now: &RolloutStatus) -> Option<Event> {
    let entered = before.phase != now.phase || before.revision != now.revision;
    let event = match now.phase {
        RolloutPhase::AwaitingApproval if entered => event(false, reason::APPROVAL, line(name, now)),
        // Nodes leave a batch one by one, which does not make it a new batch.
        RolloutPhase::Rolling if now.batch.iter().any(|node| !before.batch.contains(node)) => {
            // A subject per batch, because events about the same subject are aggregated.
            let node = format!("{}/{}", name.replace('/', "-"), now.batch.first()?);
            let about = Some(Subject::Object { kind: "Component".into(), name: node });
            let batch = format!("{name} {}/{} updated: batch {}", now.updated, now.total, now.batch.join(", "));
            return Some(Event { subject: about, ..event(false, "RolloutBatch", batch) });
        }
        RolloutPhase::Stopped if entered => event(true, reason::ROLLOUT_STOPPED, line(name, now)),
        RolloutPhase::Complete if entered => event(false, "RolledOut", line(name, now)),
        _ => return None,
    };
    let about = Some(Subject::Object { kind: "Component".into(), name: name.replace('/', "-") });
    Some(Event { subject: about, ..event })
}

#[cfg(test)]
mod tests;
