//! Deletion: the same decision with nothing desired, then the data that the policy names, then the finalizer.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::SignedDuration;
use kube::ResourceExt;

use super::action::{Action, Kind, Planned};
use super::annotations::unknown_names;
use super::draft::{Draft, Hold, Plan};
use super::leftovers::{Leftovers, Needed, leftovers};
use super::requests::{Read, Watches};
use super::spec::{known, policy};
use super::{ceph, identified, nodes, releases, store};
use osdpl_core::api::{DeletionPolicy, FINALIZER, OpenStackDeployment, reason};
use osdpl_core::catalog::Level;
use osdpl_core::desired::{Desired, Selection, select};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan::{self, Decision, Reason, Step, Wait};
use osdpl_core::status::{self, Event};

/// When an obstacle to the end is tried again: no watch tells that rights are given back.
const AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// Decides for a resource that is being deleted.
pub fn decide(mut draft: Draft<'_>) -> Plan {
    let snapshot = draft.snapshot;
    let deployment = &snapshot.deployment;
    let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
    // With Purge the credentials are deleted: nothing of them may come back with the next cloud.
    draft.kept = super::Kept { refused: draft.kept.refused, ..super::Kept::default() };
    draft.requests.watches = Some(Watches { endpoints: None, ..Watches::default() });
    let selection = select(&name, &namespace, &deployment.spec, &snapshot.catalog);
    let names = known(&selection);
    let observed = identified(snapshot, &names);
    let mut policy = policy(deployment);
    policy.deleting = true;
    draft.findings = unknown_names(&policy, &names, &observed);
    if deployment.spec.deletion_policy == Some(DeletionPolicy::Detach) {
        return detach(draft, selection, (observed, names));
    }
    let desired = Desired::default();
    let mut table = plan::plan(&desired, &observed, &snapshot.catalog, &policy, snapshot.now);
    let doubt = snapshot.catalog_findings.iter().find(|finding| finding.level == Level::Error);
    let mut forget_secrets = false;
    let rest = if let Some(doubt) = doubt {
        hold(&mut table, &doubt.message);
        Some(doubt.message.clone())
    } else {
        releases::act(&mut draft, &mut table, (&desired, &observed));
        let has_jobs = releases::delete_jobs(&mut draft, &snapshot.uninstalled);
        if table.decisions.is_empty() && !has_jobs {
            let (rest, forgets) = clear(&mut draft, &selection, &observed);
            forget_secrets = forgets;
            rest
        } else {
            Some("the last objects of its releases are being removed".to_owned())
        }
    };
    if draft.is_unanswered() {
        return draft.held(Hold::Reads);
    }
    Plan { forget_secrets, ..finish(draft, selection, (observed, names), table, rest) }
}

/// The plan; the finalizer is removed where nothing is left to do.
fn finish(
    mut draft: Draft<'_>,
    selection: Selection,
    (observed, names): (Observed, BTreeMap<ReleaseKey, String>),
    releases: plan::Plan,
    rest: Option<String>,
) -> Plan {
    draft.wake(releases.requeue_at);
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
        hold: rest.is_none().then_some(Hold::Watch),
        deleting: rest,
        wake: draft.wake,
        kept: draft.kept,
        ..Plan::default()
    }
}

/// Detaches the cloud: helm's records lose our labels, and everything runs on. Secrets, objects that charts mount and labels of nodes stay,
/// because pods use them.
fn detach(
    mut draft: Draft<'_>,
    selection: Selection,
    (observed, names): (Observed, BTreeMap<ReleaseKey, String>),
) -> Plan {
    let table = detached(&observed, &names);
    let busy: Vec<String> = observed.running.keys().map(ToString::to_string).collect();
    if busy.is_empty() {
        for (name, decision) in &table.decisions {
            let action =
                Action::Release { name: name.clone(), key: decision.key.clone(), action: plan::Action::Unmanage };
            draft.add(Planned::new(action, "deletionPolicy is Detach"));
        }
        draft.add(Planned::new(Action::RemoveFinalizer, "the cloud is detached"));
        return finish(draft, selection, (observed, names), table, None);
    }
    // The end of helm triggers the next pass.
    let rest = format!("helm is at {}: it is let go when that has ended", busy.join(", "));
    draft.wake(draft.snapshot.now.checked_add(AGAIN).ok());
    finish(draft, selection, (observed, names), table, Some(rest))
}

/// The decisions of a cloud that is detached, also for the releases that helm installs just now.
pub fn detached(observed: &Observed, names: &BTreeMap<ReleaseKey, String>) -> plan::Plan {
    let ours = observed.releases.iter().filter(|(_, seen)| seen.is_ours());
    let ours = ours.map(|(key, seen)| (key, seen.release.as_ref()));
    let made = observed.running.keys().filter(|key| !observed.releases.contains_key(key));
    let decisions = ours.chain(made.map(|key| (key, names.get(key)))).map(|(key, name)| {
        let step = Step::Do(plan::Action::Unmanage, Reason::Unmanaged);
        let decision = Decision { key: key.clone(), step, sweep: None, mending: None };
        (name.unwrap_or(&key.name).clone(), decision)
    });
    plan::Plan { decisions: decisions.collect(), ..plan::Plan::default() }
}

/// Plans to remove what is not helm's, once the releases are gone, and the finalizer last; returns what stands in the way, if
/// anything does, and whether nothing is left that uses the cloud's secrets.
fn clear(draft: &mut Draft<'_>, selection: &Selection, observed: &Observed) -> (Option<String>, bool) {
    let snapshot = draft.snapshot;
    let left = leftovers(selection, &observed.releases, &snapshot.catalog);
    let needed = &left.needed;
    // An uninstall that ended while no operator ran has left its Jobs.
    releases::delete_jobs(draft, &left.releases);
    for (key, _) in draft.list(Read::OwnServices).into_iter().flatten() {
        if !needed.external.contains(&(key.namespace.clone(), key.name.clone())) {
            draft.add(Planned::new(Action::Delete { kind: Kind::Service, key: key.clone() }, "the cloud is deleted"));
        }
    }
    // Pools, users and data stay in Ceph.
    if !needed.store {
        store::release(draft, None);
    }
    ceph::remove(draft, &selection.name, &needed.ceph);
    let farewell = snapshot.nodes.as_deref().map(osdpl_core::nodes::labels_to_remove).unwrap_or_default();
    let mut problems = Vec::new();
    if !needed.labels {
        problems = nodes::label(draft, &farewell, "no release chooses nodes by it any more");
    }
    if snapshot.deployment.spec.deletion_policy == Some(DeletionPolicy::Purge) {
        purge(draft, selection, &left);
    }
    if let Some(problem) = problems.into_iter().next() {
        draft.wake(snapshot.now.checked_add(AGAIN).ok());
        return (Some(problem), false);
    }
    let planned = Planned::new(Action::RemoveFinalizer, "nothing of the cloud is left to delete");
    // The status is deleted with the resource: only an event is still there to be read.
    draft.add(planned.with_event(retained(needed, farewell.len())));
    // What stays is not ours and may run on with our credentials.
    (None, needed.releases.is_empty())
}

/// Whether a deletion keeps the labels of nodes, because releases that stay choose nodes by them.
pub fn keeps_labels(snapshot: &super::Snapshot, plan: &Plan) -> bool {
    let selection = plan.selection.as_ref();
    selection.is_some_and(|selection| leftovers(selection, &plan.observed.releases, &snapshot.catalog).needed.labels)
}

/// Plans to delete what holds data: volume claims of the releases, Secrets that upstream keeps, our credentials; nothing of releases that stay.
fn purge(draft: &mut Draft<'_>, selection: &Selection, left: &Leftovers) {
    let reason = "deletionPolicy is Purge";
    let delete = |draft: &mut Draft<'_>, kind, key: &ReleaseKey| {
        draft.add(Planned::new(Action::Delete { kind, key: key.clone() }, reason));
    };
    for release in &left.releases {
        for (key, _) in draft.list(Read::Claims(release.clone())).into_iter().flatten() {
            delete(draft, Kind::Claim, key);
        }
    }
    for (namespace, name) in &left.secrets {
        delete(draft, Kind::Secret, &ReleaseKey::new(namespace, name));
    }
    let snapshot = draft.snapshot;
    for (key, secret) in &snapshot.objects.secrets {
        let is_left = secret.metadata.deletion_timestamp.is_none();
        let is_ours = is_left && secret.labels().get(osdpl_core::api::DEPLOYMENT_LABEL) == Some(&selection.name);
        // Objects of Ceph that were not deleted before stay.
        let stays = left.credentials.contains(&key.name) || ceph::is_of_ceph(&**secret, &selection.name);
        if is_ours && key.namespace == selection.namespace && !stays {
            delete(draft, Kind::Secret, key);
        }
    }
}

/// Makes releases wait while it is not known what `ConfigMap`s add to the catalogue: they decide in which order releases leave, and what a purge
/// removes. A correction triggers the next pass.
fn hold(plan: &mut plan::Plan, why: &str) {
    for decision in plan.decisions.values_mut() {
        if matches!(decision.step, Step::Do(..)) {
            decision.step = Step::Wait(Wait::Blocked { reason: reason::INVALID.into(), message: why.to_owned() });
        }
        decision.sweep = None;
    }
}

/// The event that names what stays because releases that stay need it.
fn retained(needed: &Needed, nodes: usize) -> Option<Event> {
    let labels = (needed.labels && nodes > 0).then(|| format!("the labels of roles on {nodes} nodes"));
    let services = needed.external.iter().map(|(namespace, name)| format!("Service {namespace}/{name}"));
    let objects = needed.ceph.iter().map(ToString::to_string);
    let kept: Vec<String> = labels.into_iter().chain(services).chain(objects).collect();
    let releases: Vec<String> = needed.releases.iter().map(ToString::to_string).collect();
    (!kept.is_empty()).then(|| status::retained_event(&releases, &kept))
}

/// Whether a resource that is being deleted is finalized: another finalizer may keep it for long.
pub fn is_finalized(deployment: &OpenStackDeployment) -> bool {
    let is_ours = |finalizer: &String| finalizer == FINALIZER;
    deployment.metadata.deletion_timestamp.is_some() && !deployment.finalizers().iter().any(is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use osdpl_core::testing::world::{running_helm, seen, world};

    #[test]
    fn a_resource_without_our_finalizer_is_finalized() {
        let held = |metadata: serde_json::Value| -> OpenStackDeployment {
            serde_json::from_value(serde_json::json!({"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": metadata, "spec": {"openstackRelease": "2026.1"}})).unwrap()
        };
        let (deleted, foreign) = ("2026-11-21T00:00:00Z", "foregroundDeletion");
        assert!(is_finalized(&held(serde_json::json!({"deletionTimestamp": deleted, "finalizers": [foreign]}))));
        assert!(!is_finalized(&held(
            serde_json::json!({"deletionTimestamp": deleted, "finalizers": [foreign, FINALIZER]})
        )));
        assert!(!is_finalized(&held(serde_json::json!({"finalizers": [foreign]}))), "it is not being deleted");
    }

    #[test]
    fn releases_wait_while_the_catalogue_is_in_doubt() {
        let mut world = world().see("front", seen("deployed")).see("store", seen("deployed"));
        world.policy.deleting = true;
        let desired = Desired::default();
        let now = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
        let mut plan = plan::plan(&desired, &world.observed, &world.catalog, &world.policy, now);
        assert!(plan.decisions.values().any(|decision| matches!(decision.step, Step::Do(..))), "{plan:?}");
        hold(&mut plan, "the catalogue: ConfigMaps can't be listed");
        assert!(plan.decisions.values().all(|decision| matches!(decision.step, Step::Wait(_))), "{plan:?}");
        let told = plan.decisions.values().any(|decision| matches!(&decision.step, Step::Wait(Wait::Blocked { message, .. }) if message.starts_with("the catalogue: ")));
        assert!(told, "{plan:?}");
    }

    #[test]
    fn detaches_releases_that_helm_still_installs() {
        let foreign = osdpl_core::observed::ObservedRelease { status: "deployed".into(), ..Default::default() };
        let world = world().see("front", seen("deployed")).see("store", seen("pending-upgrade")).see("theirs", foreign);
        let mut observed = world.observed;
        let first = ReleaseKey::new("openstack", "dashboard");
        for key in [ReleaseKey::new("openstack", "store"), first.clone()] {
            observed.running.insert(key, running_helm("new"));
        }
        let plan = detached(&observed, &[(first, "horizon".to_owned())].into());
        assert_eq!(plan.decisions.keys().collect::<Vec<_>>(), ["front", "horizon", "store"]);
        let is_detached = |step: &Step| matches!(step, Step::Do(plan::Action::Unmanage, _));
        assert!(plan.decisions.values().all(|decision| is_detached(&decision.step)), "{plan:?}");
    }

    #[test]
    fn names_what_stays() {
        let external = [("openstack".to_owned(), "mariadb".to_owned())].into();
        let releases = [ReleaseKey::new("openstack", "nova")].into();
        let needed = Needed { releases, labels: true, external, ..Needed::default() };
        let note = retained(&needed, 2).unwrap().note;
        assert!(note.contains("openstack/nova"), "{note}");
        assert!(note.contains("the labels of roles on 2 nodes, Service openstack/mariadb"), "{note}");
        assert_eq!(retained(&Needed { external: [].into(), ..needed }, 0), None);
        assert_eq!(retained(&Needed::default(), 2), None);
    }
}
