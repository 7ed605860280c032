//! The decision: from a [`Snapshot`] of the cluster to a [`Plan`] of everything that osdpl does.
//!
//! [`decide`] is a pure function: no client, no async runtime, no clock. The time, and what Nova said, are part of the snapshot. A password that
//! exists nowhere yet is drawn when the plan is applied; the plan says "generated". Nothing changes a plan after it was decided.
//!
//! ```text
//! read(requests of the last plan) ─► Snapshot ─► decide ─► Plan ─► apply(actions) ─► Outcome ─► report ─► status, events
//!          ▲                                                │
//!          └──────────── requests, kept ────────────────────┘
//! ```
//!
//! A plan *requests* what is missing: an object that the spec names, a chart, a record. The next snapshot has it. There are no loops within a pass.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start programs, read files and look at the clock"))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod action;
mod annotations;
mod assume;
mod ceph;
mod certificates;
mod changes;
mod charts;
mod comparison;
mod credentials;
mod draft;
mod external;
mod hosts;
mod kept;
mod leaving;
mod leftovers;
mod named;
mod nodes;
mod pending;
mod precedence;
mod releases;
mod requests;
mod rollouts;
mod site;
mod snapshot;
mod spec;
mod steady;
mod store;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;

pub use action::{Action, Approval, Kind, Planned, SecretWrite};
pub use ceph::{CLUSTER, COMPONENT, STORE};
pub use charts::{Known as KnownCharts, known as known_charts, retry as retry_chart, wanted as wanted_chart};
pub use credentials::MANAGER;
pub use draft::{AGAIN, Hold, Plan};
pub use external::HOST;
pub use kept::{Changes, Kept, Lookup, Refusal, Resolved};
pub use leaving::{is_finalized, keeps_labels};
pub use precedence::older;
pub use releases::RENDERING;
pub use requests::{
    Answer, Answered, Answers, ChartRequest, FRESH, Published, Read, Recorded, Reference, Requests, Stored, Watches,
};
pub use rollouts::held as eviction_held;
pub use site::site;
pub use snapshot::{Assumed, ChartState, Charts, Data, Helm, ObjectState, Objects, Snapshot};
pub use spec::{known as known_releases, selection};

use assume::RecordedValues;
use draft::Draft;
use osdpl_core::adopt::Comparison;
use osdpl_core::api::{DriftPolicy, FINALIZER, OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::{Desired, Facts, Selection};
use osdpl_core::endpoint;
use osdpl_core::maintenance::setting;
use osdpl_core::observed::{Observed, ObservedRelease, ReleaseKey};
use osdpl_core::openstack::{access, has_nova};
use osdpl_core::plan::{self, Step, Wait};
use osdpl_core::rollout::{self, NextRollouts};
use osdpl_lint::rule;
use spec::{anchored, frozen, is_fetching, known, policy};

/// How long a refusal is remembered after it could be tried again.
const FORGOTTEN: k8s_openapi::jiff::SignedDuration = k8s_openapi::jiff::SignedDuration::from_mins(5);

/// Decides what is done now.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let mut draft = Draft::new(snapshot);
    draft.kept.refused.retain(|_, refusal| snapshot.now.duration_since(refusal.until) < FORGOTTEN);
    let deployment = &snapshot.deployment;
    let deleting = deployment.metadata.deletion_timestamp.is_some();
    if deleting {
        return leaving::decide(draft);
    }
    if !deployment.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
        draft.actions.push(Planned::new(Action::AddFinalizer, "its deletion has to clean up"));
        return draft.held(Hold::Watch);
    }
    cloud(draft)
}

/// Decides for a resource while an older one takes precedence: there is one cloud per cluster.
pub fn yields(deployment: &OpenStackDeployment, older: String) -> Plan {
    let mut actions = Vec::new();
    let deleting = deployment.metadata.deletion_timestamp.is_some();
    if deleting && !is_finalized(deployment) {
        actions.push(Planned::new(Action::RemoveFinalizer, format!("{older} takes precedence")));
    }
    Plan { actions, older: Some(older), hold: deleting.then_some(Hold::Watch), ..Plan::default() }
}

/// What a snapshot's spec selects, with the spec corrected by the releases that exist.
pub fn target(snapshot: &Snapshot) -> (OpenStackDeploymentSpec, Selection, Observed) {
    let (deployment, catalog) = (&snapshot.deployment, &*snapshot.catalog);
    let first = selection(deployment, &deployment.spec, catalog);
    let observed = identified(snapshot, &known(&first));
    let anchor = osdpl_core::desired::reject_moves(&first, &deployment.spec, catalog, &observed);
    let (spec, selection) = anchored(deployment, anchor.as_ref(), first, catalog);
    (spec.clone(), selection, observed)
}

/// The observed state with the releases' names in the catalogue, and the causes of what is not ready.
fn identified(snapshot: &Snapshot, names: &BTreeMap<ReleaseKey, String>) -> Observed {
    let mut observed = snapshot.observed.clone();
    for (key, release) in &mut observed.releases {
        release.release = osdpl_core::desired::identify_release(key, release, names, &snapshot.catalog);
    }
    // Releases of others are no causes of this cloud, not even as affected objects.
    let own =
        |key: &ReleaseKey| names.contains_key(key) || observed.releases.get(key).is_some_and(ObservedRelease::is_ours);
    let victims = snapshot.victims.iter().filter(|victim| own(&victim.release));
    observed.causes = osdpl_core::cause::group_by_root_cause(victims);
    observed.causes.extend(endpoint::causes(&observed.endpoints));
    observed
}

/// Decides for a cloud that is not being deleted.
fn cloud(mut draft: Draft<'_>) -> Plan {
    let snapshot = draft.snapshot;
    let (deployment, catalog) = (&snapshot.deployment, &*snapshot.catalog);
    let first = selection(deployment, &deployment.spec, catalog);
    draft.requests.objects = named::references(&deployment.spec, catalog, &first);
    draft.requests.rook = ceph::watched(&deployment.spec);
    if is_reading(&draft) {
        return draft.held(Hold::Objects);
    }
    let names = known(&first);
    let mut observed = identified(snapshot, &names);
    let anchor = osdpl_core::desired::reject_moves(&first, &deployment.spec, catalog, &observed);
    let (spec, selection) = anchored(deployment, anchor.as_ref(), first, catalog);
    let survey =
        snapshot.nodes.as_deref().map(|all| osdpl_core::nodes::build_inventory(spec, catalog, all)).unwrap_or_default();
    let mut facts = Facts { helm_major: snapshot.helm.major, ..Facts::default() };
    let (mut assumed, mut generated) = (pending::Pending::new(), false);
    if !selection.is_refused() {
        facts.site = site::decided(&mut draft, (spec, catalog), &survey.changes);
        (assumed, generated) = learn(&mut draft, (spec, &selection), &mut observed, &mut facts);
    }
    facts.refused = anchor.as_ref().map(|anchored| anchored.refused.clone()).unwrap_or_default();
    if draft.is_unanswered() {
        return draft.held(Hold::Reads);
    }
    if generated {
        draft.actions.retain(|planned| matches!(planned.action, Action::StoreCredentials(_)));
        let spec = Some(spec.clone());
        return Plan { facts, spec, selection: Some(selection), ..draft.held(Hold::Actions) };
    }
    if !selection.is_refused() {
        let refused = nodes::label(&mut draft, &survey.changes, "the spec gives it these roles");
        draft.problems.extend(refused);
    }
    let (resolved, recorded) = resolved(&mut draft, (spec, catalog), &selection, (facts, &observed));
    if draft.is_unanswered() {
        return draft.held(Hold::Reads);
    }
    let Decided { observed, findings, policy, refused, table, rolled, changes, compared } =
        decided(&mut draft, (spec, &selection), &resolved, observed, (&names, survey.findings, &assumed));
    if draft.is_unanswered() {
        return draft.held(Hold::Reads);
    }
    let desired = &resolved.desired;
    let fetching = is_fetching(desired);
    let withheld =
        pending::is_withheld(deployment, (fetching, !assumed.is_empty(), refused), &table) && snapshot.helm.idle;
    draft.wake(table.requeue_at);
    Plan {
        requests: draft.requests,
        actions: draft.actions,
        releases: table,
        spec: Some(spec.clone()),
        facts: resolved.facts.clone(),
        desired: Arc::clone(desired),
        observed,
        names,
        findings,
        problems: draft.problems,
        ceph: resolved.facts.ceph.clone(),
        roles: survey.roles,
        rollouts: rolled.rollouts,
        changes,
        compared,
        recorded,
        refused,
        repairs: policy.repair,
        assumed: !assumed.is_empty(),
        hold: withheld.then_some(Hold::Charts),
        wake: draft.wake,
        kept: draft.kept,
        selection: Some(selection),
        ..Plan::default()
    }
}

/// Whether a watched object that is requested was neither read nor refused yet.
fn is_reading(draft: &Draft<'_>) -> bool {
    let objects = &draft.snapshot.objects;
    let is_unread = |reference| matches!(objects.named.get(reference), None | Some(ObjectState::Unread));
    let kinds = draft.requests.rook.iter().flat_map(|(_, kinds)| kinds);
    !objects.own_listed
        || draft.requests.objects.iter().any(is_unread)
        || kinds.into_iter().any(|kind| !objects.rook.contains_key(kind))
}

/// Takes the facts out of the snapshot, and plans the objects that releases need; returns the charts for which the status stands in, and whether
/// credentials have to be generated first.
fn learn(
    draft: &mut Draft<'_>,
    (spec, selection): (&OpenStackDeploymentSpec, &Selection),
    observed: &mut Observed,
    facts: &mut Facts,
) -> (pending::Pending, bool) {
    let snapshot = draft.snapshot;
    let catalog = &*snapshot.catalog;
    let found = credentials::credentials(draft, credentials::Needed { spec, catalog, selection, observed: &*observed });
    facts.credentials = found.known;
    facts.missing = found.missing;
    facts.values_from = named::values_from(&snapshot.objects, spec, &selection.namespace);
    facts.secrets = named::feature_secrets(&snapshot.objects, selection);
    facts.written = named::written(&snapshot.objects, catalog, selection);
    facts.charts = charts::facts(draft, (spec, catalog), selection);
    let assumed = pending::remembered(&snapshot.deployment, catalog, &mut facts.charts);
    facts.claim_classes = osdpl_core::desired::collect_claim_classes(&snapshot.claims, &selection.releases);
    observed.external_ready = external::external(draft, catalog, &selection.external, observed);
    facts.ceph = ceph::declared(&snapshot.objects, spec, selection);
    if let Some(mut declared) = facts.ceph.take() {
        ceph::hand_on(draft, &mut declared, selection, facts);
        facts.ceph = Some(declared);
    }
    (assumed, found.generated)
}

/// The desired state; equal inputs give an equal one, which is not computed again.
fn resolved(
    draft: &mut Draft<'_>,
    (spec, catalog): (&OpenStackDeploymentSpec, &Catalog),
    selection: &Selection,
    (facts, observed): (Facts, &Observed),
) -> (Arc<Resolved>, RecordedValues) {
    let same = |known: &&Arc<Resolved>| {
        known.spec == *spec
            && Arc::ptr_eq(&known.catalog, &draft.snapshot.catalog)
            && known.facts == facts
            && known.desired.findings.starts_with(&selection.findings)
    };
    if let Some(known) = draft.kept.resolved.as_ref().filter(same) {
        return (Arc::clone(known), BTreeMap::new());
    }
    let mut desired = rule::resolve(spec, catalog, selection, &facts);
    let assumed = draft.snapshot.assumed.as_ref();
    let recorded = assumed.map(|assumed| assume::adjust(draft, assumed, &mut desired, observed)).unwrap_or_default();
    let desired = Arc::new(desired);
    let catalog = Arc::clone(&draft.snapshot.catalog);
    let resolved = Arc::new(Resolved { spec: spec.clone(), catalog, facts, desired });
    draft.kept.resolved = Some(Arc::clone(&resolved));
    (resolved, recorded)
}

/// What is decided from the desired state.
struct Decided {
    observed: Observed,
    findings: Vec<osdpl_core::desired::Finding>,
    policy: plan::Policy,
    refused: bool,
    table: plan::Plan,
    rolled: NextRollouts,
    changes: BTreeMap<String, Vec<String>>,
    compared: BTreeMap<String, Comparison>,
}

/// Decides about releases, rollouts, hosts and annotations.
fn decided(
    draft: &mut Draft<'_>,
    (spec, selection): (&OpenStackDeploymentSpec, &Selection),
    resolved: &Resolved,
    mut observed: Observed,
    (names, survey, assumed): (&BTreeMap<ReleaseKey, String>, Vec<osdpl_core::desired::Finding>, &pending::Pending),
) -> Decided {
    let snapshot = draft.snapshot;
    let (deployment, catalog, desired) = (&snapshot.deployment, &*snapshot.catalog, &*resolved.desired);
    let asked = policy(deployment);
    let mut compared = BTreeMap::new();
    if !selection.is_refused() {
        compared = comparison::compare_all(draft, (desired, &observed), &asked, snapshot.assumed.is_none());
        observed.comparisons.clone_from(&draft.kept.comparisons);
        ceph::withdraw(draft, resolved.facts.ceph.as_ref(), selection, (desired, &observed));
    }
    observed.rolling_batches = rollout::rolling_batches(&rollouts::last(draft), desired);
    let mut findings = desired.findings.clone();
    findings.extend(survey);
    findings.append(&mut draft.findings);
    findings.extend(snapshot.catalog_findings.iter().cloned());
    findings.extend(warnings(draft, selection, (names, &observed), &asked));
    let refused = selection.is_refused() || findings.iter().any(|finding| finding.level == Level::Error);
    let policy = annotations::pending(&mut draft.kept, asked);
    hosts::hosts(draft, hosts::Scene { catalog, desired, observed: &observed, policy: &policy, refused });
    releases::delete_jobs(draft, &snapshot.uninstalled);
    let mut table;
    let mut rolled = NextRollouts { rollouts: rollouts::last(draft), ..NextRollouts::default() };
    let mut changes = BTreeMap::new();
    if refused {
        table = frozen(desired, &observed);
        // A spec that is refused stops what it planned for the charts: nothing is written for it.
        draft.actions.retain(|planned| !matches!(planned.action, Action::Release { .. }));
    } else {
        watch(draft, (desired, &observed), catalog);
        draft.requests.setting = Some(setting(spec, catalog, access(catalog, desired), has_nova(catalog, desired)));
        table = plan::plan(desired, &observed, catalog, &policy, snapshot.now);
        pending::hold(&mut table, assumed);
        rollouts::guard(draft, (desired, &observed), catalog, &table);
        releases::act(draft, &mut table, (desired, &observed));
        rolled = rollouts::roll(draft, (desired, &observed), catalog, (&table, &policy));
        if let Some(watches) = &mut draft.requests.watches {
            watches.daemons.clone_from(&rolled.watch);
        }
        if !is_fetching(desired) && assumed.is_empty() {
            annotations::consume(draft, (desired, &observed), &table, &policy, &rolled);
        }
        changes = changes::changes(draft, &table, (desired, &observed));
    }
    findings.append(&mut draft.findings);
    Decided { observed, findings, policy, refused, table, rolled, changes, compared }
}

/// Warnings beside those of the spec.
fn warnings(
    draft: &mut Draft<'_>,
    selection: &Selection,
    (names, observed): (&BTreeMap<ReleaseKey, String>, &Observed),
    policy: &plan::Policy,
) -> Vec<osdpl_core::desired::Finding> {
    let snapshot = draft.snapshot;
    let deployment = &snapshot.deployment;
    let mut findings = Vec::new();
    if let Some(deployed) = rule::previous_release(deployment) {
        let held = named::values_from(&snapshot.objects, &deployment.spec, &selection.namespace);
        let pinned = rule::pinned_in_values_from(deployed, &deployment.spec, &held);
        findings.extend(pinned.into_iter().map(osdpl_core::desired::Finding::from));
    }
    findings.extend(annotations::unknown_names(policy, names, observed));
    let mut certificates = (*draft.kept.certificates).clone();
    let (expired, again) = certificates.check(&snapshot.objects, selection, snapshot.now);
    draft.kept.certificates = Arc::new(certificates);
    draft.wake(again);
    findings.extend(expired);
    findings
}

/// Requests the watches of the tasks: drift, and the APIs of services.
fn watch(draft: &mut Draft<'_>, (desired, observed): (&Desired, &Observed), catalog: &Catalog) {
    let seen = desired.releases.values().filter(|release| release.managed && release.drift != DriftPolicy::Ignore);
    draft.requests.watches = Some(Watches {
        drift: seen.map(|release| release.key.clone()).collect(),
        endpoints: Some(endpoint::targets(catalog, desired, observed)),
        daemons: BTreeSet::new(),
    });
}

impl Plan {
    /// Whether a step of a release is to be started by this plan.
    pub fn starts(&self, name: &str) -> bool {
        self.actions.iter().any(|planned| {
            let own = matches!(&planned.action, Action::Release { name: own, .. } if own == name);
            own && planned.approval != Approval::Missing
        })
    }

    /// The releases as they are once these steps began: helm runs, or waits for its turn.
    pub fn begun(&self, begun: &BTreeMap<String, bool>) -> plan::Plan {
        let mut releases = self.releases.clone();
        for (name, began) in begun {
            let Some(decision) = releases.decisions.get_mut(name) else { continue };
            let verb = match &decision.step {
                Step::Do(plan::Action::Upgrade { .. }, _) => "upgrade",
                Step::Do(plan::Action::Uninstall { .. }, _) => "uninstall",
                _ => continue,
            };
            decision.step = Step::Wait(Wait::Helm { verb: verb.to_owned(), queued: !began, hook: None });
        }
        releases
    }
}
