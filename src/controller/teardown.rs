//! Deletion: the same pipe with nothing wanted; then what the policy says about data; then the finalizer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::controller::Action;

use super::gather::{Wish, known, policy};
use super::memory::Memory;
use super::{Context, wake};
use crate::api::{DeletionPolicy, OpenStackDeployment};
use crate::cluster::{Error, Leftovers};
use crate::desired::{Desired, select};
use crate::plan::plan;

impl Context {
    pub(super) async fn teardown(
        &self,
        deployment: &OpenStackDeployment,
        memory: &mut Memory,
    ) -> Result<Action, Error> {
        let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
        // With Purge the credentials go: nothing of them is to come back with the next cloud.
        memory.resolved = None;
        self.tasks.attend(BTreeSet::new());
        let selection = select(&name, &namespace, &deployment.spec, &self.catalog);
        let names = known(&selection);
        let observed = self.observe(&names, memory).await;
        let policy = policy(deployment);
        let now = super::now();
        let desired = Arc::new(Desired::default());
        let mut plan = plan(&desired, &observed, &self.catalog, &policy, now);
        let wish = Wish {
            desired: Arc::clone(&desired),
            observed,
            policy,
            findings: Vec::new(),
            problems: self.tasks.problems(),
            ceph: None,
            roles: BTreeMap::new(),
            refused: false,
            wake: None,
            fetching: false,
            pending: BTreeMap::new(),
        };
        self.act(&mut plan, &wish, memory).await;
        let left = !plan.decisions.is_empty() || !memory.collect.is_empty();
        if left {
            let rest = "the last objects of its releases are being removed".to_owned();
            let later = self.publish(deployment, &wish, &plan, &BTreeMap::new(), Some(rest), memory).await?;
            plan.wake = plan.wake.into_iter().chain(later).min();
            return Ok(wake(&plan, &wish, now));
        }
        // An uninstall that ended while no operator looked has told nobody to collect its Jobs.
        for key in names.keys() {
            self.cluster.collect_jobs(key).await?;
        }
        self.cluster.remove_external(&name, &BTreeSet::new()).await?;
        // Pools, users and data stay in Ceph.
        self.cluster.leave_stores(&name, None).await?;
        self.cluster.remove_ceph(&name, &[]).await?;
        memory.ceph = None;
        // Nothing of the cloud's looks for them any more.
        let nodes = self.tasks.observe().nodes().map(crate::nodes::farewell).unwrap_or_default();
        if let Some(problem) = self.label_nodes(&nodes).await.into_iter().next() {
            return Err(Error::Object(problem));
        }
        if deployment.spec.deletion_policy == Some(DeletionPolicy::Purge) {
            let kept = names.iter().flat_map(|(key, release)| {
                let secrets = self.catalog.release(release).map(|(_, release)| release.kept_secrets.as_slice());
                secrets.unwrap_or_default().iter().map(|secret| (key.namespace.clone(), secret.clone()))
            });
            let leftovers = Leftovers { secrets: kept.collect(), releases: names.keys().cloned().collect() };
            self.cluster.purge(&name, &namespace, &leftovers).await?;
            self.inputs.forget_own();
        }
        memory.failures.clear();
        self.cluster.set_finalizer(deployment, false).await?;
        self.metrics.gone(&name);
        Ok(Action::await_change())
    }
}
