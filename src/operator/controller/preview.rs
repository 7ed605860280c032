//! What the operator would do with a resource now, found out beside it by the same pipe: gather → select → resolve → plan, and no step
//! is taken. Nothing is written, no helm runs.
//!
//! The charts themselves are not needed: the operator's status says which digest each has. Where it does not, a release whose recorded
//! values are the wanted ones is taken to be up to date, and what stays unknown is said.

mod alike;
mod assume;
mod facts;
mod leaving;
mod observe;
mod rights;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::{Client, ResourceExt};

use super::ChartSource;
use super::gather::{frozen, known, meant, policy, selection};
use super::secrets::secrets;
use crate::cluster::{Cluster, Error};
use crate::tasks::Tasks;
use facts::Found;
use leaving::{is_leaving, is_let_go, survey};
use observe::{observe, running, terminating};
use osdpl_core::adopt::Comparison;
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::{self, Desired, Facts, Finding, Selection};
use osdpl_core::nodes::LabelChange;
use osdpl_core::observed::{DaemonSetGroup, Observed};
use osdpl_core::plan::{Plan, plan};
use osdpl_core::rollout;
use osdpl_core::scrub::Scrubber;
use osdpl_lint::rule;
use osdpl_values::{Path, Values};

/// What would be done, and what it follows from.
pub struct Preview {
    /// What the spec means, by the releases that are there.
    pub spec: OpenStackDeploymentSpec,
    /// What that selects.
    pub selection: Selection,
    /// What it needs from outside; with credentials in it.
    pub facts: Facts,
    /// What is wanted.
    pub desired: Desired,
    /// What is.
    pub observed: Observed,
    /// A step for every release.
    pub plan: Plan,
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
    /// Whether [`Plan::hash`] is the one that the operator would come to.
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

/// Plans for `deployment` (as it stands in the cluster, or as it would after a change) by `catalog`; `charts` are asked where given, else
/// what the status says of them is believed.
///
/// # Errors
/// When the API server does not answer, or refuses reads that a plan can't do without: each is named.
pub async fn preview(
    client: &Client,
    catalog: &Catalog,
    deployment: &OpenStackDeployment,
    live: Option<&OpenStackDeployment>,
    charts: Option<&ChartSource>,
) -> Result<Preview, Error> {
    let first = selection(deployment, &deployment.spec, catalog);
    let namespaces = namespaces(deployment, &first);
    let mut unseen = Vec::new();
    let (mut observed, tasks) = observe(client, catalog, &namespaces, &first, &mut unseen).await?;
    let mut unknown = unseen.clone();
    let seen = tasks.observe();
    let anchored = desired::reject_moves(&first, &deployment.spec, catalog, &observed);
    let (spec, selection) = meant(deployment, anchored.as_ref(), first, catalog);
    take_for_true(&mut observed, catalog, live, &selection);
    observed.terminating = terminating(client, &namespaces, &mut unknown).await;
    let cluster = Cluster::reader(client.clone());
    let claims = seen.volume_claims();
    let question = facts::Question { spec, live, catalog, selection: &selection, observed: &observed, claims };
    let found = question.found(deployment, (&cluster, &seen, anchored.as_ref()), charts, &mut unknown).await?;
    let Found { facts, guessed, findings } = found;
    let mut desired = wanted(deployment, spec, catalog, &selection, &facts);
    let recorded = assume::settled(&cluster, &mut desired, &observed, &guessed, charts.is_some()).await?;
    observed.rolling_batches = renewed(live, &desired);
    let compared = alike::compare(&cluster, &desired, &mut observed).await?;
    let (plan, refused) = chosen(deployment, (&desired, &selection), &observed, catalog);
    let survey = survey(deployment, spec, catalog, &seen);
    Ok(Preview {
        findings: desired.findings.iter().cloned().chain(survey.findings).chain(findings).collect(),
        ceph: of_ceph(catalog, &selection, &facts),
        scrubber: Scrubber::new(secrets(&facts)),
        restarts: rollout::ahead(&desired, &observed, catalog, &plan, &spec.nodes.rollout),
        nodes: if refused || spec.paused { BTreeMap::new() } else { survey.changes },
        exact: guessed.is_empty(),
        spec: spec.clone(),
        selection,
        facts,
        desired,
        observed,
        plan,
        recorded,
        compared,
        refused,
        unknown,
        unseen,
        tasks,
    })
}

/// What is planned for a resource that is let go, refused, or neither; and whether it is refused.
fn chosen(
    deployment: &OpenStackDeployment,
    (desired, selection): (&Desired, &Selection),
    observed: &Observed,
    catalog: &Catalog,
) -> (Plan, bool) {
    let refused = desired.findings.iter().any(|finding| finding.level == Level::Error);
    let plan = match refused {
        _ if is_let_go(deployment) => leaving::plan(observed, selection),
        true => frozen(desired, observed),
        false => plan(desired, observed, catalog, &policy(deployment), super::now()),
    };
    (plan, refused)
}

/// Takes for true what no watch tells and the status does, or what only the operator asks.
fn take_for_true(
    observed: &mut Observed,
    catalog: &Catalog,
    live: Option<&OpenStackDeployment>,
    selection: &Selection,
) {
    running(observed, live, selection);
    observed.endpoints = Arc::new(assume::answered(catalog, live, &selection.releases));
    observed.external_ready = selection.external.keys().cloned().collect();
}

/// What is wanted: nothing of one that is being deleted.
fn wanted(
    deployment: &OpenStackDeployment,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
    facts: &Facts,
) -> Desired {
    if is_leaving(deployment) {
        return Desired { findings: selection.findings.clone(), ..Desired::default() };
    }
    rule::resolve(spec, catalog, selection, facts)
}

/// What a rollout that the status tells of leaves missing for now.
fn renewed(live: Option<&OpenStackDeployment>, desired: &Desired) -> BTreeMap<DaemonSetGroup, i32> {
    let status = live.and_then(|live| live.status.as_ref());
    status.map(|status| rollout::rolling_batches(&status.rollouts, desired)).unwrap_or_default()
}

/// Where the values of each release are what Ceph says, and which object does.
fn of_ceph(catalog: &Catalog, selection: &Selection, facts: &Facts) -> BTreeMap<String, (BTreeSet<Path>, String)> {
    let known = facts.ceph.as_ref().and_then(|declared| declared.settings.as_ref().ok());
    let releases = known.into_iter().flat_map(|known| selection.releases.keys().map(move |name| (name, known)));
    releases.map(|(name, known)| (name.clone(), (catalog.ceph_paths(name), known.source()))).collect()
}

/// Where the resource's releases are: those that are wanted, and those that the status has or the spec speaks of. Where the catalogue would
/// put others is nobody's business.
fn namespaces(deployment: &OpenStackDeployment, selection: &Selection) -> BTreeSet<String> {
    let children = deployment.status.iter().flat_map(|status| status.children.keys());
    let children: BTreeSet<&String> = children.collect();
    let spoken = deployment.spec.services.values().flat_map(|service| service.releases.keys());
    let spoken: BTreeSet<&String> = spoken.collect();
    let known = known(selection)
        .into_iter()
        .filter(|(_, name)| selection.releases.contains_key(name) || spoken.contains(name) || children.contains(name));
    known
        .map(|(key, _)| key.namespace)
        .filter(|namespace| !namespace.is_empty())
        .chain(deployment.namespace())
        .collect()
}
