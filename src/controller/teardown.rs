//! Deletion: the same pipe with nothing wanted; then what the policy says about data; then the finalizer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::runtime::controller::Action;

use super::gather::{Wish, known, policy};
use super::hosts::Hosted;
use super::memory::Memory;
use super::rollout::Rolled;
use super::spent::nameless;
use super::{Context, wake};
use crate::api::{DeletionPolicy, OpenStackDeployment};
use crate::catalog::Catalog;
use crate::cluster::{Error, Leftovers};
use crate::credentials::secret_name;
use crate::desired::{Desired, select};
use crate::observed::{Key, Observed};
use crate::plan::{Policy, plan};
use crate::rollout::Rollouts;

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
        self.tasks.ask_hosts(None);
        self.tasks.attend(BTreeSet::new());
        self.tasks.roll(BTreeSet::new());
        let selection = select(&name, &namespace, &deployment.spec, &self.catalog());
        let names = known(&selection);
        let observed = self.observe(&names, memory).await;
        if deployment.spec.deletion_policy == Some(DeletionPolicy::Detach) {
            return self.let_go(deployment, observed, memory).await;
        }
        let now = super::now();
        let mut wish = leaving(observed, policy(deployment), self.tasks.problems());
        wish.findings = nameless(&wish.policy, &names, &wish.observed);
        let mut plan = plan(&wish.desired, &wish.observed, &self.catalog(), &wish.policy, now);
        self.act(&mut plan, &wish, memory).await;
        let left = !plan.decisions.is_empty() || !memory.collect.is_empty();
        let rest = if left {
            Some("the last objects of its releases are being removed".to_owned())
        } else {
            let left = leftovers(&name, &names, &wish.observed, &self.catalog());
            let rest = self.clear(deployment, &left, memory).await?;
            wish.wake = rest.is_some().then(|| now.checked_add(AGAIN).ok()).flatten();
            rest
        };
        wish.wake = wish.wake.into_iter().chain(memory.again(now)).min();
        if rest.is_some() {
            let later =
                self.publish(deployment, &wish, &plan, (&BTreeMap::new(), &Rollouts::new()), rest, memory).await?;
            plan.wake = plan.wake.into_iter().chain(later).min();
            return Ok(wake(&plan, &wish, now));
        }
        memory.failures.clear();
        self.cluster.set_finalizer(deployment, false).await?;
        self.metrics.gone(&name);
        self.unsettle();
        Ok(Action::await_change())
    }

    /// Lets everything go as it runs: helm's records lose our labels, and the resource its finalizer. Secrets, objects that charts mount and labels
    /// of nodes stay, because pods live on them.
    async fn let_go(
        &self,
        deployment: &OpenStackDeployment,
        observed: Observed,
        memory: &mut Memory,
    ) -> Result<Action, Error> {
        let ours = observed.releases.iter().filter(|(_, seen)| seen.is_ours());
        let busy: Vec<String> = observed.running.keys().map(ToString::to_string).collect();
        if busy.is_empty() {
            for (key, _) in ours {
                let records = self.cluster.unlabel_records(key).await?;
                tracing::info!(release = %key, records, "let go");
            }
            memory.failures.clear();
            self.cluster.set_finalizer(deployment, false).await?;
            self.metrics.gone(&deployment.name_any());
            self.unsettle();
            return Ok(Action::await_change());
        }
        // What helm is in the middle of ends first; its end pokes.
        let rest = format!("helm is at {}: it is let go when that has ended", busy.join(", "));
        let wish = leaving(observed, policy(deployment), self.tasks.problems());
        let (plan, nothing) = (crate::plan::Plan::default(), Rollouts::new());
        self.publish(deployment, &wish, &plan, (&BTreeMap::new(), &nothing), Some(rest), memory).await?;
        Ok(Action::requeue(AGAIN))
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
        if left.stay.is_empty() {
            self.cluster.remove_external(&name, &BTreeSet::new()).await?;
            // Pools, users and data stay in Ceph.
            self.cluster.leave_stores(&name, None).await?;
            self.cluster.remove_ceph(&name, &[]).await?;
            // Nothing of the cloud's looks for them any more.
            let nodes = self.tasks.observe().nodes().map(crate::nodes::farewell).unwrap_or_default();
            let problems = self.label_nodes(&nodes).await;
            if let Some(problem) = problems.into_iter().next() {
                return Ok(Some(problem));
            }
        } else {
            tracing::info!(releases = ?left.stay, "not ours: they stay, with what their pods live on");
        }
        if deployment.spec.deletion_policy == Some(DeletionPolicy::Purge) {
            self.cluster.purge(&name, &namespace, left).await?;
            self.inputs.forget_own();
        }
        Ok(None)
    }
}

/// What the cloud's own releases left, and those of its names that are not its own: let go, or made by others and never taken over. Which of both
/// no record tells, so each counts as one whose pods live on what the operator gave them.
fn leftovers(deployment: &str, names: &BTreeMap<Key, String>, observed: &Observed, catalog: &Catalog) -> Leftovers {
    let mut left = Leftovers::default();
    for (key, name) in names {
        let release = catalog.release(name);
        if observed.is_others(key) {
            left.stay.insert(key.clone());
            left.credentials.extend(release.map(|(service, _)| secret_name(deployment, service)));
            continue;
        }
        left.releases.insert(key.clone());
        let secrets = release.map(|(_, release)| release.kept_secrets.as_slice()).unwrap_or_default();
        left.secrets.extend(secrets.iter().map(|secret| (key.namespace.clone(), secret.clone())));
    }
    left
}

/// The wish for nothing.
fn leaving(observed: Observed, policy: Policy, problems: Vec<String>) -> Wish {
    Wish {
        desired: Arc::new(Desired::default()),
        observed,
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
    use crate::observed::ReleaseSeen;
    use crate::plan::tests::world::{seen, world};

    #[test]
    fn what_is_not_ours_stays_with_its_jobs_claims_and_credentials() {
        let key = |name: &str| Key::new("openstack", name);
        let names = BTreeMap::from([(key("front"), "front".to_owned()), (key("store"), "store".to_owned())]);
        let mut observed = Observed::default();
        let all = |observed: &Observed| leftovers("nimbus", &names, observed, &world().catalog);
        assert_eq!(all(&observed).releases.len(), 2, "what is gone was ours");
        let let_go = ReleaseSeen { attempt: None, own_inputs: None, ..seen("deployed") };
        observed.releases.insert(key("store"), let_go);
        let left = all(&observed);
        assert_eq!((left.releases, left.stay), ([key("front")].into(), [key("store")].into()));
        assert_eq!(left.credentials, ["nimbus-credentials-store".to_owned()].into());
    }
}
