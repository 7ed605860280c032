//! What is said of rollouts: a condition, a part of the message, events.

use super::Event;
use super::events::{About, event};
use crate::api::{Phase, RolloutPhase, RolloutStatus, reason};
use crate::rollout::Rollouts;

/// `nova/compute 12/50 updated: batch n13`.
pub fn line(name: &str, said: &RolloutStatus) -> String {
    let RolloutStatus { phase, updated, total, message, .. } = said;
    match phase {
        RolloutPhase::AwaitingApproval if *updated == 0 => format!("{name}: {message}"),
        _ => format!("{name} {updated}/{total} updated: {message}"),
    }
}

/// The first rollout that is on, the gravest: its condition's reason, the phase of the cloud, and how far it is.
pub fn first(rollouts: &Rollouts) -> Option<(&'static str, Phase, String)> {
    let grave = |said: &RolloutStatus| match said.phase {
        RolloutPhase::Stopped => Some((0, reason::ROLLOUT_STOPPED, Phase::Degraded)),
        RolloutPhase::AwaitingApproval => Some((1, reason::APPROVAL, Phase::AwaitingApproval)),
        RolloutPhase::Rolling | RolloutPhase::Pausing => Some((2, reason::ROLLING, Phase::Updating)),
        RolloutPhase::Waiting => Some((3, reason::ROLLING, Phase::Updating)),
        RolloutPhase::Pending | RolloutPhase::Complete => None,
    };
    let on = rollouts.iter().filter_map(|(name, said)| Some((grave(said)?, name, said)));
    let ((_, reason, phase), name, said) = on.min_by_key(|((rank, ..), ..)| *rank)?;
    Some((reason, phase, line(name, said)))
}

/// The condition `RolledOut`, where there is a rollout to speak of.
pub fn condition(rollouts: &Rollouts) -> Option<(bool, (&'static str, String))> {
    let known = rollouts.values().any(|said| said.phase != RolloutPhase::Pending);
    let done = || known.then(|| (true, (reason::NONE, String::new())));
    let lines = rollouts.iter().filter(|(_, said)| said.phase.is_on()).map(|(name, said)| line(name, said));
    let lines: Vec<String> = lines.collect();
    first(rollouts).map(|(reason, ..)| (false, (reason, lines.join("; ")))).or_else(done)
}

/// What has changed of them: that one waits, each batch, a stop, the end.
pub fn events(before: &Rollouts, now: &Rollouts) -> Vec<Event> {
    let none = RolloutStatus::default();
    now.iter().filter_map(|(name, said)| changed(name, before.get(name).unwrap_or(&none), said)).collect()
}

fn changed(name: &str, before: &RolloutStatus, now: &RolloutStatus) -> Option<Event> {
    let entered = before.phase != now.phase || before.revision != now.revision;
    let said = match now.phase {
        RolloutPhase::AwaitingApproval if entered => event(false, reason::APPROVAL, line(name, now)),
        // Nodes leave a batch one by one; that is no other batch.
        RolloutPhase::Rolling if now.batch.iter().any(|node| !before.batch.contains(node)) => {
            // Events about the same are folded into one.
            let node = format!("{}/{}", name.replace('/', "-"), now.batch.first()?);
            let about = Some(About::Object { kind: "Component".into(), name: node });
            let batch = format!("{name} {}/{} updated: batch {}", now.updated, now.total, now.batch.join(", "));
            return Some(Event { about, ..event(false, "RolloutBatch", batch) });
        }
        RolloutPhase::Stopped if entered => event(true, reason::ROLLOUT_STOPPED, line(name, now)),
        RolloutPhase::Complete if entered => event(false, "RolledOut", line(name, now)),
        _ => return None,
    };
    let about = Some(About::Object { kind: "Component".into(), name: name.replace('/', "-") });
    Some(Event { about, ..said })
}

#[cfg(test)]
mod tests;
