//! Collects the secrets that logs must not show. Before the operator applies a plan, the scrubber learns the secrets in
//! the plan.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use osdpl_values::CollectSorted;

use super::memory::Memory;
use super::{Context, now};
use osdpl_core::api::ValuesKind;
use osdpl_core::desired::{Desired, Facts};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan::Plan;
use osdpl_core::release::Status;
use osdpl_core::rollout::Rollouts;
use osdpl_core::scrub::Scrubber;

/// The time for which the scrubber keeps a secret that the facts no longer contain.
///
/// The scrubber needs the secret for so long because the log of a finished Job can still show it.
const RETENTION: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The interval at which a standby (an operator process without the Lease) reads the cluster's Secrets, even if no
/// watch has reported a change.
///
/// The regular reads are necessary because no watch reports changes of the Secrets that users provide.
const STANDBY_REFRESH: Duration = Duration::from_secs(30);

/// The time for which a standby waits after a Secret has changed, so that one read of all Secrets also covers further
/// changes.
const STANDBY_DEBOUNCE: Duration = Duration::from_millis(200);

impl Context {
    /// Keeps the scrubber of a standby up to date while the active operator creates secrets.
    ///
    /// The tasks of a standby read logs and release records. They must not cache texts with secrets: if this process
    /// becomes active, its first pass may write these texts to the status. The active operator stores a secret in the
    /// cluster before helm uses it, so that a standby can read the secret before a log or record contains it.
    pub(super) async fn follow_stored_secrets(&self) {
        let mut changes = self.cluster.own_secret_changes().boxed();
        loop {
            // Wait for a change or the timeout. Ignore which of the two has happened, because both lead to a read.
            let _ = tokio::time::timeout(STANDBY_REFRESH, changes.next()).await;
            // Wait for further changes, so that one read covers all of them.
            tokio::time::sleep(STANDBY_DEBOUNCE).await;
            while changes.next().now_or_never().is_some() {}
            self.learn_stored_secrets().await;
        }
    }

    /// Reads the Secrets that osdpl wrote and those that specs name, and makes the scrubber remove their contents from
    /// texts.
    pub(super) async fn learn_stored_secrets(&self) {
        match self.cluster.stored_secrets().await {
            Ok(secrets) => {
                let mut memory = self.memory.lock().await;
                for secret in secrets {
                    memory.secrets.entry(secret).or_insert_with(|| Some(now()));
                }
                self.update_scrubber(&mut memory);
            }
            Err(error) => tracing::warn!(%error, "osdpl can't read the Secrets whose contents must not appear in logs"),
        }
    }

    /// Makes the scrubber remove the secrets of a plan's facts from texts, see [`collect_secrets`].
    ///
    /// This function ignores plans whose selection is refused, plans for a deletion, and plans that only change the
    /// finalizer, because the facts of these plans are incomplete.
    pub(super) fn scrub_secrets(&self, plan: &osdpl_decide::Plan, memory: &mut Memory) {
        let is_refused = plan.selection.as_ref().is_none_or(|selection| selection.is_refused());
        if !is_refused && plan.deleting.is_none() && plan.hold != Some(osdpl_decide::Hold::Watch) {
            memory.learn_secrets(&plan.facts, now());
            self.update_scrubber(memory);
        }
    }

    /// Forgets each secret that the facts have lacked for [`RETENTION`]. Forgets nothing while a workload could still
    /// print old secrets.
    pub(super) fn forget_secrets(&self, plan: &osdpl_decide::Plan, memory: &mut Memory) {
        if !plan.refused && is_settled(&plan.desired, &plan.observed, &plan.releases, &plan.rollouts) {
            memory.forget_secrets(now());
            self.update_scrubber(memory);
        }
    }

    /// Forgets all secrets at the end of a deletion, when no workload can print them any more.
    pub(super) fn forget_all_secrets(&self, memory: &mut Memory) {
        memory.secrets.clear();
        self.update_scrubber(memory);
    }

    fn update_scrubber(&self, memory: &mut Memory) {
        let digest = osdpl_values::digest(memory.secrets.keys().map(String::as_str));
        if memory.scrubber_digest != digest {
            self.scrubber.send_replace(Arc::new(Scrubber::new(memory.secrets.keys())));
            memory.scrubber_digest = digest;
        }
    }
}

/// Whether all pods run with the inputs of this plan, so that no pod uses an older secret.
///
/// Otherwise, osdpl must not forget older secrets. Three kinds of pods can still print them: pods that were not
/// restarted yet, and pods of releases that wait for their uninstall or that osdpl does not manage.
fn is_settled(desired: &Desired, observed: &Observed, plan: &Plan, rollouts: &Rollouts) -> bool {
    let is_installed =
        |key: &ReleaseKey| observed.releases.get(key).is_some_and(|existing| existing.status != Status::Uninstalled);
    let has_unmanaged = desired.releases.values().any(|release| !release.managed && is_installed(&release.key));
    plan.is_idle() && !has_unmanaged && !rollouts.values().any(|rollout| rollout.phase.is_active())
}

impl Memory {
    /// Creates a [`Memory`] with the secrets that the operator found in the cluster when it started.
    pub(super) fn with_secrets(secrets: BTreeSet<String>, now: Timestamp) -> Self {
        Self { secrets: secrets.into_iter().map(|secret| (secret, Some(now))).collect_map(), ..Self::default() }
    }

    /// Adds the secrets in `facts` to the memory. If an earlier call has added a secret that `facts` does not contain,
    /// stores for this secret the time `now`, unless the memory already has a time for it.
    ///
    /// [`RETENTION`] begins at the stored time: the first call without the secret. The last call with the secret may
    /// have been weeks earlier.
    fn learn_secrets(&mut self, facts: &Facts, now: Timestamp) {
        for missing_since in self.secrets.values_mut() {
            missing_since.get_or_insert(now);
        }
        for secret in collect_secrets(facts) {
            match self.secrets.get_mut(secret.as_ref()) {
                Some(missing_since) => *missing_since = None,
                None => drop(self.secrets.insert(secret.into_owned(), None)),
            }
        }
    }

    fn forget_secrets(&mut self, now: Timestamp) {
        self.secrets.retain(|_, missing_since| missing_since.is_none_or(|since| now.duration_since(since) < RETENTION));
    }
}

/// Returns all secrets of the facts: credentials, the contents of Secrets that features name, Ceph's keys, and all
/// scalars in the Secrets that `valuesFrom` names.
pub fn collect_secrets(facts: &Facts) -> Vec<Cow<'_, str>> {
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
    use osdpl_core::testing::{Fixture, fixture, observed_release};

    #[test]
    fn collects_list_items_and_numbers() {
        let users = json!([{"name": "alice", "password": "hunter2"}]);
        let values = json!({"users": users, "pin": 12_345_678, "port": 35357, "debug": true});
        let reference = (ValuesKind::Secret, "mine".to_owned(), "values.yaml".to_owned());
        let mut facts = Facts::default();
        facts.values_from.insert(reference, Ok(values.as_object().unwrap().clone()));
        assert_eq!(collect_secrets(&facts), ["12345678", "1.2345678e+07", "alice", "hunter2"]);
    }

    #[test]
    fn forgets_secrets_that_facts_lack_for_a_week() {
        let at = |hours| Timestamp::UNIX_EPOCH.checked_add(SignedDuration::from_hours(hours)).unwrap();
        let mut memory = Memory::with_secrets(["of another release".to_owned()].into(), at(0));
        let mut facts = Facts::default();
        facts.credentials.insert("nova".into(), [("user".to_owned(), "hunter2".to_owned())].into());
        memory.learn_secrets(&facts, at(1));
        let known = |memory: &Memory| memory.secrets.keys().cloned().collect::<Vec<_>>();
        memory.learn_secrets(&Facts::default(), at(167));
        memory.forget_secrets(at(167));
        assert_eq!(known(&memory), ["hunter2", "of another release"]);
        memory.learn_secrets(&facts, at(168));
        memory.forget_secrets(at(168));
        assert_eq!(known(&memory), ["hunter2"]);
        memory.learn_secrets(&Facts::default(), at(400));
        memory.learn_secrets(&Facts::default(), at(500));
        memory.forget_secrets(at(567));
        assert_eq!(
            known(&memory),
            ["hunter2"],
            "the retention begins with the first pass whose facts do not contain the secret"
        );
        memory.forget_secrets(at(568));
        assert_eq!(known(&memory), [""; 0]);
    }

    #[test]
    fn is_not_settled_while_older_inputs_may_be_in_use() {
        let plan = |step: Step| {
            let decision = Decision { key: ReleaseKey::new("cloud", "heat"), step, cleanup: None, drift_action: None };
            Plan { decisions: [("heat".to_owned(), decision)].into(), ..Plan::default() }
        };
        let rolling =
            |phase| Rollouts::from([("nova/compute".to_owned(), RolloutStatus { phase, ..Default::default() })]);
        let mut world = fixture().with_release("front", observed_release(Status::Deployed));
        let is_settled = |world: &Fixture, plan: &Plan, rollouts: &Rollouts| {
            super::is_settled(&world.desired, &world.observed, plan, rollouts)
        };
        let ready = plan(Step::Ready);
        assert!(is_settled(&world, &ready, &rolling(RolloutPhase::Complete)));
        assert!(!is_settled(&world, &ready, &rolling(RolloutPhase::AwaitingApproval)));
        assert!(!is_settled(&world, &plan(Step::Wait(Wait::Approval(Reason::NotDesired))), &Rollouts::new()));
        world.desired.releases.values_mut().for_each(|release| release.managed = false);
        assert!(
            !is_settled(&world, &ready, &Rollouts::new()),
            "an installed release that osdpl does not manage may still print older secrets"
        );
        world.observed.releases.clear();
        assert!(is_settled(&world, &ready, &Rollouts::new()));
    }
}
