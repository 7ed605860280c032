//! Decides what a pass does for an OpenStackDeployment that is being deleted: uninstall or detach the cloud, then
//! remove the finalizer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;
use osdpl_values::CollectSorted;

use super::action::{Action, Kind, Planned};
use super::annotations::unknown_names;
use super::draft::{Draft, RETRY_INTERVAL};
use super::kept::Kept;
use super::leftovers::{Leftovers, leftovers};
use super::needed::Needed;
use super::plan::{Hold, Plan};
use super::requests::{Read, Response, Stored, Watches};
use super::resource::{observe, policy};
use super::selection::{release_names, selection};
use super::snapshot::Snapshot;
use super::{ceph, instances, namespaces, nodes, ownership, releases};
use osdpl_core::api::{DEPLOYMENT_LABEL, DeletionPolicy, OpenStackDeployment, reason};
use osdpl_core::catalog::Level;
use osdpl_core::desired::{Desired, Selection};
use osdpl_core::nodes::labels_to_remove;
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan::{self, Decision, Policy, Reason, Step, Wait};
use osdpl_core::status::{self, Event};

/// The reason for the removal of role labels from nodes at the end of a deletion.
const LABELS_REASON: &str = "no release selects nodes by these labels any more";

/// Why the deletion of a paused cloud waits.
const PAUSED: &str = "the cloud is paused, so osdpl deletes nothing; set `paused: false` to delete the cloud, or \
                      `deletionPolicy: Detach` to keep it without osdpl";

/// The rules by which osdpl deletes a cloud, from the spec and the annotations of the OpenStackDeployment.
struct DeletionRules {
    /// The policy for the uninstalls. During a deletion, the uninstall of a release that the status names needs no
    /// approval. helm skips the hooks of the releases that the annotation `osdpl.dev/skip-hooks` names.
    releases: Policy,
    /// Whether the releases stay and continue to run without osdpl (`Detach`).
    keeps_releases: bool,
    /// Whether osdpl also deletes the data of the cloud (`Purge`): volume claims, the Secrets in which osdpl stores
    /// credentials, and the Secrets and ConfigMaps that an uninstall leaves behind.
    deletes_data: bool,
}

impl DeletionRules {
    fn of(deployment: &OpenStackDeployment) -> Self {
        let requested = deployment.spec.deletion_policy.unwrap_or_default();
        Self {
            releases: policy(deployment),
            keeps_releases: requested == DeletionPolicy::Detach,
            deletes_data: requested == DeletionPolicy::Purge,
        }
    }
}

/// Returns the plan for an OpenStackDeployment that is being deleted.
pub(crate) fn decide(mut draft: Draft<'_>) -> Plan {
    let snapshot = draft.snapshot;
    let deployment = &snapshot.deployment;
    // With `Purge`, osdpl deletes the Secrets with credentials. So it must also forget the credentials in memory, or a
    // new cloud of the same name would get the old passwords.
    draft.kept = Kept { refused: draft.kept.refused, ..Kept::default() };
    draft.requests.watches = Some(Watches { endpoints: None, ..Watches::default() });
    let selection = Arc::new(selection(deployment, &deployment.spec, &snapshot.catalog));
    draft.requests.namespaces = ownership::namespaces(deployment, &selection);
    if !snapshot.objects.listed {
        return draft.hold(Hold::Objects);
    }
    let names = release_names(&selection);
    let observed = observe(snapshot, &selection, &names);
    let rules = DeletionRules::of(deployment);
    draft.findings = unknown_names(&rules.releases, &names, &observed);
    if rules.keeps_releases {
        return detach(draft, selection, observed, names);
    }
    let desired = Desired::default();
    let mut steps = plan::plan(&desired, &observed, &snapshot.catalog, &rules.releases, snapshot.now);
    let catalog_error = snapshot.catalog_findings.iter().find(|finding| finding.level == Level::Error);
    let mut forget_secrets = false;
    let remaining = if let Some(error) = catalog_error {
        block(&mut steps, reason::INVALID, &error.text());
        Some(error.text())
    } else if let Some(obstacle) = instances::obstacle(&mut draft, &observed) {
        block(&mut steps, reason::DELETING, &obstacle);
        Some(obstacle)
    } else {
        releases::plan_steps(&mut draft, &mut steps, &desired, &observed, &rules.releases);
        let has_jobs = releases::delete_jobs(&mut draft, &snapshot.uninstalled);
        if let Some(problem) = namespaces::left_outside(snapshot, &observed, &BTreeSet::new()) {
            Some(format!("{problem}, or set spec.deletionPolicy to Detach, which keeps all releases"))
        } else if steps.decisions.is_empty() && !has_jobs {
            let remaining;
            (remaining, forget_secrets) = clean_up(&mut draft, &selection, &observed, &rules);
            remaining
        } else {
            Some("the last objects of the cloud's releases are being removed".to_owned())
        }
    };
    if draft.is_incomplete() {
        return draft.hold(Hold::Reads);
    }
    let is_paused = deployment.spec.paused && !is_finished(&draft, &steps);
    if is_paused {
        draft.actions.clear();
        block(&mut steps, reason::DELETING, PAUSED);
    }
    let remaining = if is_paused { Some(PAUSED.to_owned()) } else { remaining };
    // osdpl needs no approval to uninstall a release that the status names. If osdpl recognized the releases only by
    // their labels, a person must approve their uninstall first. So the status must not name these releases before the
    // approval.
    let is_known = observed.recognized.is_empty() || rules.releases.approved.as_ref() == Some(&steps.hash);
    let started = plan::owned(&desired, &observed, &steps);
    let owned = is_known.then(|| observed.owned.iter().cloned().chain(started).collect_set());
    let forget_secrets = forget_secrets && !is_paused;
    Plan { owned, forget_secrets, ..finish(draft, selection, observed, names, steps, remaining) }
}

/// Whether only the finalizer is left to remove.
fn is_finished(draft: &Draft<'_>, steps: &plan::Plan) -> bool {
    steps.decisions.is_empty() && draft.actions.iter().all(|planned| matches!(planned.action, Action::RemoveFinalizer))
}

/// Combines the decisions about a deletion in a plan.
///
/// `remaining` describes the work that remains after the operator has executed the plan; `None` if no work remains.
fn finish(
    mut draft: Draft<'_>,
    selection: Arc<Selection>,
    observed: Observed,
    names: BTreeMap<ReleaseKey, String>,
    releases: plan::Plan,
    remaining: Option<String>,
) -> Plan {
    draft.requeue(releases.requeue_at);
    Plan {
        requests: draft.requests,
        actions: draft.actions,
        releases,
        selection: Some(selection),
        spec: Some(draft.snapshot.deployment.spec.clone()),
        desired: Arc::default(),
        observed,
        names,
        findings: draft.findings,
        problems: draft.problems,
        hold: remaining.is_none().then_some(Hold::Watch),
        deleting: remaining,
        requeue_at: draft.requeue_at,
        kept: draft.kept,
        ..Plan::default()
    }
}

/// Detaches the cloud: osdpl removes its labels from the release records, and the cloud continues to run.
///
/// The labels of nodes stay, and so do Secrets and other objects that pods mount.
fn detach(
    mut draft: Draft<'_>,
    selection: Arc<Selection>,
    observed: Observed,
    names: BTreeMap<ReleaseKey, String>,
) -> Plan {
    let steps = detach_steps(&observed, &names);
    let busy: Vec<String> = observed.running.keys().map(ToString::to_string).collect();
    if busy.is_empty() {
        for (name, decision) in &steps.decisions {
            let action =
                Action::Release { name: name.clone(), key: decision.key.clone(), action: plan::Action::Unmanage };
            draft.add(Planned::new(action, "deletionPolicy is Detach"));
        }
        draft.add(Planned::new(Action::RemoveFinalizer, "the cloud is detached"));
        return finish(draft, selection, observed, names, steps, None);
    }
    let remaining = format!("helm is running for {}; osdpl detaches the cloud when helm has ended", busy.join(", "));
    draft.requeue(draft.snapshot.now.checked_add(RETRY_INTERVAL).ok());
    finish(draft, selection, observed, names, steps, Some(remaining))
}

/// Returns the steps that detach all releases, including releases whose first record helm has not written yet.
fn detach_steps(observed: &Observed, names: &BTreeMap<ReleaseKey, String>) -> plan::Plan {
    let ours = observed.releases.iter().filter(|(_, existing)| existing.is_ours());
    let ours = ours.map(|(key, existing)| (key, existing.release.as_ref()));
    let installing = observed.running.keys().filter(|key| !observed.releases.contains_key(key));
    let decisions = ours.chain(installing.map(|key| (key, names.get(key)))).map(|(key, name)| {
        let step = Step::Do(plan::Action::Unmanage, Reason::Unmanaged);
        let decision = Decision { key: key.clone(), step, cleanup: None, drift_action: None };
        (name.unwrap_or(&key.name).clone(), decision)
    });
    plan::Plan { decisions: decisions.collect_map(), ..plan::Plan::default() }
}

/// Plans to delete the objects that osdpl itself created, and then to remove the finalizer.
///
/// The caller must call this function only when all releases are uninstalled.
///
/// Returns two values:
///
/// * The problem that keeps the finalizer in place; `None` if the plan removes the finalizer.
/// * Whether the operator can forget the cloud's secrets, because no remaining release can use them. The operator then
///   no longer removes them from logs.
fn clean_up(
    draft: &mut Draft<'_>,
    selection: &Selection,
    observed: &Observed,
    rules: &DeletionRules,
) -> (Option<String>, bool) {
    let snapshot = draft.snapshot;
    let left = leftovers(selection, observed, &snapshot.catalog);
    let needed = &left.needed;
    // osdpl deletes the Jobs of hooks after an uninstall. If no operator was running then, these Jobs still exist.
    releases::delete_jobs(draft, &left.releases);
    let mut services = Vec::new();
    for (key, uid) in draft.list(Read::OwnServices).into_iter().flatten() {
        if needed.external.contains(key) {
            services.push(format!("Service {key}"));
        } else {
            let action = Action::Delete { kind: Kind::Service, key: key.clone(), uid: uid.clone() };
            draft.add(Planned::new(action, "the cloud is deleted"));
        }
    }
    // osdpl removes only its own settings from Rook's `CephObjectStore`. Pools, users and data stay in Ceph.
    if !needed.store {
        ceph::release_object_stores(draft, None);
    }
    ceph::delete_except(draft, &selection.owner(), &needed.ceph);
    let nodes = snapshot.nodes.as_deref();
    let labels = nodes.map(|nodes| labels_to_remove(nodes, &selection.owner())).unwrap_or_default();
    let mut problems = Vec::new();
    if !needed.labels {
        problems = nodes::label(draft, &labels, LABELS_REASON);
    }
    if rules.deletes_data {
        purge(draft, selection, &left);
    }
    if let Some(problem) = problems.into_iter().next() {
        draft.requeue(snapshot.now.checked_add(RETRY_INTERVAL).ok());
        return (Some(problem), false);
    }
    let planned = Planned::new(Action::RemoveFinalizer, "nothing of the cloud is left to delete");
    // The status disappears with the OpenStackDeployment, so only an event can tell the user what osdpl kept.
    draft.add(planned.with_events(retained(needed, services, labels.len())));
    // Releases that osdpl does not manage could still use the cloud's secrets. If such releases remain, the operator
    // must not forget the secrets, so that it continues to remove them from logs.
    (None, needed.releases.is_empty())
}

/// Returns the actions with which a later plan of the deletion removes osdpl's labels from nodes.
///
/// The result is empty in three cases:
///
/// * The cloud is not being deleted.
/// * `plan` itself removes the labels.
/// * The labels stay: osdpl keeps the releases, or a release that osdpl does not manage selects nodes by the labels.
pub fn labels_after_deletion(snapshot: &Snapshot, plan: &Plan) -> Vec<Planned> {
    let Some(selection) = plan.selection.as_ref().filter(|_| plan.deleting.is_some()) else { return Vec::new() };
    let is_needed = || leftovers(selection, &plan.observed, &snapshot.catalog).needed.labels;
    if DeletionRules::of(&snapshot.deployment).keeps_releases || is_needed() {
        return Vec::new();
    }
    let labels = snapshot.nodes.as_deref().map(|nodes| labels_to_remove(nodes, &selection.owner()));
    let removals = labels.iter().flatten().map(|(name, change)| nodes::label_node(name, change, LABELS_REASON));
    // If the API server refused to remove the labels of a node, the deletion waits, and `plan` can already contain the
    // removals from other nodes.
    let planned: BTreeSet<String> = plan.actions.iter().map(|planned| planned.action.id()).collect_set();
    removals.filter(|removal| !planned.contains(&removal.action.id())).collect()
}

/// Plans to delete the data of the cloud: volume claims, the Secrets in which osdpl stores credentials, and the Secrets
/// and ConfigMaps that an uninstall leaves behind.
///
/// The data of releases that osdpl does not manage stays.
fn purge(draft: &mut Draft<'_>, selection: &Selection, left: &Leftovers) {
    let reason = "deletionPolicy is Purge";
    let delete = |draft: &mut Draft<'_>, kind, key: &ReleaseKey, uid: String| {
        draft.add(Planned::new(Action::Delete { kind, key: key.clone(), uid }, reason));
    };
    for release in &left.releases {
        for (key, uid) in draft.list(Read::Claims(release.clone())).into_iter().flatten() {
            delete(draft, Kind::Claim, key, uid.clone());
        }
    }
    for kept in &left.kept {
        let key = ReleaseKey::new(&kept.namespace, &kept.name);
        match draft.read(Read::Stored(kept.clone())).map(|received| &received.response) {
            Some(Response::Stored(Stored::Secret(secret))) => {
                delete(draft, Kind::Secret, &key, secret.uid().unwrap_or_default());
            }
            Some(Response::Stored(Stored::Map(map))) => {
                delete(draft, Kind::ConfigMap, &key, map.uid().unwrap_or_default());
            }
            _ => {}
        }
    }
    let snapshot = draft.snapshot;
    let owner = selection.owner();
    for (key, secret) in &snapshot.objects.secrets {
        let is_left = secret.metadata.deletion_timestamp.is_none();
        let is_ours = is_left && secret.labels().get(DEPLOYMENT_LABEL) == Some(&owner);
        // Skip Secrets for Ceph. `ceph::delete_except` decides about them: it keeps a Secret if a release that osdpl
        // does not manage could mount the Secret.
        let is_kept = left.credentials.contains(&key.name) || ceph::is_of_ceph(&**secret, &owner);
        if is_ours && key.namespace == selection.namespace && !is_kept {
            delete(draft, Kind::Secret, key, secret.uid().unwrap_or_default());
        }
    }
}

/// Makes the uninstalls wait, because an addition to the catalogue is invalid, because Nova may have instances, or
/// because the cloud is paused.
///
/// An addition may determine the order of uninstalls, and the data that `Purge` deletes. osdpl can't read these from an
/// invalid addition, so it must not uninstall anything.
fn block(plan: &mut plan::Plan, reason: &str, why: &str) {
    for decision in plan.decisions.values_mut() {
        if matches!(decision.step, Step::Do(..)) {
            decision.step = Step::Wait(Wait::Blocked { reason: reason.to_owned(), message: why.to_owned() });
        }
        decision.cleanup = None;
    }
}

/// Returns the event that tells the user which objects osdpl keeps; `None` if it keeps no object.
///
/// osdpl keeps these objects for releases that it does not manage. `services` contains the kept Services, and `nodes`
/// is the number of nodes that keep labels.
fn retained(needed: &Needed, services: Vec<String>, nodes: usize) -> Option<Event> {
    let labels = (needed.labels && nodes > 0).then(|| format!("the labels of roles on {nodes} nodes"));
    let objects = needed.ceph.iter().map(ToString::to_string);
    let kept: Vec<String> = labels.into_iter().chain(services).chain(objects).collect();
    let releases: Vec<String> = needed.releases.iter().map(ToString::to_string).collect();
    (!kept.is_empty()).then(|| status::retained_event(&releases, &kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{complete, deleting_nova};
    use osdpl_core::observed::Node;
    use osdpl_core::release::Status;
    use osdpl_core::testing::{fixture, observed_release, running_helm};
    use serde_json::json;

    #[test]
    fn releases_wait_while_the_catalogue_is_invalid() {
        let mut world = fixture()
            .with_release("front", observed_release(Status::Deployed))
            .with_release("store", observed_release(Status::Deployed));
        world.policy.deleting = true;
        let desired = Desired::default();
        let now = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
        let mut plan = plan::plan(&desired, &world.observed, &world.catalog, &world.policy, now);
        assert!(plan.decisions.values().any(|decision| matches!(decision.step, Step::Do(..))), "{plan:?}");
        block(&mut plan, reason::INVALID, "the catalogue: ConfigMaps can't be listed");
        assert!(plan.decisions.values().all(|decision| matches!(decision.step, Step::Wait(_))), "{plan:?}");
        let is_reported = |step: &Step| matches!(step, Step::Wait(Wait::Blocked { message, .. }) if message.starts_with("the catalogue: "));
        assert!(plan.decisions.values().any(|decision| is_reported(&decision.step)), "{plan:?}");
    }

    #[test]
    fn detaches_releases_that_helm_still_installs() {
        let foreign = osdpl_core::observed::ObservedRelease { status: Status::Deployed, ..Default::default() };
        let world = fixture()
            .with_release("front", observed_release(Status::Deployed))
            .with_release("store", observed_release(Status::PendingUpgrade))
            .with_release("theirs", foreign);
        let mut observed = world.observed;
        let first = ReleaseKey::new("openstack", "dashboard");
        for key in [ReleaseKey::new("openstack", "store"), first.clone()] {
            observed.running.insert(key, running_helm("new"));
        }
        let plan = detach_steps(&observed, &[(first, "horizon".to_owned())].into());
        assert_eq!(plan.decisions.keys().collect::<Vec<_>>(), ["front", "horizon", "store"]);
        let is_detached = |step: &Step| matches!(step, Step::Do(plan::Action::Unmanage, _));
        assert!(plan.decisions.values().all(|decision| is_detached(&decision.step)), "{plan:?}");
    }

    #[test]
    fn finds_labels_that_a_later_plan_removes() {
        let later = |policy: &str| {
            let mut snapshot = deleting_nova(json!({"spec": {"deletionPolicy": policy}}), Some(Ok(None)));
            let labels = [("compute".to_owned(), "on".to_owned())].into();
            let node = Node::new(Some("1"), Some(&labels), Some("openstack.nimbus,compute=on"));
            snapshot.nodes = Some(Arc::new([("n1".to_owned(), node)].into()));
            let plan = complete(&mut snapshot);
            let later = labels_after_deletion(&snapshot, &plan);
            later.iter().map(|planned| format!("{}: {}", planned.action, planned.reason)).collect::<Vec<_>>()
        };
        assert_eq!(later("Retain"), [format!("label node n1: loses compute=on: {LABELS_REASON}")]);
        assert_eq!(later("Detach"), [""; 0], "a detached cloud keeps its labels");
    }

    #[test]
    fn a_pause_holds_a_deletion_back_unless_the_cloud_is_detached() {
        let plan = |spec: serde_json::Value| {
            let mut snapshot = deleting_nova(json!({"spec": spec}), Some(Ok(None)));
            complete(&mut snapshot)
        };
        let paused = plan(json!({"paused": true, "deletionPolicy": "Purge"}));
        assert_eq!(paused.actions.len(), 0, "{:?}", paused.actions);
        assert_eq!(paused.deleting.as_deref(), Some(PAUSED));
        let is_waiting = |decision: &Decision| matches!(decision.step, Step::Wait(_));
        assert!(paused.releases.decisions.values().all(is_waiting), "{:?}", paused.releases);
        assert!(!plan(json!({"deletionPolicy": "Purge"})).actions.is_empty());
        let detached = plan(json!({"paused": true, "deletionPolicy": "Detach"}));
        assert!(detached.deleting.is_none() && !detached.actions.is_empty(), "{:?}", detached.deleting);

        // Nothing is left to delete, so the operator only removes the finalizer.
        let mut snapshot = deleting_nova(json!({"spec": {"paused": true}}), Some(Ok(None)));
        snapshot.observed.releases.clear();
        let finished = complete(&mut snapshot);
        let actions: Vec<_> = finished.actions.iter().map(|planned| &planned.action).collect();
        assert!(matches!(actions.as_slice(), [Action::RemoveFinalizer]), "{actions:?}");
    }

    #[test]
    fn a_deletion_keeps_a_paused_release() {
        let keystone = json!({"releases": {"keystone": {"paused": true}}});
        let mut snapshot = deleting_nova(json!({"spec": {"services": {"keystone": keystone}}}), Some(Ok(None)));
        let plan = complete(&mut snapshot);
        assert_eq!(plan.releases.decisions["keystone"].step, Step::Wait(Wait::Paused));
    }

    #[test]
    fn the_event_names_kept_objects() {
        let services = || vec!["Service openstack/mariadb".to_owned()];
        let releases = [ReleaseKey::new("openstack", "nova")].into();
        let needed = Needed { releases, labels: true, ..Needed::default() };
        let note = retained(&needed, services(), 2).unwrap().note;
        assert!(note.contains("openstack/nova"), "{note}");
        assert!(note.contains("the labels of roles on 2 nodes, Service openstack/mariadb"), "{note}");
        assert_eq!(retained(&needed, Vec::new(), 0), None);
        assert_eq!(retained(&Needed::default(), Vec::new(), 2), None);
    }
}
