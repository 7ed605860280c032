//! Reports rollouts: their condition, their line in the status messages, and their events.

use super::Event;
use super::event::{Subject, event};
use crate::api::{Phase, RolloutPhase, RolloutStatus, reason};
use crate::rollout::Rollouts;

/// Formats the status of a rollout as one line: `nova/compute 12/50 updated: batch n13`.
pub fn line(name: &str, status: &RolloutStatus) -> String {
    let RolloutStatus { phase, updated, total, message, .. } = status;
    match phase {
        RolloutPhase::AwaitingApproval if *updated == 0 => format!("{name}: {message}"),
        _ => format!("{name} {updated}/{total} updated: {message}"),
    }
}

/// Returns the most severe of the rollouts that still have to replace pods: the reason for the condition `RolledOut`,
/// the phase of the cloud, and the line that describes the rollout. Returns `None` if no rollout has to replace pods.
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

/// Returns the condition `RolledOut`; `None` if there is no rollout, or if all rollouts are pending.
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
        // An event reports only the start of a batch: a node has entered the batch. A node that leaves the batch causes
        // no event.
        RolloutPhase::Rolling if now.batch.iter().any(|node| !before.batch.contains(node)) => {
            // Give the event of each batch its own subject: Kubernetes merges events with the same subject and reason
            // into one.
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
mod tests {
    use super::*;

    fn rollouts(phase: RolloutPhase, updated: i32, batch: &[&str]) -> Rollouts {
        let batch: Vec<String> = batch.iter().map(|node| (*node).to_owned()).collect();
        let message = if phase == RolloutPhase::Rolling { format!("batch {}", batch.join(", ")) } else { "why".into() };
        let status = RolloutStatus {
            phase,
            updated,
            total: 50,
            batch,
            message,
            revision: "r2".into(),
            ..RolloutStatus::default()
        };
        [("nova/compute".to_owned(), status)].into()
    }

    #[test]
    fn most_severe_rollout_leads() {
        assert_eq!((condition(&Rollouts::new()), first(&Rollouts::new())), (None, None));
        assert_eq!(condition(&rollouts(RolloutPhase::Pending, 0, &[])), None);
        assert_eq!(condition(&rollouts(RolloutPhase::Complete, 50, &[])), Some((true, (reason::NONE, String::new()))));
        let mut two = rollouts(RolloutPhase::Rolling, 12, &["n13"]);
        let (reason, phase, line) = first(&two).unwrap();
        assert_eq!(
            (reason, phase, line.as_str()),
            (reason::ROLLING, Phase::Updating, "nova/compute 12/50 updated: batch n13")
        );
        two.insert(
            "ovn/ovn-controller".into(),
            rollouts(RolloutPhase::AwaitingApproval, 0, &[]).remove("nova/compute").unwrap(),
        );
        assert_eq!(first(&two).unwrap().1, Phase::AwaitingApproval);
        let message = "nova/compute 12/50 updated: batch n13; ovn/ovn-controller: why".to_owned();
        assert_eq!(condition(&two), Some((false, (reason::APPROVAL, message))));
        assert_eq!(first(&rollouts(RolloutPhase::Stopped, 12, &["n13"])).unwrap().1, Phase::Degraded);
    }

    #[test]
    fn reports_each_batch_once() {
        let steps = [
            (rollouts(RolloutPhase::AwaitingApproval, 0, &[]), Some("AwaitingApproval")),
            (rollouts(RolloutPhase::Rolling, 0, &["n1", "n2"]), Some("RolloutBatch")),
            (rollouts(RolloutPhase::Rolling, 1, &["n2"]), None),
            (rollouts(RolloutPhase::Pausing, 2, &[]), None),
            (rollouts(RolloutPhase::Rolling, 2, &["n3", "n4"]), Some("RolloutBatch")),
            (rollouts(RolloutPhase::Stopped, 3, &["n4"]), Some("RolloutStopped")),
            (rollouts(RolloutPhase::Rolling, 3, &["n4"]), None),
            (rollouts(RolloutPhase::Complete, 50, &[]), Some("RolledOut")),
        ];
        let mut before = Rollouts::new();
        for (now, expected) in steps {
            let reasons: Vec<_> = events(&before, &now).iter().map(|event| event.reason).collect();
            assert_eq!(reasons, expected.into_iter().collect::<Vec<_>>(), "{now:?}");
            assert_eq!(events(&now, &now), []);
            before = now;
        }
    }
}
