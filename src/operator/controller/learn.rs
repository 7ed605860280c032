//! What a pass learns of the world for a spec that is not refused: the facts that its values are made from.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::Context;
use super::memory::Memory;
use super::named::{feature_secrets, values_from, written};
use super::pending::Pending;
use crate::cluster::{CredentialQuestion as Question, Credentials, Error};
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::desired::{self, Facts, Finding, Selection};
use osdpl_core::nodes::LabelChange;
use osdpl_core::observed::Observed;
use osdpl_core::status;

/// What was learnt.
#[derive(Default)]
pub struct Learned {
    /// What values are made from.
    pub facts: Facts,
    /// Troubles that belong to no release.
    pub problems: Vec<String>,
    /// What should be known of the world, though it keeps nothing from going on.
    pub doubts: Vec<Finding>,
    /// When to look again for facts that no watch tells.
    pub wake: Option<Timestamp>,
    /// Charts that are on their way, of which the status told.
    pub pending: Pending,
}

impl Context {
    /// What is learnt for a spec; of one that is refused nothing is asked, and nothing is done for it.
    pub(super) async fn learned(
        &self,
        meant: (&OpenStackDeployment, &OpenStackDeploymentSpec, &Selection),
        changes: &BTreeMap<String, LabelChange>,
        observed: &mut Observed,
        memory: &mut Memory,
    ) -> Result<Learned, Error> {
        let (deployment, spec, selection) = meant;
        let mut learned = Learned { problems: self.tasks.describe_problems(), ..Learned::default() };
        learned.facts.helm_major = self.runner.program().version().major.into();
        if selection.is_refused() {
            return Ok(learned);
        }
        let generation = deployment.metadata.generation.unwrap_or_default();
        let (site, again) = self.site((spec, generation), changes, memory).await;
        learned.facts.site = site;
        self.learn(meant, observed, memory, &mut learned).await?;
        learned.wake = learned.wake.into_iter().chain(again).min();
        if !spec.paused {
            learned.problems.extend(self.label_nodes(changes).await);
        }
        Ok(learned)
    }

    async fn learn(
        &self,
        (deployment, spec, selection): (&OpenStackDeployment, &OpenStackDeploymentSpec, &Selection),
        observed: &mut Observed,
        memory: &mut Memory,
        learned: &mut Learned,
    ) -> Result<(), Error> {
        let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
        let Learned { facts, problems, doubts, wake, pending } = learned;
        let credentials = self.credentials(deployment, spec, selection, observed, memory).await?;
        facts.credentials = credentials.known;
        facts.missing = credentials.missing;
        facts.values_from = values_from(&self.inputs, spec, &namespace);
        facts.secrets = feature_secrets(&self.inputs, selection);
        let catalog = self.catalog();
        facts.written = written(&self.inputs, &catalog, selection);
        (facts.charts, *wake) = self.charts.facts(spec, &catalog, selection);
        *pending = super::pending::remembered(deployment, &catalog, &mut facts.charts);
        facts.claim_classes = desired::collect_claim_classes(self.tasks.observe().volume_claims(), &selection.releases);
        let external = self.vacant(&selection.external, observed);
        self.withdraw(&name, &external, memory).await?;
        let external = self.cluster.external(&name, &external).await;
        observed.external_ready = external.ready;
        problems.extend(external.problems);
        doubts.extend(external.doubts);
        *wake = (*wake).into_iter().chain(external.again).min();
        facts.ceph = super::ceph::declared(&self.inputs, spec, selection);
        // Before anything is done with them that could end in a log.
        self.tell_secrets(facts, memory);
        if let Some(mut ceph) = facts.ceph.take() {
            let again = self.hand_on(&mut ceph, selection, facts, memory).await?;
            *wake = (*wake).into_iter().chain(again).min();
            facts.ceph = Some(ceph);
        } else {
            self.inputs.leave_beside();
        }
        Ok(())
    }

    /// The credentials, and an event for each of our Secrets that was put back meanwhile.
    async fn credentials(
        &self,
        deployment: &OpenStackDeployment,
        spec: &OpenStackDeploymentSpec,
        selection: &Selection,
        observed: &Observed,
        memory: &mut Memory,
    ) -> Result<Credentials, Error> {
        let last = memory.resolved.as_ref().map(|resolved| &resolved.facts.credentials);
        let question = Question { spec, catalog: &self.catalog(), selection, observed, last };
        let credentials = self.cluster.credentials(&question, &self.inputs, &mut memory.edits).await;
        let restored: Vec<_> = memory.edits.restored.drain(..).collect();
        self.cluster.tell(deployment, restored.iter().map(status::credential_restored_event).collect()).await;
        credentials
    }
}
