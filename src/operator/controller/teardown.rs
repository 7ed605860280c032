//! Deletion: the same pipe with nothing wanted; then what the policy says about data; then the finalizer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use kube::ResourceExt;
use kube::runtime::controller::Action;

use super::gather::{Wish, known, policy};
use super::hosts::Hosted;
use super::leftovers::leftovers;
use super::memory::Memory;
use super::rollout::Rolled;
use super::spent::nameless;
use super::{Context, wake};
use crate::cluster::{Error, Leftovers, Needed};
use osdpl_core::api::{DeletionPolicy, FINALIZER, OpenStackDeployment, reason};
use osdpl_core::catalog::Level;
use osdpl_core::desired::{Desired, select};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan::{Decision, Plan, Policy, Reason, Step, Wait, plan};
use osdpl_core::rollout::Rollouts;
use osdpl_core::status::{self, Event};

/// When what stood in the way of the end is tried again: no watch tells of rights that are given back.
const AGAIN: Duration = Duration::from_secs(10);

impl Context {
    pub(super) async fn teardown(
        &self,
        deployment: &OpenStackDeployment,
        memory: &mut Memory,
    ) -> Result<Action, Error> {
        let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
        // With Purge the credentials go: nothing of them is to come back with the next cloud.
        memory.resolved = None;
        memory.rolled = Rolled::default();
        memory.hosts = Hosted::default();
        self.tasks.set_host_query(None);
        self.tasks.watch_drift_of(BTreeSet::new());
        self.tasks.watch_rollouts(BTreeSet::new());
        self.inputs.leave();
        let selection = select(&name, &namespace, &deployment.spec, &self.catalog());
        let names = known(&selection);
        let observed = self.observe(&names, memory).await;
        if deployment.spec.deletion_policy == Some(DeletionPolicy::Detach) {
            return self.let_go(deployment, (observed, names), memory).await;
        }
        let now = super::now();
        let mut wish = leaving((observed, names), policy(deployment), self.tasks.describe_problems());
        wish.findings = nameless(&wish.policy, &wish.names, &wish.observed);
        let mut plan = plan(&wish.desired, &wish.observed, &self.catalog(), &wish.policy, now);
        if let Some(doubt) = self.book.findings().into_iter().find(|finding| finding.level == Level::Error) {
            hold(&mut plan, &doubt.message);
            return self.tell_rest(deployment, (wish, plan), doubt.message, memory).await;
        }
        self.act(&mut plan, &wish, memory).await;
        let left = !plan.decisions.is_empty() || !memory.collect.is_empty();
        let rest = if left {
            Some("the last objects of its releases are being removed".to_owned())
        } else {
            let left = leftovers(&selection, &wish.observed.releases, &self.catalog());
            let rest = self.clear(deployment, &left, memory).await?;
            wish.wake = rest.is_some().then(|| now.checked_add(AGAIN).ok()).flatten();
            rest
        };
        if let Some(rest) = rest {
            return self.tell_rest(deployment, (wish, plan), rest, memory).await;
        }
        self.finish(deployment, memory).await
    }

    /// Lets the resource itself go, and the one rule that waited for that.
    async fn finish(&self, deployment: &OpenStackDeployment, memory: &mut Memory) -> Result<Action, Error> {
        memory.failures.clear();
        self.cluster.set_finalizer(deployment, false).await?;
        self.metrics.remove_cloud(&deployment.name_any());
        self.unsettle();
        self.over.lock().unwrap_or_else(PoisonError::into_inner).extend(deployment.uid());
        self.poke.notify_one();
        Ok(Action::await_change())
    }

    /// Tells what is still to be done, and when to look again.
    async fn tell_rest(
        &self,
        deployment: &OpenStackDeployment,
        (wish, mut plan): (Wish, Plan),
        rest: String,
        memory: &mut Memory,
    ) -> Result<Action, Error> {
        let now = super::now();
        let told = (&BTreeMap::new(), &Rollouts::new());
        let later = self.publish(deployment, &wish, &plan, told, Some(rest), memory).await?;
        plan.requeue_at = plan.requeue_at.into_iter().chain(memory.again(now)).chain(later).min();
        Ok(wake(&plan, &wish, now))
    }

    /// Lets everything go as it runs: helm's records lose our labels, and the resource its finalizer. Secrets, objects that charts mount and labels
    /// of nodes stay, because pods live on them.
    async fn let_go(
        &self,
        deployment: &OpenStackDeployment,
        (observed, names): (Observed, BTreeMap<ReleaseKey, String>),
        memory: &mut Memory,
    ) -> Result<Action, Error> {
        let ours = observed.releases.iter().filter(|(_, seen)| seen.is_ours());
        let busy: Vec<String> = observed.running.keys().map(ToString::to_string).collect();
        if busy.is_empty() {
            for (key, _) in ours {
                let records = self.cluster.unlabel_records(key).await?;
                tracing::info!(release = %key, records, "let go");
            }
            return self.finish(deployment, memory).await;
        }
        // What helm is in the middle of ends first; its end pokes.
        let rest = format!("helm is at {}: it is let go when that has ended", busy.join(", "));
        let plan = letting_go(&observed, &names);
        let mut wish = leaving((observed, names), policy(deployment), self.tasks.describe_problems());
        wish.wake = super::now().checked_add(AGAIN).ok();
        self.tell_rest(deployment, (wish, plan), rest, memory).await
    }

    /// Removes what is not helm's, once the releases are gone; what stands in the way, if anything does.
    async fn clear(
        &self,
        deployment: &OpenStackDeployment,
        left: &Leftovers,
        memory: &mut Memory,
    ) -> Result<Option<String>, Error> {
        let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
        // An uninstall that ended while no operator looked has told nobody to collect its Jobs.
        for key in &left.releases {
            self.cluster.collect_jobs(key).await?;
        }
        memory.ceph = None;
        let needed = &left.needed;
        self.cluster.remove_external(&name, &needed.external).await?;
        // Pools, users and data stay in Ceph.
        if !needed.store {
            self.cluster.leave_stores(&name, None).await?;
        }
        self.cluster.remove_ceph(&name, &needed.ceph).await?;
        let nodes = self.tasks.observe().nodes().map(osdpl_core::nodes::labels_to_remove).unwrap_or_default();
        if !needed.labels {
            // Nothing of the cloud's looks for them any more.
            let problems = self.label_nodes(&nodes).await;
            if let Some(problem) = problems.into_iter().next() {
                return Ok(Some(problem));
            }
        }
        if deployment.spec.deletion_policy == Some(DeletionPolicy::Purge) {
            self.cluster.purge(&name, &namespace, left).await?;
            self.inputs.forget_own();
        }
        // What stays is not ours and may go on with our credentials.
        if needed.releases.is_empty() {
            self.forget_all_secrets(memory);
        }
        // The status goes with the resource: only an event is still there to be read.
        self.cluster.tell(deployment, told(needed, nodes.len()).into_iter().collect()).await;
        Ok(None)
    }
}

/// Whether all was done of a resource that is being deleted: it may stay for long, held by somebody else's finalizer.
pub fn is_over(deployment: &OpenStackDeployment) -> bool {
    let is_ours = |finalizer: &String| finalizer == FINALIZER;
    deployment.metadata.deletion_timestamp.is_some() && !deployment.finalizers().iter().any(is_ours)
}

/// What is done where everything is let go: each release of ours becomes nobody's, those too that helm makes just now.
pub fn letting_go(observed: &Observed, names: &BTreeMap<ReleaseKey, String>) -> Plan {
    let ours = observed.releases.iter().filter(|(_, seen)| seen.is_ours());
    let ours = ours.map(|(key, seen)| (key, seen.release.as_ref()));
    let made = observed.running.keys().filter(|key| !observed.releases.contains_key(key));
    let decisions = ours.chain(made.map(|key| (key, names.get(key)))).map(|(key, name)| {
        let step = Step::Do(osdpl_core::plan::Action::Unmanage, Reason::Unmanaged);
        let decision = Decision { key: key.clone(), step, sweep: None, mending: None };
        (name.unwrap_or(&key.name).clone(), decision)
    });
    Plan { decisions: decisions.collect(), ..Plan::default() }
}

/// Makes what would be started wait while it is not known what `ConfigMap`s add to the catalogue: what they tell of releases decides in which order
/// these leave, and what a purge removes. What is corrected there pokes.
fn hold(plan: &mut Plan, why: &str) {
    for decision in plan.decisions.values_mut() {
        if matches!(decision.step, Step::Do(..)) {
            decision.step = Step::Wait(Wait::Blocked { reason: reason::INVALID.into(), message: why.to_owned() });
        }
        decision.sweep = None;
    }
}

/// What releases keep that stay, in an event; so many nodes have labels from the operator.
fn told(needed: &Needed, nodes: usize) -> Option<Event> {
    let labels = (needed.labels && nodes > 0).then(|| format!("the labels of roles on {nodes} nodes"));
    let services = needed.external.iter().map(|(namespace, name)| format!("Service {namespace}/{name}"));
    let objects = needed.ceph.iter().map(ToString::to_string);
    let kept: Vec<String> = labels.into_iter().chain(services).chain(objects).collect();
    let releases: Vec<String> = needed.releases.iter().map(ToString::to_string).collect();
    (!kept.is_empty()).then(|| status::retained_event(&releases, &kept))
}

/// The wish for nothing.
fn leaving((observed, names): (Observed, BTreeMap<ReleaseKey, String>), policy: Policy, problems: Vec<String>) -> Wish {
    Wish {
        desired: Arc::new(Desired::default()),
        observed,
        names,
        policy,
        findings: Vec::new(),
        problems,
        ceph: None,
        roles: BTreeMap::new(),
        refused: false,
        wake: None,
        fetching: false,
        pending: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osdpl_core::testing::world::{seen, world};

    #[test]
    fn a_resource_that_another_finalizer_holds_is_over_once_ours_is_gone() {
        let held = |metadata: serde_json::Value| -> OpenStackDeployment {
            serde_json::from_value(serde_json::json!({"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": metadata, "spec": {"openstackRelease": "2026.1"}})).unwrap()
        };
        let (deleted, foreign) = ("2026-11-21T00:00:00Z", "foregroundDeletion");
        assert!(is_over(&held(serde_json::json!({"deletionTimestamp": deleted, "finalizers": [foreign]}))));
        assert!(!is_over(&held(serde_json::json!({"deletionTimestamp": deleted, "finalizers": [foreign, FINALIZER]}))));
        assert!(!is_over(&held(serde_json::json!({"finalizers": [foreign]}))), "it is not being deleted");
    }

    #[test]
    fn nothing_leaves_while_it_is_not_known_what_it_needs() {
        let mut world = world().see("front", seen("deployed")).see("store", seen("deployed"));
        world.policy.deleting = true;
        world.desired = Desired::default();
        let mut plan = plan(&world.desired, &world.observed, &world.catalog, &world.policy, super::super::now());
        assert!(plan.decisions.values().any(|decision| matches!(decision.step, Step::Do(..))), "{plan:?}");
        hold(&mut plan, "the catalogue: ConfigMaps can't be listed");
        assert!(plan.decisions.values().all(|decision| matches!(decision.step, Step::Wait(_))), "{plan:?}");
        let told = plan.decisions.values().any(|decision| matches!(&decision.step, Step::Wait(Wait::Blocked { message, .. }) if message.starts_with("the catalogue: ")));
        assert!(told, "{plan:?}");
    }

    #[test]
    fn what_is_let_go_is_told_of_while_helm_is_still_at_one_of_it() {
        let foreign = osdpl_core::observed::ObservedRelease { status: "deployed".into(), ..Default::default() };
        let world = world().see("front", seen("deployed")).see("store", seen("pending-upgrade")).see("theirs", foreign);
        let mut observed = world.observed;
        let first = ReleaseKey::new("openstack", "dashboard");
        for key in [ReleaseKey::new("openstack", "store"), first.clone()] {
            observed.running.insert(key, osdpl_core::testing::world::running_helm("new"));
        }
        let plan = letting_go(&observed, &[(first, "horizon".to_owned())].into());
        assert_eq!(plan.decisions.keys().collect::<Vec<_>>(), ["front", "horizon", "store"]);
        let is_let_go = |step: &Step| matches!(step, Step::Do(osdpl_core::plan::Action::Unmanage, _));
        assert!(plan.decisions.values().all(|decision| is_let_go(&decision.step)), "{plan:?}");
    }

    #[test]
    fn what_is_left_is_told_where_anything_is() {
        let external = [("openstack".to_owned(), "mariadb".to_owned())].into();
        let releases = [osdpl_core::observed::ReleaseKey::new("openstack", "nova")].into();
        let needed = Needed { releases, labels: true, external, ..Needed::default() };
        let note = told(&needed, 2).unwrap().note;
        let kept = "the labels of roles on 2 nodes, Service openstack/mariadb, which was kept too";
        assert!(note.contains(&format!("openstack/nova; their pods may need {kept}")), "{note}");
        assert_eq!(told(&Needed { external: [].into(), ..needed }, 0), None);
        assert_eq!(told(&Needed::default(), 2), None);
    }
}
