//! Everything that a plan is made from: what the spec means, the facts it needs, and what is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::Context;
use super::learn::Learned;
use super::likeness::{again, likenesses};
use super::memory::{Memory, Resolved};
use super::named::values_from;
use super::pending::Pending;
use super::spent::nameless;
use crate::cluster::Error;
use osdpl_core::api::{
    ADOPT, APPROVE, DriftPolicy, OpenStackDeployment, OpenStackDeploymentSpec, REPAIR, RoleStatus, SKIP_HOOKS,
};
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::ceph::DeclaredCeph;
use osdpl_core::desired::{self, Desired, Facts, Finding, RejectedMoves, Selection, select};
use osdpl_core::endpoint;
use osdpl_core::observed::{Observed, ObservedRelease, ReleaseKey, RunningHelm};
use osdpl_core::plan::{Decision, Plan, Policy, Step};
use osdpl_core::rollout;
use osdpl_lint::rule;

/// What a pass knows before it plans.
#[derive(Default)]
pub struct Wish {
    /// What is wanted.
    pub desired: Arc<Desired>,
    /// What is.
    pub observed: Observed,
    /// What the spec calls releases, wanted or not.
    pub names: BTreeMap<ReleaseKey, String>,
    /// What is allowed.
    pub policy: Policy,
    /// What is wrong with the spec, or should be known.
    pub findings: Vec<Finding>,
    /// Troubles that belong to no release.
    pub problems: Vec<String>,
    /// The Ceph that the spec declares.
    pub ceph: Option<DeclaredCeph>,
    /// Who plays which role.
    pub roles: BTreeMap<String, RoleStatus>,
    /// Whether the spec is refused: nothing is started then.
    pub refused: bool,
    /// When to look again for facts that no watch tells.
    pub wake: Option<Timestamp>,
    /// Whether charts are on their way of which nothing is known.
    pub fetching: bool,
    /// Charts that are on their way, of which the status told.
    pub pending: Pending,
}

impl Context {
    /// What a pass knows before it plans; `first` is what the spec means, wherever its releases are.
    pub(super) async fn gather(
        &self,
        deployment: &OpenStackDeployment,
        first: Selection,
        memory: &mut Memory,
    ) -> Result<Wish, Error> {
        let catalog = self.catalog();
        let called = known(&first);
        let mut observed = self.observe(&called, memory).await;
        let anchored = desired::reject_moves(&first, &deployment.spec, &catalog, &observed);
        let (spec, selection) = meant(deployment, anchored.as_ref(), first, &catalog);
        let refused = selection.is_refused();
        let survey = self.survey(spec);
        let learned = self.learned((deployment, spec, &selection), &survey.changes, &mut observed, memory).await?;
        let Learned { mut facts, problems, doubts, wake, pending } = learned;
        facts.refused = anchored.as_ref().map(|anchored| anchored.refused.clone()).unwrap_or_default();
        let mut wake = wake.into_iter().chain(memory.again(super::now())).min();
        let ceph = facts.ceph.clone();
        let desired = memory.resolved(spec, &catalog, &selection, facts);
        if !refused {
            self.compare(deployment, &desired, &mut observed, memory).await?;
            wake = wake.into_iter().chain(again(&observed.comparisons)).min();
            self.withdraw_ceph(ceph.as_ref(), &selection, (&desired, &observed), memory).await?;
        }
        observed.rolling_batches = rollout::rolling_batches(&memory.rolled.said(deployment), &desired);
        let mut findings = desired.findings.clone();
        findings.extend(survey.findings.into_iter().chain(doubts));
        let again = self.doubt(deployment, (&called, &selection), &observed, memory, &mut findings);
        wake = wake.into_iter().chain(again).min();
        let refused = refused || findings.iter().any(|finding| finding.level == Level::Error);
        Ok(Wish {
            policy: memory.unspent(policy(deployment)),
            fetching: is_fetching(&desired),
            desired,
            observed,
            names: called,
            findings,
            problems,
            ceph,
            roles: survey.roles,
            refused,
            wake,
            pending,
        })
    }

    /// Adds what should be known beside what the spec comes to; when that is to be looked at again.
    fn doubt(
        &self,
        deployment: &OpenStackDeployment,
        (called, selection): (&BTreeMap<ReleaseKey, String>, &Selection),
        observed: &Observed,
        memory: &mut Memory,
        findings: &mut Vec<Finding>,
    ) -> Option<Timestamp> {
        findings.extend(self.book.findings());
        if let Some(deployed) = rule::previous_release(deployment) {
            let held = values_from(&self.inputs, &deployment.spec, &selection.namespace);
            findings
                .extend(rule::pinned_in_values_from(deployed, &deployment.spec, &held));
        }
        findings.extend(nameless(&policy(deployment), called, observed));
        let (certificates, again) = memory.certificates.judge(&self.inputs, selection, super::now());
        findings.extend(certificates);
        again
    }

    /// Finds out whether releases that others made are as they are wanted.
    async fn compare(
        &self,
        deployment: &OpenStackDeployment,
        desired: &Desired,
        observed: &mut Observed,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let known = (&memory.likeness, &names(deployment, ADOPT));
        observed.comparisons = likenesses(&self.cluster, (desired, observed), known, true, |_, _| {}).await?;
        memory.likeness.clone_from(&observed.comparisons);
        Ok(())
    }

    /// What is; `names` tells what the spec calls releases.
    pub(super) async fn observe(&self, names: &BTreeMap<ReleaseKey, String>, memory: &mut Memory) -> Observed {
        // In this order: one that ends meanwhile still counts as running.
        let table = self.runner.table();
        self.outcomes(memory).await;
        let seen = self.tasks.observe();
        memory.catching_up.retain(|key, waiting| !waiting.is_done(seen.releases.get(key)));
        let mut running: BTreeMap<ReleaseKey, RunningHelm> = table
            .into_iter()
            .map(|(key, child)| {
                let inputs = memory.started.get(&key).map(String::as_str).unwrap_or_default();
                let seen = super::act::running(&child, inputs);
                (key, seen)
            })
            .collect();
        running.extend(memory.unseen());
        let mut releases = (*seen.releases).clone();
        for (key, release) in &mut releases {
            release.release = desired::identify_release(key, release, names, &self.catalog());
        }
        // Others' releases in the cluster are no business of this one's, not even as victims of its troubles.
        let own = |key: &ReleaseKey| names.contains_key(key) || releases.get(key).is_some_and(ObservedRelease::is_ours);
        let mut causes = osdpl_core::cause::group_by_root_cause(
            seen.affected_objects().iter().filter(|victim| own(&victim.release)),
        );
        causes.extend(endpoint::causes(&seen.endpoints));
        Observed {
            releases,
            workloads: seen.workloads().to_vec(),
            jobs: seen.jobs().to_vec(),
            crons: seen.cron_jobs().to_vec(),
            causes,
            running,
            failures: memory.failures.clone(),
            repairs: memory.repairs.clone(),
            external_ready: BTreeSet::new(),
            drift: seen.drift,
            endpoints: seen.endpoints,
            comparisons: BTreeMap::new(),
            terminating: self.inputs.terminating(),
            rolling_batches: BTreeMap::new(),
        }
    }

    /// Has the APIs asked of every wanted release that is available. A spec that is refused changes nothing in that.
    pub(super) fn probe(&self, wish: &Wish) {
        if !wish.refused {
            self.tasks.set_probe_targets(endpoint::targets(&self.catalog(), &wish.desired, &wish.observed));
        }
    }

    /// Has the objects of every wanted release looked after whose drift shall be seen. A spec that is refused changes nothing in that.
    pub(super) fn attend(&self, wish: &Wish) {
        if !wish.refused {
            let seen = wish
                .desired
                .releases
                .values()
                .filter(|release| release.managed && release.drift != DriftPolicy::Ignore);
            self.tasks.watch_drift_of(seen.map(|release| release.key.clone()).collect());
        }
    }
}

impl Memory {
    fn resolved(
        &mut self,
        spec: &OpenStackDeploymentSpec,
        catalog: &Catalog,
        selection: &Selection,
        facts: Facts,
    ) -> Arc<Desired> {
        let same = |known: &&Resolved| {
            known.spec == *spec && known.facts == facts && known.desired.findings.starts_with(&selection.findings)
        };
        if let Some(known) = self.resolved.as_ref().filter(same) {
            return Arc::clone(&known.desired);
        }
        let desired = Arc::new(rule::resolve(spec, catalog, selection, &facts));
        self.resolved = Some(Resolved { spec: spec.clone(), facts, desired: Arc::clone(&desired) });
        desired
    }
}

/// What a spec of this resource means, and what is wrong with it.
pub fn selection(deployment: &OpenStackDeployment, spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> Selection {
    let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
    let mut selection = select(&name, &namespace, spec, catalog);
    let deployed = deployment.status.as_ref().and_then(|status| status.openstack_release.deployed.as_ref());
    let moved = deployed.map(|deployed| rule::check_release_move(deployed, spec, catalog)).unwrap_or_default();
    selection.findings.extend(moved);
    let applied = deployment.annotations().get("kubectl.kubernetes.io/last-applied-configuration");
    selection.findings.extend(applied.map(|text| desired::find_lost_nulls(text, &deployment.spec)).unwrap_or_default());
    selection
}

/// The spec by the releases that are there, and what it means; `first` is what it means wherever they are.
pub fn meant<'a>(
    deployment: &'a OpenStackDeployment,
    anchored: Option<&'a RejectedMoves>,
    first: Selection,
    catalog: &Catalog,
) -> (&'a OpenStackDeploymentSpec, Selection) {
    match anchored {
        Some(anchored) => (&anchored.spec, selection(deployment, &anchored.spec, catalog)),
        None => (&deployment.spec, first),
    }
}

/// The catalogue's names of releases, wanted or not.
pub fn known(selection: &Selection) -> BTreeMap<ReleaseKey, String> {
    let all = selection.scope.variable("releases").and_then(|releases| releases.as_object()).into_iter().flatten();
    all.map(|(name, release)| {
        let text = |field: &str| release[field].as_str().unwrap_or_default().to_owned();
        (ReleaseKey::new(text("namespace"), text("name")), name.clone())
    })
    .collect()
}

/// Whether a chart is still on its way.
fn is_fetching(desired: &Desired) -> bool {
    let blocked = desired.releases.values().filter_map(|release| release.blocked.as_ref());
    blocked.into_iter().any(|blocked| blocked.reason == osdpl_core::api::reason::CHART_PENDING)
}

/// The names in an annotation, which are separated by commas.
pub fn names(deployment: &OpenStackDeployment, annotation: &str) -> BTreeSet<String> {
    let names = deployment.annotations().get(annotation).into_iter().flat_map(|text| text.split(','));
    names.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// What the spec and the annotations allow.
pub fn policy(deployment: &OpenStackDeployment) -> Policy {
    Policy {
        approval: deployment.spec.approval.unwrap_or_default(),
        approved: deployment.annotations().get(APPROVE).cloned(),
        adopt: names(deployment, ADOPT),
        repair: names(deployment, REPAIR),
        skip_hooks: names(deployment, SKIP_HOOKS),
        paused: deployment.spec.paused,
        paused_releases: paused(&deployment.spec),
        deleting: deployment.metadata.deletion_timestamp.is_some(),
    }
}

fn paused(spec: &OpenStackDeploymentSpec) -> BTreeSet<String> {
    let releases = spec.services.values().flat_map(|service| &service.releases);
    releases.filter(|(_, release)| release.paused).map(|(name, _)| name.clone()).collect()
}

/// The plan of a spec that is refused: everything stays as it is, and is shown.
pub fn frozen(desired: &Desired, observed: &Observed) -> Plan {
    let decisions = desired.releases.iter().map(|(name, release)| {
        let state = osdpl_core::plan::classify(Some(release), &release.key, observed, Timestamp::UNIX_EPOCH);
        let step = match state {
            osdpl_core::plan::State::InSync(seen) => osdpl_core::plan::settle_step(release, seen, observed),
            _ => Step::Wait(osdpl_core::plan::Wait::Refused),
        };
        (name.clone(), Decision { key: release.key.clone(), step, sweep: None, mending: None })
    });
    Plan { decisions: decisions.collect(), ..Plan::default() }
}
