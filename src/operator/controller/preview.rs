//! Makes the plan that the operator would make now, for `osdpl plan`: reads and decides like a pass, but applies
//! nothing.
//!
//! The command needs no charts, because the status of the resource contains their digests. If the status lacks the
//! digest of a release's chart, the preview compares only the values: the release counts as up to date if its record
//! contains the desired values. In this case, the preview reports that it did not compare the chart.

mod assume;
mod observe;
mod rights;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt};
use tokio::sync::Notify;

use super::read::{SnapshotInputs, execute_reads, snapshot};
use super::secrets::collect_secrets;
use super::{CatalogWithFindings, ChartSource};
use crate::cluster::{Error, Namespaces, ObjectWatches, Reader};
use crate::tasks::Tasks;
use assume::Assumptions;
use observe::{observe, read_namespaces, unread};
use osdpl_core::adopt::Comparison;
use osdpl_core::api::{FINALIZER, OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{Desired, Facts, Finding, Selection};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan;
use osdpl_core::rollout;
use osdpl_core::scrub::Scrubber;
use osdpl_decide::{
    Action, Helm, Hold, Plan, Planned, Read, Received, Response, Responses, Snapshot, decide, labels_after_deletion,
    release_names, selection,
};
use osdpl_values::{CollectSorted, Path, Values};

/// The plan that the operator would make now, and the data that it was made from.
pub struct Preview {
    /// The spec that the plan uses. osdpl refuses to rename an existing release or to move it to another namespace. If
    /// the user's spec does so, this spec contains the old name and namespace instead.
    pub spec: OpenStackDeploymentSpec,
    /// The releases that the spec selects.
    pub selection: Arc<Selection>,
    /// The facts that the values of the releases depend on. They contain credentials.
    pub facts: Facts,
    /// The desired state, as the plan has resolved it from the spec.
    pub desired: Desired,
    /// The observed state that the plan was made from: release records, workloads, Jobs and helm processes.
    pub observed: Observed,
    /// The plan's step for each release: run helm, wait, settle or nothing.
    pub plan: plan::Plan,
    /// All actions that the operator would execute: now, or after a person approves them. For a deletion, also the
    /// removals of node labels at its end.
    pub actions: Vec<Planned>,
    /// The values in the newest record of each release that is not up to date, or the reason why they can't be read.
    pub recorded: BTreeMap<String, Result<Values, String>>,
    /// For each release whose newest revision another tool made: the comparison of this revision's manifest with the
    /// manifest that osdpl would install.
    pub compared: BTreeMap<String, Comparison>,
    /// For each release, the paths of its values that describe Ceph, and the kind and name of the object from which
    /// osdpl takes Ceph's settings.
    pub ceph: BTreeMap<String, (BTreeSet<Path>, String)>,
    /// The findings about the spec.
    pub findings: Vec<Finding>,
    /// For each release, a text that says which data plane pods an upgrade could restart.
    pub restarts: BTreeMap<String, String>,
    /// Whether osdpl refuses the spec because of an error.
    pub refused: bool,
    /// Whether [`plan::Plan::hash`] equals the target hash that the operator computes. The hashes may differ if the
    /// preview lacks data.
    pub exact: bool,
    /// The facts that the preview could not determine, one line each.
    pub unknown: Vec<String>,
    /// The facts in `unknown` that come from objects which the operator watches, but the user has no right to read.
    pub unwatched: Vec<String>,
    /// The tasks that watch the cluster. The tasks run until this value is dropped.
    pub tasks: Tasks,
    /// The scrubber, which removes the secrets in `facts` from texts before osdpl shows them.
    pub scrubber: Scrubber,
}

/// Returns the plan for `deployment`, which may be a changed version of the stored resource `live`.
///
/// Without `charts`, the plan uses the chart digests in the status. The function waits at most `limit` until the
/// watches have listed the objects that a plan requires.
///
/// # Errors
/// Returns an error if the API server cannot be reached, does not send all lists within `limit`, or refuses reads that
/// a plan requires. The message names each refused read.
pub async fn preview(
    client: &Client,
    catalog_with_findings: &CatalogWithFindings,
    deployment: &OpenStackDeployment,
    live: Option<&OpenStackDeployment>,
    charts: Option<&ChartSource>,
    limit: Duration,
) -> Result<Preview, Error> {
    let (catalog, _) = catalog_with_findings;
    let namespaces = namespaces(deployment, &selection(deployment, &deployment.spec, catalog));
    let mut unwatched = Vec::new();
    let tasks = observe(client, &namespaces, &mut unwatched, limit).await?;
    let mut unknown = unwatched.clone();
    let namespaces = read_namespaces(client, &namespaces, &mut unknown).await?;
    let planner = Planner::new(client, &tasks, deployment, catalog_with_findings, namespaces, limit);
    let assumptions = Assumptions { live, catalog, charts };
    let Planning { snapshot, mut plan, actions } = Box::pin(planner.plan(&assumptions, &mut unknown)).await?;
    let restarts = &deployment.spec.nodes.rollout;
    let restarts = rollout::preview_restarts(&plan.desired, &plan.observed, catalog, &plan.releases, restarts);
    let facts = std::mem::take(&mut plan.facts);
    let (spec, selection) = (plan.spec.take().unwrap_or_default(), plan.selection.take());
    let selection =
        selection.unwrap_or_else(|| Arc::new(osdpl_decide::selection(deployment, &deployment.spec, catalog)));
    // Drop `kept`, which contains a second reference to the desired state: `Arc::into_inner` below returns the desired
    // state only if there is no second reference.
    plan.kept = osdpl_decide::Kept::default();
    let owned = |values: Result<Arc<Values>, String>| values.map(|values| (*values).clone());
    let exact = is_exact(&snapshot, deployment);
    drop(snapshot);
    Ok(Preview {
        ceph: ceph_values(catalog, &selection, &facts),
        scrubber: Scrubber::new(collect_secrets(&facts)),
        restarts,
        exact,
        spec,
        selection,
        facts,
        desired: Arc::into_inner(plan.desired).unwrap_or_default(),
        observed: plan.observed,
        plan: plan.releases,
        actions,
        recorded: plan.recorded.into_iter().map(|(name, values)| (name, owned(values))).collect_map(),
        compared: plan.compared,
        findings: plan.findings,
        refused: plan.refused,
        unknown,
        unwatched,
        tasks,
    })
}

/// Whether the preview has all data on which the target hash depends, so that the operator computes the same hash.
fn is_exact(snapshot: &Snapshot, deployment: &OpenStackDeployment) -> bool {
    let has_guesses = snapshot.assumed.as_ref().is_some_and(|assumed| !assumed.guessed.is_empty());
    // The target hash depends on the labels that osdpl would remove from nodes. So if the spec or the status contains
    // roles of nodes, the hash is exact only if the snapshot contains the nodes.
    let had_roles = deployment.status.as_ref().is_some_and(|status| !status.roles.is_empty());
    let needs_nodes = had_roles || !deployment.spec.nodes.roles.is_empty();
    !has_guesses && (snapshot.nodes.is_some() || !needs_nodes)
}

/// Makes plans for `osdpl plan`, with the permissions of the user who runs the command.
struct Planner<'a> {
    reader: Reader,
    tasks: &'a Tasks,
    inputs: ObjectWatches,
    /// The trigger that the watches in `inputs` notify when an object changes.
    trigger: Arc<Notify>,
    deployment: OpenStackDeployment,
    catalog: Arc<Catalog>,
    /// The findings about the additions in `catalog`.
    catalog_findings: Vec<Finding>,
    /// The Secrets with credentials that the operator would store. They contain predictable values instead of random
    /// ones.
    simulated_secrets: BTreeMap<ReleaseKey, Arc<Secret>>,
    responses: Responses,
    /// The existing namespaces of the resource and its releases, and the namespaces that are being deleted.
    namespaces: Namespaces,
    /// The time for which the planner waits for objects that the plan requires. If no watch in `inputs` reports a
    /// change in this time, the planner returns an error.
    limit: Duration,
}

/// The result of repeating the steps read and decide, see [`Planner::plan`].
struct Planning {
    /// The last snapshot.
    snapshot: Snapshot,
    /// The plan that was made from the last snapshot.
    plan: Plan,
    /// The actions of all plans.
    actions: Vec<Planned>,
}

impl<'a> Planner<'a> {
    fn new(
        client: &Client,
        tasks: &'a Tasks,
        deployment: &OpenStackDeployment,
        (catalog, catalog_findings): &CatalogWithFindings,
        namespaces: Namespaces,
        limit: Duration,
    ) -> Self {
        let trigger = Arc::new(Notify::new());
        let reader = Reader::new(client.clone());
        Self {
            inputs: reader.watch_inputs(Arc::clone(&trigger)),
            reader,
            tasks,
            trigger,
            deployment: deployment.clone(),
            catalog: Arc::clone(catalog),
            catalog_findings: catalog_findings.clone(),
            simulated_secrets: BTreeMap::new(),
            responses: Responses::new(),
            namespaces,
            limit,
        }
    }

    /// Repeats the steps read and decide until the plan requests nothing more.
    ///
    /// The function does not execute the actions of earlier plans: the next snapshot simulates their effect.
    async fn plan(mut self, assumptions: &Assumptions<'_>, unknown: &mut Vec<String>) -> Result<Planning, Error> {
        let mut actions = Vec::new();
        let mut assumed = None;
        loop {
            let mut snapshot = self.snapshot();
            if assumed.is_none() {
                assumed = Some(assumptions.resolve(&snapshot, unknown).await);
            }
            assumptions.add_reported_state(&mut snapshot);
            snapshot.charts.crds = assumptions.crds();
            let (helm_major, charts) = assumed.clone().unwrap_or_default();
            snapshot.helm.major = helm_major;
            snapshot.assumed = Some(charts);
            let mut plan = decide(&snapshot);
            self.inputs.subscribe(&plan.requests);
            match plan.hold {
                Some(Hold::Objects) => {
                    let changed = tokio::time::timeout(self.limit, self.trigger.notified()).await;
                    changed.map_err(|_| unread(self.limit, &[]))?;
                }
                Some(Hold::Reads) => self.execute_reads(&plan.requests.reads, unknown).await?,
                // Before its next decision, the operator would execute these actions. Simulate them instead.
                Some(Hold::Actions) => {
                    plan.actions.iter().for_each(|planned| self.simulate(planned));
                    actions.append(&mut plan.actions);
                }
                Some(Hold::Watch) if plan.selection.is_none() => {
                    self.deployment.finalizers_mut().push(FINALIZER.to_owned());
                    actions.append(&mut plan.actions);
                }
                Some(Hold::Charts | Hold::Watch) | None => {
                    let later = labels_after_deletion(&snapshot, &plan);
                    actions.append(&mut plan.actions);
                    actions.extend(later);
                    return Ok(Planning { snapshot, plan, actions });
                }
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        let inputs = SnapshotInputs {
            deployment: self.deployment.clone(),
            catalog: Arc::clone(&self.catalog),
            catalog_findings: self.catalog_findings.clone(),
            problems: Vec::new(),
        };
        let mut snapshot = snapshot(inputs, &self.tasks.observe(), &self.inputs, super::now());
        snapshot.helm = Helm { free_slots: usize::MAX, cores: usize::MAX, ..Helm::default() };
        snapshot.objects.namespaces.clone_from(&self.namespaces.all);
        snapshot.observed.terminating.clone_from(&self.namespaces.terminating);
        snapshot.responses = self.responses.clone();
        snapshot.objects.secrets.extend(self.simulated_secrets.clone());
        snapshot
    }

    /// Executes the reads that a plan requests, with the permissions of the user.
    ///
    /// If the API server refuses a read that the plan does not require, this function adds the missing fact to
    /// `unknown`.
    async fn execute_reads(&mut self, reads: &BTreeSet<Read>, unknown: &mut Vec<String>) -> Result<(), Error> {
        let (owner, name) = (self.deployment.owner_label(), self.deployment.name_any());
        for read in reads {
            let one = [read.clone()].into();
            let mut responses = Responses::new();
            if self.responses.contains_key(read) {
                continue;
            }
            // Don't resolve the host on this machine: its name servers may answer differently from the name servers of
            // the operator.
            if let Read::Addresses(host, _) = read
                && host.parse::<std::net::IpAddr>().is_err()
            {
                let response = Response::Addresses(Err(format!(
                    "this command does not resolve {host}: the operator's name servers may return other addresses"
                )));
                self.responses.insert(read.clone(), Received { response, at: super::now(), fresh: true });
                continue;
            }
            // The operator stops slow reads, but the user of this command can wait for them or stop the command.
            let (now, limit) = (super::now(), Duration::MAX);
            if let Err(error) = execute_reads(&self.reader, &one, &mut responses, &owner, now, limit).await {
                if !error.is_refusal() {
                    return Err(error);
                }
                let (response, what) = match read {
                    Read::OwnServices | Read::OwnStores | Read::Jobs(_) | Read::Claims(_) => {
                        (Response::Objects(Vec::new()), "which objects osdpl would delete")
                    }
                    Read::Stored(reference) if !reference.name.starts_with(&format!("{name}-credentials-")) => (
                        Response::Stored(osdpl_decide::Stored::Nothing),
                        "what osdpl would do with the ConfigMap and the Secrets of Ceph that charts mount",
                    ),
                    _ => return Err(error),
                };
                unknown.push(format!("{what}: {error}"));
                responses.insert(read.clone(), Received { response, at: super::now(), fresh: true });
            }
            for received in responses.values_mut() {
                report_refusal(&mut received.response, unknown);
            }
            self.responses.extend(responses);
        }
        Ok(())
    }

    /// Simulates an action that stores credentials: adds the Secret, with predictable values, to the next snapshot.
    ///
    /// This function ignores all other actions.
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
        self.simulated_secrets.insert(ReleaseKey::new(write.namespace(), write.name()), Arc::new(secret));
    }
}

/// If the API server refused a read, adds the missing fact to `unknown`. If the read concerns CRDs or a cleanup, also
/// replaces the error with an empty response, so that the plan is made without the fact.
fn report_refusal(response: &mut Response, unknown: &mut Vec<String>) {
    let fact = match response {
        Response::Networks(Err(error)) => format!("whether the spec's networks overlap those of Services: {error}"),
        Response::Crd(Err(error)) => format!("whether the CRDs of charts are up to date: {error}"),
        Response::AbandonedCrds(Err(error)) => format!("whether uninstalls of releases left CRDs behind: {error}"),
        Response::Leftovers(Err(error)) => format!("which objects of failed revisions osdpl would delete: {error}"),
        _ => return,
    };
    match response {
        Response::Crd(known) => *known = Ok(None),
        Response::AbandonedCrds(known) => *known = Ok(Vec::new()),
        Response::Leftovers(known) => *known = Ok(Some(Vec::new())),
        _ => {}
    }
    if !unknown.contains(&fact) {
        unknown.push(fact);
    }
}

/// Returns for each release the paths of its values that describe Ceph, and the kind and name of the object from which
/// osdpl takes Ceph's settings.
fn ceph_values(catalog: &Catalog, selection: &Selection, facts: &Facts) -> BTreeMap<String, (BTreeSet<Path>, String)> {
    let known = facts.ceph.as_ref().and_then(|declared| declared.settings.as_ref().ok());
    let releases = known.into_iter().flat_map(|known| selection.releases.keys().map(move |name| (name, known)));
    releases.map(|(name, known)| (name.clone(), (catalog.ceph_paths(name), known.source()))).collect_map()
}

/// Returns the namespace of the resource, and the namespaces of all its releases: the releases that the spec selects,
/// and those that have an entry in `spec.services` or in the status.
fn namespaces(deployment: &OpenStackDeployment, selection: &Selection) -> BTreeSet<String> {
    let children = deployment.status.iter().flat_map(|status| status.children.keys());
    let children: BTreeSet<&String> = children.collect_set();
    let named = deployment.spec.services.values().flat_map(|service| service.releases.keys());
    let named: BTreeSet<&String> = named.collect_set();
    let known = release_names(selection)
        .into_iter()
        .filter(|(_, name)| selection.releases.contains_key(name) || named.contains(name) || children.contains(name));
    known
        .map(|(key, _)| key.namespace)
        .filter(|namespace| !namespace.is_empty())
        .chain(deployment.namespace())
        .collect_set()
}
