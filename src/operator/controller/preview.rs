//! The plan that the operator would make now, made beside it: the same snapshot, the same decision, and nothing is applied.
//!
//! The charts themselves are not needed: the operator's status says which digest each has. Where it does not, a release whose recorded values are the
//! desired ones is taken to be up to date, and what stays unknown is reported.

mod assume;
mod observe;
mod rights;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt};
use tokio::sync::Notify;

use super::ChartSource;
use super::read::{Surroundings, answer, snapshot};
use super::secrets::secrets;
use crate::cluster::{Error, Inputs, Reader};
use crate::tasks::Tasks;
use assume::Assumptions;
use observe::{observe, terminating};
use osdpl_core::adopt::Comparison;
use osdpl_core::api::{DeletionPolicy, FINALIZER, OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Desired, Facts, Finding, Selection};
use osdpl_core::nodes::{self, LabelChange};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan;
use osdpl_core::rollout;
use osdpl_core::scrub::Scrubber;
use osdpl_decide::{
    Action, Answer, Answered, Answers, Helm, Hold, Plan, Planned, Read, Snapshot, decide, known_releases, selection,
    target,
};
use osdpl_values::{Path, Values};

/// What would be done, and what it follows from.
pub struct Preview {
    /// The spec, corrected by the releases that exist.
    pub spec: OpenStackDeploymentSpec,
    /// What that selects.
    pub selection: Selection,
    /// What it needs from outside; with credentials in it.
    pub facts: Facts,
    /// What is desired.
    pub desired: Desired,
    /// What is observed.
    pub observed: Observed,
    /// A step for every release.
    pub plan: plan::Plan,
    /// Everything that would be done now.
    pub actions: Vec<Planned>,
    /// The values in the newest record of each release that is not up to date, or why they can't be read.
    pub recorded: BTreeMap<String, Result<Values, String>>,
    /// What templates saw and would see of releases whose newest revision others made.
    pub compared: BTreeMap<String, Comparison>,
    /// Where the values of each release are what Ceph says, and which object does.
    pub ceph: BTreeMap<String, (BTreeSet<Path>, String)>,
    /// What is wrong with the spec, or should be known.
    pub findings: Vec<Finding>,
    /// The nodes whose labels would change.
    pub nodes: BTreeMap<String, LabelChange>,
    /// What upgrades of the data plane restart, by release.
    pub restarts: BTreeMap<String, String>,
    /// Whether the spec is refused.
    pub refused: bool,
    /// Whether [`plan::Plan::hash`] is the one that the operator would come to.
    pub exact: bool,
    /// What could not be found out, one line each.
    pub unknown: Vec<String>,
    /// What of that concerns the cluster.
    pub unseen: Vec<String>,
    /// The operator's own watches, which go on.
    pub tasks: Tasks,
    /// Knows every secret at hand.
    pub scrubber: Scrubber,
}

/// Plans for `deployment` (as it is in the cluster, or as it would be after a change) by `catalog`; `charts` are read where given, else the status is
/// believed.
///
/// # Errors
/// When the API server does not answer, or refuses reads that a plan can't be made without: each is named.
pub async fn preview(
    client: &Client,
    catalog: &Arc<Catalog>,
    deployment: &OpenStackDeployment,
    live: Option<&OpenStackDeployment>,
    charts: Option<&ChartSource>,
) -> Result<Preview, Error> {
    let namespaces = namespaces(deployment, &selection(deployment, &deployment.spec, catalog));
    let mut unseen = Vec::new();
    let tasks = observe(client, &namespaces, &mut unseen).await?;
    let mut unknown = unseen.clone();
    let ending = terminating(client, &namespaces, &mut unknown).await;
    let poke = Arc::new(Notify::new());
    let inputs = Inputs::new(client.clone(), Arc::clone(&poke));
    let reader = Beside {
        reader: Reader::new(client.clone()),
        tasks: &tasks,
        inputs,
        poke,
        deployment: deployment.clone(),
        catalog: Arc::clone(catalog),
        stored: BTreeMap::new(),
        answers: Answers::new(),
        ending,
    };
    let assumptions = Assumptions { live, catalog, charts };
    let (snapshot, mut plan, actions) = Box::pin(reader.planned(&assumptions, &mut unknown)).await?;
    let restarts = &deployment.spec.nodes.rollout;
    let restarts = rollout::ahead(&plan.desired, &plan.observed, catalog, &plan.releases, restarts);
    let facts = std::mem::take(&mut plan.facts);
    let (spec, selection) = (plan.spec.take().unwrap_or_default(), plan.selection.take());
    let selection = selection.unwrap_or_else(|| osdpl_decide::selection(deployment, &deployment.spec, catalog));
    // Nothing else holds the desired state once the memory is dropped.
    plan.kept = osdpl_decide::Kept::default();
    let owned = |values: Result<Arc<Values>, String>| values.map(|values| (*values).clone());
    let guessed = snapshot.assumed.as_ref().is_some_and(|assumed| !assumed.guessed.is_empty());
    let nodes = labels(&actions, &snapshot, &plan);
    drop(snapshot);
    Ok(Preview {
        ceph: of_ceph(catalog, &selection, &facts),
        scrubber: Scrubber::new(secrets(&facts)),
        restarts,
        nodes,
        exact: !guessed,
        spec,
        selection,
        facts,
        desired: Arc::into_inner(plan.desired).unwrap_or_default(),
        observed: plan.observed,
        plan: plan.releases,
        actions,
        recorded: plan.recorded.into_iter().map(|(name, values)| (name, owned(values))).collect(),
        compared: plan.compared,
        findings: plan.findings,
        refused: plan.refused,
        unknown,
        unseen,
        tasks,
    })
}

/// Reads with the rights of the user, beside the operator.
struct Beside<'a> {
    reader: Reader,
    tasks: &'a Tasks,
    inputs: Inputs,
    poke: Arc<Notify>,
    deployment: OpenStackDeployment,
    catalog: Arc<Catalog>,
    /// Our Secrets as they would be once credentials are generated.
    stored: BTreeMap<ReleaseKey, Arc<Secret>>,
    answers: Answers,
    /// The namespaces that are being deleted.
    ending: BTreeSet<String>,
}

impl Beside<'_> {
    /// Repeats read and decide until nothing is requested any more; returns the last snapshot, its plan, and all actions.
    async fn planned(
        mut self,
        assumptions: &Assumptions<'_>,
        unknown: &mut Vec<String>,
    ) -> Result<(Snapshot, Plan, Vec<Planned>), Error> {
        let mut before = Vec::new();
        let mut assumed = None;
        loop {
            let mut snapshot = self.snapshot();
            if assumed.is_none() {
                assumed = Some(assumptions.of(&snapshot, unknown).await);
            }
            assumptions.adopt(&mut snapshot);
            let (major, rest) = assumed.clone().unwrap_or_default();
            snapshot.helm.major = major;
            snapshot.assumed = Some(rest);
            let mut plan = decide(&snapshot);
            self.inputs.subscribe(&plan.requests);
            match plan.hold {
                Some(Hold::Objects) => self.poke.notified().await,
                Some(Hold::Reads) => self.answer(&plan.requests.reads, unknown).await?,
                // What these actions make is needed to decide the rest: it is simulated.
                Some(Hold::Actions) => {
                    plan.actions.iter().for_each(|planned| self.simulate(planned));
                    before.append(&mut plan.actions);
                }
                Some(Hold::Watch) if plan.selection.is_none() => {
                    self.deployment.finalizers_mut().push(FINALIZER.to_owned());
                    before.append(&mut plan.actions);
                }
                Some(Hold::Charts | Hold::Watch) | None => {
                    before.append(&mut plan.actions);
                    return Ok((snapshot, plan, before));
                }
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        let surroundings = Surroundings {
            deployment: self.deployment.clone(),
            catalog: Arc::clone(&self.catalog),
            catalog_findings: Vec::new(),
            problems: Vec::new(),
        };
        let mut snapshot = snapshot(surroundings, &self.tasks.observe(), &self.inputs, super::now());
        snapshot.helm = Helm { free_slots: usize::MAX, cores: usize::MAX, ..Helm::default() };
        snapshot.observed.terminating.clone_from(&self.ending);
        snapshot.answers = self.answers.clone();
        snapshot.objects.secrets.extend(self.stored.clone());
        snapshot
    }

    /// Answers reads with the rights of the user. Lists that may be refused, and that a plan can do without, are reported as unknown.
    async fn answer(&mut self, reads: &BTreeSet<Read>, unknown: &mut Vec<String>) -> Result<(), Error> {
        let name = self.deployment.name_any();
        for read in reads {
            let one = [read.clone()].into();
            let mut answers = Answers::new();
            if self.answers.contains_key(read) {
                continue;
            }
            // Only the operator is in the cluster's network.
            if let Read::Addresses(host, _) = read
                && host.parse::<std::net::IpAddr>().is_err()
            {
                let answer = Answer::Addresses(Err(format!("{host} is looked up by the operator")));
                self.answers.insert(read.clone(), Answered { answer, at: super::now(), fresh: true });
                continue;
            }
            if let Err(error) = answer(&self.reader, &one, &mut answers, &name, super::now()).await {
                let (answer, what) = match read {
                    Read::OwnServices | Read::OwnStores | Read::Jobs(_) | Read::Claims(_) => {
                        (Answer::Objects(Vec::new()), "what would be deleted")
                    }
                    Read::Stored(reference) if !reference.name.starts_with(&format!("{name}-credentials-")) => (
                        Answer::Stored(osdpl_decide::Stored::Nothing),
                        "whether what the charts mount of Ceph can be written",
                    ),
                    _ => return Err(plain(error)),
                };
                unknown.push(format!("{what}: {}", plain(error)));
                answers.insert(read.clone(), Answered { answer, at: super::now(), fresh: true });
            }
            if let Some(Answered { answer: Answer::Networks(Err(error)), .. }) = answers.get(read) {
                unknown.push(format!("whether networks overlap those of Services: {error}"));
            }
            self.answers.extend(answers);
        }
        Ok(())
    }

    /// Takes an action for done.
    fn simulate(&mut self, planned: &Planned) {
        let Action::StoreCredentials(write) = &planned.action else { return };
        let mut secret = write.secret.clone();
        secret.metadata.resource_version.get_or_insert_default();
        for (key, recipe) in &write.generated {
            let mut seed = 0_u8;
            let random = |buffer: &mut [u8]| {
                for byte in buffer {
                    seed = seed.wrapping_mul(73).wrapping_add(41);
                    *byte = seed;
                }
                Ok::<_, std::convert::Infallible>(())
            };
            let Ok(value) = osdpl_core::credentials::generate_credential(recipe, random);
            let bytes = k8s_openapi::ByteString(value.into_bytes());
            secret.data.get_or_insert_default().insert(key.clone(), bytes);
        }
        self.stored.insert(ReleaseKey::new(write.namespace(), write.name()), Arc::new(secret));
    }
}

/// Without the remedy that is meant for the operator.
fn plain(error: Error) -> Error {
    match error {
        Error::Api { what, error } => Error::Object(format!("{what}: {}", rights::said(&error))),
        Error::Object(text) => Error::Object(text),
    }
}

/// The labels of nodes that would change: now, or at the end of a deletion.
fn labels(actions: &[Planned], snapshot: &Snapshot, plan: &Plan) -> BTreeMap<String, LabelChange> {
    let deployment = &snapshot.deployment;
    let is_detached = deployment.spec.deletion_policy == Some(DeletionPolicy::Detach);
    if plan.deleting.is_some() && !is_detached && !osdpl_decide::keeps_labels(snapshot, plan) {
        return snapshot.nodes.as_deref().map(nodes::labels_to_remove).unwrap_or_default();
    }
    let labels = actions.iter().filter_map(|planned| match &planned.action {
        Action::LabelNode { name, change } if !plan.refused => Some((name.clone(), change.clone())),
        _ => None,
    });
    labels.collect()
}

/// Where the values of each release are what Ceph says, and which object does.
fn of_ceph(catalog: &Catalog, selection: &Selection, facts: &Facts) -> BTreeMap<String, (BTreeSet<Path>, String)> {
    let known = facts.ceph.as_ref().and_then(|declared| declared.settings.as_ref().ok());
    let releases = known.into_iter().flat_map(|known| selection.releases.keys().map(move |name| (name, known)));
    releases.map(|(name, known)| (name.clone(), (catalog.ceph_paths(name), known.source()))).collect()
}

/// The namespaces of the resource's releases: those that are wanted, and those that the status has or the spec names. Where the catalogue would put
/// others does not matter.
fn namespaces(deployment: &OpenStackDeployment, selection: &Selection) -> BTreeSet<String> {
    let children = deployment.status.iter().flat_map(|status| status.children.keys());
    let children: BTreeSet<&String> = children.collect();
    let named = deployment.spec.services.values().flat_map(|service| service.releases.keys());
    let named: BTreeSet<&String> = named.collect();
    let known = known_releases(selection)
        .into_iter()
        .filter(|(_, name)| selection.releases.contains_key(name) || named.contains(name) || children.contains(name));
    known
        .map(|(key, _)| key.namespace)
        .filter(|namespace| !namespace.is_empty())
        .chain(deployment.namespace())
        .collect()
}
