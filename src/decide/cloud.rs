//! Decides what a pass does for a cloud that is not being deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::action::Action;
use super::assumptions;
use super::charts::{self, Placeholders};
use super::credentials;
use super::draft::Draft;
use super::kept::Resolved;
use super::leftovers::leftovers;
use super::needed::Needed;
use super::objects::ObjectState;
use super::plan::{Hold, Plan, RecordedValues};
use super::requests::Watches;
use super::resource::{corrected, observe, policy, select};
use super::selection::release_names;
use super::{
    additions, annotations, ceph, changes, comparison, external, hosts, namespaces, nodes, ownership, releases,
    rollouts, spec_references,
};
use osdpl_core::api::{DriftPolicy, OpenStackDeploymentSpec};
use osdpl_core::catalog::Level;
use osdpl_core::desired::{self, Desired, Facts, Finding, Selection};
use osdpl_core::endpoint;
use osdpl_core::maintenance::setting;
use osdpl_core::nodes::{LabelChange, build_inventory};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::openstack::{access, has_nova};
use osdpl_core::plan::{self, Policy};
use osdpl_core::release::Status;
use osdpl_core::rollout;
use osdpl_lint::Input;
use osdpl_values::CollectSorted;

/// Returns the plan of a pass for a cloud that is not being deleted.
pub(crate) fn decide(mut draft: Draft<'_>) -> Plan {
    let snapshot = draft.snapshot;
    let (deployment, catalog) = (&snapshot.deployment, draft.catalog());
    let requested = select(&mut draft);
    draft.requests.namespaces = ownership::namespaces(deployment, &requested);
    draft.requests.objects = spec_references::references(&deployment.spec, catalog, &requested);
    draft.requests.rook = ceph::watched(&deployment.spec);
    if is_reading(&draft) {
        return draft.hold(Hold::Objects);
    }
    let names = release_names(&requested);
    let mut observed = observe(snapshot, &requested, &names);
    let rejected = desired::reject_moves(&requested, &deployment.spec, catalog, &observed);
    let (spec, selection) = corrected(deployment, rejected.as_ref(), requested, catalog);
    let inventory = snapshot.nodes.as_deref().map(|all| build_inventory(spec, catalog, all, &selection.owner()));
    let inventory = inventory.unwrap_or_default();
    draft.findings.extend(inventory.findings);
    let needed = leftovers(&selection, &observed, catalog).needed;
    let mut placeholders = Placeholders::new();
    let mut facts = Facts { helm_major: snapshot.helm.major, ..Facts::default() };
    facts.refused = namespaces::refused_releases(snapshot, &selection, &observed);
    facts.refused.extend(rejected.as_ref().map(|rejected| rejected.refused.clone()).unwrap_or_default());
    if !selection.is_refused() {
        let changes = &inventory.changes;
        placeholders = collect_facts(&mut draft, spec, &selection, changes, &mut observed, &needed, &mut facts);
    }
    if draft.is_incomplete() {
        return draft.hold(Hold::Reads);
    }
    let (resolved, recorded) = resolve(&mut draft, spec, &selection, facts, &observed);
    if draft.is_incomplete() {
        return draft.hold(Hold::Reads);
    }
    let refused = is_refused(&draft, &selection, &resolved.desired);
    let mut removals = nodes::LabelRemovals::default();
    if refused {
        // A refused spec changes nothing in the cluster, with one exception: if an external host gets another address,
        // osdpl updates the host's Endpoints, so that pods still reach the host.
        draft.actions.retain(|planned| matches!(planned.action, Action::PublishEndpoints { .. }));
    } else if credentials::are_generated(&draft) {
        return store_credentials(draft, &resolved, selection);
    } else {
        removals = nodes::plan_role_labels(&mut draft, inventory.changes);
    }
    let cloud = Cloud { selection, resolved, names, needed, placeholders, removals, refused };
    let plan = decide_releases(&mut draft, &cloud, observed);
    if draft.is_incomplete() {
        return draft.hold(Hold::Reads);
    }
    finish(draft, cloud, Plan { roles: inventory.roles, recorded, ..plan })
}

/// The decisions of a pass that do not depend on the steps of releases. The pass makes them first.
struct Cloud {
    selection: Arc<Selection>,
    resolved: Arc<Resolved>,
    /// The catalogue's name of each helm release, by the helm release's namespace and name. The map also contains
    /// releases that the spec does not select.
    names: BTreeMap<ReleaseKey, String>,
    /// The objects that osdpl must keep, because pods of releases that osdpl does not manage may need them. Such pods
    /// are, for example, the pods of a detached cloud.
    needed: Needed,
    placeholders: Placeholders,
    removals: nodes::LabelRemovals,
    /// Whether the pass refuses the spec, because the spec or the catalogue has an error.
    refused: bool,
}

/// Returns whether the pass refuses the spec, because the spec or the catalogue has an error.
fn is_refused(draft: &Draft<'_>, selection: &Selection, desired: &Desired) -> bool {
    let findings = desired.findings.iter().chain(&draft.findings).chain(&draft.snapshot.catalog_findings);
    selection.is_refused() || findings.into_iter().any(|finding| finding.level == Level::Error)
}

/// Returns a plan that only stores credentials. The values of releases contain the credentials, and the operator
/// generates them only when it applies this plan. So only the next pass can make the other decisions.
fn store_credentials(mut draft: Draft<'_>, resolved: &Resolved, selection: Arc<Selection>) -> Plan {
    draft.actions.retain(|planned| matches!(planned.action, Action::StoreCredentials(_)));
    let (facts, spec) = (resolved.facts.clone(), Some(resolved.spec.clone()));
    Plan { facts, spec, selection: Some(selection), ..draft.hold(Hold::Actions) }
}

/// Returns the complete plan of a pass, which combines the results in `plan`, `draft` and `cloud`.
///
/// `plan` contains the decisions about releases. `draft` contains the requests, actions, problems and the data to keep
/// for the next decision. `cloud` contains the decisions that do not depend on the steps of releases.
fn finish(mut draft: Draft<'_>, cloud: Cloud, plan: Plan) -> Plan {
    let Cloud { selection, resolved, names, placeholders, refused, .. } = cloud;
    let deployment = &draft.snapshot.deployment;
    let keeps_status = charts::keeps_status(deployment, &resolved.desired, &placeholders, refused, &plan.releases);
    draft.requeue(plan.releases.requeue_at);
    let records = charts::record_digests(deployment, &draft.snapshot.charts, &draft.requests.charts);
    Plan {
        charts: Some(records),
        requests: draft.requests,
        actions: draft.actions,
        problems: draft.problems,
        requeue_at: draft.requeue_at,
        kept: draft.kept,
        spec: Some(resolved.spec.clone()),
        facts: resolved.facts.clone(),
        desired: Arc::clone(&resolved.desired),
        ceph: resolved.facts.ceph.clone(),
        names,
        assumed: !placeholders.is_empty(),
        refused,
        hold: (keeps_status && draft.snapshot.helm.idle).then_some(Hold::Charts),
        selection: Some(selection),
        ..plan
    }
}

/// Returns whether the plan needs a watch that has not listed its objects yet.
fn is_reading(draft: &Draft<'_>) -> bool {
    let objects = &draft.snapshot.objects;
    let is_unread = |reference| matches!(objects.named.get(reference), None | Some(ObjectState::Unread));
    let kinds = draft.requests.rook.iter().flat_map(|(_, kinds)| kinds);
    !objects.listed
        || draft.requests.objects.iter().any(is_unread)
        || kinds.into_iter().any(|kind| !objects.rook.contains_key(kind))
}

/// Plans the objects that releases need, such as Secrets with credentials, and fills `facts`: the data from which osdpl
/// computes the releases' values.
///
/// Returns the releases that have a placeholder in place of their chart, because the operator is still fetching the
/// chart.
fn collect_facts(
    draft: &mut Draft<'_>,
    spec: &OpenStackDeploymentSpec,
    selection: &Selection,
    labels: &BTreeMap<String, LabelChange>,
    observed: &mut Observed,
    needed: &Needed,
    facts: &mut Facts,
) -> Placeholders {
    let (objects, catalog) = (&draft.snapshot.objects, draft.catalog());
    facts.cluster_info = nodes::read_cluster_info(draft, spec, labels);
    let credentials = credentials::collect(draft, spec, selection, observed);
    facts.credentials = credentials.known;
    facts.missing = credentials.missing;
    facts.values_from = spec_references::values_from(objects, spec, &selection.namespace);
    facts.secrets = spec_references::feature_secrets(objects, selection);
    facts.job_facts = spec_references::written(objects, catalog, selection);
    facts.charts = charts::facts(draft, spec, selection);
    let placeholders = charts::fill_placeholders(&draft.snapshot.deployment, catalog, &mut facts.charts);
    facts.baselines = baselines(observed, selection);
    facts.claim_classes = desired::collect_claim_classes(&draft.snapshot.claims, &selection.releases);
    facts.claim_sizes = desired::collect_claim_sizes(catalog, &selection.releases, observed, &draft.snapshot.claims);
    observed.external_ready = external::publish_all(draft, selection, observed, needed);
    facts.ceph = ceph::declared(objects, spec, selection);
    if let Some(mut declared) = facts.ceph.take() {
        ceph::plan_ceph_objects(draft, &mut declared, selection, facts);
        facts.ceph = Some(declared);
    }
    placeholders
}

/// Returns the baseline of each installed release. The baseline decides which defaults of the catalogue the release
/// gets ([`desired::BASELINE`]).
fn baselines(observed: &Observed, selection: &Selection) -> BTreeMap<String, u32> {
    let installed = |key: &ReleaseKey| observed.releases.get(key).filter(|record| record.status != Status::Uninstalled);
    let releases = selection.releases.iter();
    releases.filter_map(|(name, key)| Some((name.clone(), installed(key)?.baseline))).collect_map()
}

/// Returns the desired state and, only for `osdpl plan`, the values in the release records.
///
/// The function reuses the desired state of the last pass if the spec, the catalogue and the facts have not changed.
fn resolve(
    draft: &mut Draft<'_>,
    spec: &OpenStackDeploymentSpec,
    selection: &Selection,
    facts: Facts,
    observed: &Observed,
) -> (Arc<Resolved>, RecordedValues) {
    let is_same = |known: &&Arc<Resolved>| {
        known.spec == *spec
            && Arc::ptr_eq(&known.catalog, &draft.snapshot.catalog)
            && known.facts == facts
            && known.desired.findings.starts_with(&selection.findings)
    };
    if let Some(known) = draft.kept.resolved.as_ref().filter(is_same) {
        return (Arc::clone(known), BTreeMap::new());
    }
    let input = Input::of_resource(&draft.snapshot.deployment, spec, draft.catalog());
    let mut desired = input.resolve(selection, &facts);
    let assumed = draft.snapshot.assumed.as_ref();
    let recorded =
        assumed.map(|assumed| assumptions::adjust(draft, assumed, &mut desired, observed)).unwrap_or_default();
    let desired = Arc::new(desired);
    let catalog = Arc::clone(&draft.snapshot.catalog);
    let resolved = Arc::new(Resolved { spec: spec.clone(), catalog, facts, desired });
    draft.kept.resolved = Some(Arc::clone(&resolved));
    (resolved, recorded)
}

/// Decides about releases, rollouts, Nova's hosts and annotations.
///
/// Adds the requests and actions to `draft`. The returned plan contains only the steps of releases, the status of
/// rollouts, findings, comparisons and other data for the status.
fn decide_releases(draft: &mut Draft<'_>, cloud: &Cloud, mut observed: Observed) -> Plan {
    let Cloud { selection, resolved, names, needed, refused, .. } = cloud;
    let desired = &*resolved.desired;
    let deployment = &draft.snapshot.deployment;
    let changed_additions = additions::changed(deployment, draft.catalog());
    let policy = Policy { changed_additions, ..policy(deployment) };
    let mut compared = BTreeMap::new();
    if !selection.is_refused() {
        compared = comparison::compare_releases(draft, desired, &observed, &policy);
        observed.comparisons.clone_from(&draft.kept.comparisons);
    }
    observed.label_losses = nodes::label_losses(&cloud.removals);
    observed.rolling_batches = rollout::rolling_batches(&rollouts::last(draft), desired);
    // Errors about additions to the catalogue come first, because they may cause the other errors.
    let mut findings = draft.snapshot.catalog_findings.clone();
    findings.extend(desired.findings.iter().cloned());
    findings.append(&mut draft.findings);
    findings.extend(annotations::unknown_names(&policy, names, &observed));
    findings.extend(certificate_warnings(draft, selection));
    let policy = annotations::without_started_repairs(&mut draft.kept, policy);
    hosts::decide(draft, desired, &observed, &policy, *refused);
    let steps = if *refused {
        let releases = releases::steps_of_refused_spec(desired, &observed);
        let owned = ownership::owned_with_refused_spec(draft.snapshot);
        Plan { releases, rollouts: rollouts::last(draft), owned, ..Plan::default() }
    } else {
        ceph::plan_ceph_cleanup(draft, resolved.facts.ceph.as_ref(), selection, desired, &observed, needed);
        releases::delete_jobs(draft, &draft.snapshot.uninstalled);
        draft.requests.setting = {
            let (spec, catalog) = (&resolved.spec, draft.catalog());
            Some(setting(spec, catalog, access(catalog, desired), has_nova(catalog, desired)))
        };
        take_steps(draft, desired, &observed, &policy, cloud)
    };
    findings.append(&mut draft.findings);
    Plan { observed, findings, compared, repairs: policy.repair, ..steps }
}

/// Plans the steps of releases and rollouts, the removal of labels from nodes, and the removal of annotations from the
/// `OpenStackDeployment`. osdpl removes an annotation after it has done what the annotation asks for.
///
/// Adds actions and requests for data to `draft`. The returned plan contains only data for the status, such as the
/// steps of releases, the status of rollouts and the changes that wait for approval.
fn take_steps(
    draft: &mut Draft<'_>,
    desired: &Desired,
    observed: &Observed,
    policy: &Policy,
    Cloud { placeholders, removals, .. }: &Cloud,
) -> Plan {
    let catalog = draft.catalog();
    let mut releases = plan::plan(desired, observed, catalog, policy, draft.snapshot.now);
    let wanted = desired.releases.values().map(|release| &release.key).collect_set();
    draft.problems.extend(namespaces::left_outside(draft.snapshot, observed, &wanted));
    let awaiting_objects = draft.add_spec_changes(policy.approves_objects(desired, &releases.hash));
    let additions = Some(additions::approved(&draft.snapshot.deployment, catalog, policy, &releases.hash));
    charts::wait_for_charts(&mut releases, placeholders);
    rollouts::plan_strategies(draft, desired, observed, &releases);
    releases::plan_steps(draft, &mut releases, desired, observed, policy);
    let mut owned = plan::owned(desired, observed, &releases);
    // The status lists the releases that belong to the cloud. In a namespace in which the operator has no rights, osdpl
    // installs no new release, so the status must not list one. But it must still list the releases that osdpl
    // installed there before the operator lost the rights.
    owned.retain(|key| draft.snapshot.is_permitted(&key.namespace));
    owned.extend(namespaces::owned_outside(draft.snapshot, observed).cloned());
    let owned = Some(owned);
    let next = rollouts::plan_evictions(draft, desired, observed, &releases, policy);
    let agreed = policy.approved.as_deref().filter(|hash| *hash == releases.hash);
    let label_removal = nodes::approve_removals(draft, removals, agreed);
    let is_watched = |release: &&desired::DesiredRelease| release.managed && release.drift != DriftPolicy::Ignore;
    draft.requests.watches = Some(Watches {
        drift: desired.releases.values().filter(is_watched).map(|release| release.key.clone()).collect_set(),
        endpoints: Some(endpoint::targets(catalog, desired, observed)),
        daemons: next.watch.clone(),
    });
    if !desired.is_fetching() && placeholders.is_empty() {
        annotations::consume(draft, desired, observed, &releases, policy, &next, &label_removal);
    }
    let changes = changes::pending_changes(draft, &releases, desired, observed);
    let label_removal = Some(label_removal);
    let rollouts = next.rollouts;
    Plan { releases, owned, additions, label_removal, awaiting_objects, rollouts, changes, ..Plan::default() }
}

/// Returns warnings about the certificates that the spec names.
fn certificate_warnings(draft: &mut Draft<'_>, selection: &Selection) -> Vec<Finding> {
    let mut certificates = (*draft.kept.certificates).clone();
    let (warnings, next_check) = certificates.check(&draft.snapshot.objects, selection, draft.snapshot.now);
    draft.kept.certificates = Arc::new(certificates);
    draft.requeue(next_check);
    warnings
}
