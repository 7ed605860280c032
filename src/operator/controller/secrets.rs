//! Every secret at hand, told to the scrubber before anything is done with it that could end in a log.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::memory::Memory;
use super::{Context, now};
use osdpl_core::api::ValuesKind;
use osdpl_core::desired::{Desired, Facts, Selection};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan::Plan;
use osdpl_core::rollout::Rollouts;
use osdpl_core::scrub::Scrubber;

/// How long what no fact tells any more is still kept out of what is shown, beside what runs: a Job that is kept for its log, a person who looks.
const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

impl Context {
    /// Gives the scrubber every secret of a plan, see [`secrets`]; of a spec that is refused, or leaves, nothing is learnt.
    pub(super) fn scrub_secrets(&self, plan: &osdpl_decide::Plan, memory: &mut Memory) {
        let is_refused = plan.selection.as_ref().is_none_or(Selection::is_refused);
        if !is_refused && plan.deleting.is_none() && plan.hold != Some(osdpl_decide::Hold::Watch) {
            memory.learn_secrets(&plan.facts, now());
            self.scrub(memory);
        }
    }

    /// Forgets what no fact has told for long, once nothing can be left that prints it.
    pub(super) fn forget_secrets(&self, plan: &osdpl_decide::Plan, memory: &mut Memory) {
        if !plan.refused && is_past((&plan.desired, &plan.observed), &plan.releases, &plan.rollouts) {
            memory.forget_secrets(now());
            self.scrub(memory);
        }
    }

    /// Forgets all, at the end of a cloud of which no release is left.
    pub(super) fn forget_all_secrets(&self, memory: &mut Memory) {
        memory.secrets.clear();
        self.scrub(memory);
    }

    fn scrub(&self, memory: &Memory) {
        let digest = osdpl_values::digest(memory.secrets.keys().map(String::as_str));
        let mut known = self.charts.secrets_digest.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *known != digest {
            self.scrubber.send_replace(Arc::new(Scrubber::new(memory.secrets.keys())));
            *known = digest;
        }
    }
}

/// Whether nothing runs any more with what was wanted before: a pod that was not restarted yet, or whose release waits for its uninstall, may still print
/// what no fact tells any more, and so may one that was let go.
fn is_past((desired, observed): (&Desired, &Observed), plan: &Plan, rollouts: &Rollouts) -> bool {
    let stands = |key: &ReleaseKey| observed.releases.get(key).is_some_and(|seen| seen.status != "uninstalled");
    let is_let_go = desired.releases.values().any(|release| !release.managed && stands(&release.key));
    plan.is_idle() && !is_let_go && !rollouts.values().any(|rollout| rollout.phase.is_active())
}

impl Memory {
    /// A memory that begins with secrets that were known before.
    pub fn knowing(secrets: BTreeSet<String>, now: Timestamp) -> Self {
        Self { secrets: secrets.into_iter().map(|secret| (secret, Some(now))).collect(), ..Self::default() }
    }

    /// Takes in what the facts hold. Passes may be weeks apart: what is told no more counts from the first of them that does not tell it.
    fn learn_secrets(&mut self, facts: &Facts, now: Timestamp) {
        for untold in self.secrets.values_mut() {
            untold.get_or_insert(now);
        }
        for secret in secrets(facts) {
            match self.secrets.get_mut(secret.as_ref()) {
                Some(untold) => *untold = None,
                None => drop(self.secrets.insert(secret.into_owned(), None)),
            }
        }
    }

    fn forget_secrets(&mut self, now: Timestamp) {
        self.secrets.retain(|_, untold| untold.is_none_or(|since| now.duration_since(since) < KEPT));
    }
}

/// Every secret that the facts hold: credentials, Ceph's keys, what features name, and all texts and numbers that came out of Secrets.
pub fn secrets(facts: &Facts) -> Vec<Cow<'_, str>> {
    let credentials = facts.credentials.values().flat_map(BTreeMap::values);
    let named = facts.secrets.values().flatten();
    let keys = facts.ceph.iter().flat_map(|ceph| &ceph.secrets).map(|secret| &secret.0);
    let mut secrets: Vec<_> = credentials.chain(named).chain(keys).map(|text| Cow::from(text.as_str())).collect();
    for ((kind, ..), values) in &facts.values_from {
        if let (ValuesKind::Secret, Ok(values)) = (kind, values) {
            secrets.extend(values.values().flat_map(osdpl_core::scrub::collect_secret_scalars));
        }
    }
    secrets
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use osdpl_core::api::{RolloutPhase, RolloutStatus};
    use osdpl_core::plan::{Decision, Reason, Step, Wait};
    use osdpl_core::testing::world::{Fixture, seen, world};

    #[test]
    fn what_stands_in_lists_and_what_is_a_number_is_a_secret_too() {
        let values = json!({"users": [{"name": "alice", "password": "hunter2"}], "pin": 12_345_678, "port": 35357, "debug": true});
        let reference = (ValuesKind::Secret, "mine".to_owned(), "values.yaml".to_owned());
        let mut facts = Facts::default();
        facts.values_from.insert(reference, Ok(values.as_object().unwrap().clone()));
        assert_eq!(secrets(&facts), ["12345678", "1.2345678e+07", "alice", "hunter2"]);
    }

    #[test]
    fn what_facts_do_not_tell_any_more_is_forgotten_after_a_while_and_what_they_tell_is_not() {
        let at = |hours| Timestamp::UNIX_EPOCH.checked_add(SignedDuration::from_hours(hours)).unwrap();
        let mut memory = Memory::knowing(["of heat, which waits for its uninstall".to_owned()].into(), at(0));
        let mut facts = Facts::default();
        facts.credentials.insert("nova".into(), [("user".to_owned(), "hunter2".to_owned())].into());
        memory.learn_secrets(&facts, at(1));
        let known = |memory: &Memory| memory.secrets.keys().cloned().collect::<Vec<_>>();
        memory.learn_secrets(&Facts::default(), at(167));
        memory.forget_secrets(at(167));
        assert_eq!(known(&memory), ["hunter2", "of heat, which waits for its uninstall"]);
        memory.learn_secrets(&facts, at(168));
        memory.forget_secrets(at(168));
        assert_eq!(known(&memory), ["hunter2"]);
        memory.learn_secrets(&Facts::default(), at(400));
        memory.learn_secrets(&Facts::default(), at(500));
        memory.forget_secrets(at(567));
        assert_eq!(
            known(&memory),
            ["hunter2"],
            "no pass came between, and the week counts from the one that told it no more"
        );
        memory.forget_secrets(at(568));
        assert_eq!(known(&memory), [""; 0]);
    }

    #[test]
    fn nothing_is_past_while_something_waits_or_pods_are_to_be_made_anew() {
        let plan = |step: Step| {
            let decision = Decision { key: ReleaseKey::new("cloud", "heat"), step, sweep: None, mending: None };
            Plan { decisions: [("heat".to_owned(), decision)].into(), ..Plan::default() }
        };
        let rolling =
            |phase| Rollouts::from([("nova/compute".to_owned(), RolloutStatus { phase, ..Default::default() })]);
        let mut world = world().see("front", seen("deployed"));
        let is_past = |world: &Fixture, plan: &Plan, rollouts: &Rollouts| {
            super::is_past((&world.desired, &world.observed), plan, rollouts)
        };
        let ready = plan(Step::Ready);
        assert!(is_past(&world, &ready, &rolling(RolloutPhase::Complete)));
        assert!(!is_past(&world, &ready, &rolling(RolloutPhase::AwaitingApproval)));
        assert!(!is_past(&world, &plan(Step::Wait(Wait::Approval(Reason::NotDesired))), &Rollouts::new()));
        world.desired.releases.values_mut().for_each(|release| release.managed = false);
        assert!(!is_past(&world, &ready, &Rollouts::new()), "what is let go runs on with what was wanted before");
        world.observed.releases.clear();
        assert!(is_past(&world, &ready, &Rollouts::new()));
    }
}
