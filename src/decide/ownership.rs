//! Decides which releases belong to the cloud.
//!
//! The labels of a release record prove nothing: anyone who may write Secrets in a namespace can set them, and a backup
//! tool that clones a namespace copies them. Only the operator writes the status of the OpenStackDeployment, so the
//! status names the releases of the cloud.

use std::collections::BTreeSet;

use super::ceph::rook;
use super::selection::release_names;
use super::snapshot::Snapshot;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::desired::Selection;
use osdpl_core::observed::{Observed, ObservedRelease, ReleaseKey};
use osdpl_core::release::Status;
use osdpl_values::CollectSorted;

/// Returns the releases of the cloud that the status of the OpenStackDeployment names; an empty set if the status has
/// no list of releases.
pub fn owned_releases(deployment: &OpenStackDeployment) -> BTreeSet<ReleaseKey> {
    listed(deployment).unwrap_or_default()
}

/// Returns the releases of the cloud that the status of the OpenStackDeployment names; `None` if the status has no list
/// of releases.
///
/// The status lacks the list in two cases: the status is lost, or osdpl has not decided about the releases of a new
/// cloud yet.
fn listed(deployment: &OpenStackDeployment) -> Option<BTreeSet<ReleaseKey>> {
    let names = deployment.status.as_ref()?.owned_releases.as_ref()?;
    Some(names.iter().filter_map(|name| name.parse().ok()).collect_set())
}

/// Returns the list of the cloud's releases that osdpl writes to the status while it refuses the spec: an empty list if
/// the cloud is new; otherwise `None`, so that osdpl does not change the list.
///
/// The cloud is new if the status has no list, and no release record has osdpl's labels. If the status has no list, but
/// records have the labels, the status could be lost. A refused spec does not always name all releases, so only a later
/// pass can find out which releases belong to the cloud.
pub(crate) fn owned_with_refused_spec(snapshot: &Snapshot) -> Option<BTreeSet<ReleaseKey>> {
    let is_new =
        listed(&snapshot.deployment).is_none() && !snapshot.observed.releases.values().any(ObservedRelease::is_ours);
    is_new.then(BTreeSet::new)
}

/// Returns the namespaces in which the cloud can have releases and objects.
///
/// These are the namespace of the OpenStackDeployment, the namespaces that its status names, the namespace of Rook's
/// Ceph cluster, and the namespace that each release of the catalogue has or would have under the spec.
pub(crate) fn namespaces(deployment: &OpenStackDeployment, selection: &Selection) -> BTreeSet<String> {
    let releases = owned_releases(deployment).into_iter().chain(release_names(selection).into_keys());
    let rook = rook::settings(selection).map(|rook| rook.namespace);
    releases.map(|key| key.namespace).chain([selection.namespace.clone()]).chain(rook).collect_set()
}

/// Stores in `observed` which releases belong to the cloud.
///
/// The function ignores osdpl's labels on a release in three cases:
///
/// * Neither the spec nor the status names the namespace of the release.
/// * The spec selects the release, but the list in the status does not name it. osdpl has not installed this release,
///   so somebody else set the labels. A person can adopt the release, like any release of another owner.
/// * The status has no list, and the spec selects the release, but its record says that an uninstall is unfinished.
///   osdpl can't know whether it began this uninstall itself, or somebody forged the record. If osdpl continued the
///   uninstall, helm would run the hooks in the record.
///
/// During a deletion, only the first case applies: such a release makes the deletion wait until a person decides about
/// the release.
///
/// The function ignores labels by removing them from `observed`. It does not change the records in the cluster.
///
/// If the status has no list, for example after a restore from a backup without the status, a release belongs to the
/// cloud if the spec selects the release and its records have osdpl's labels. The spec may by now give the release
/// another namespace or name ([`find_record`]).
pub(crate) fn claim(observed: &mut Observed, deployment: &OpenStackDeployment, selection: &Selection) {
    let listed = listed(deployment);
    let selected = || selection.releases.values();
    let namespaces: BTreeSet<&str> = listed
        .iter()
        .flatten()
        .chain(selected())
        .map(|key| key.namespace.as_str())
        .chain([selection.namespace.as_str()])
        .collect_set();
    let is_deleting = deployment.metadata.deletion_timestamp.is_some();
    let is_forged = |key: &ReleaseKey, release: &ObservedRelease| {
        let is_doubtful = match &listed {
            Some(listed) => !listed.contains(key),
            None => release.status == Status::Uninstalling,
        };
        is_doubtful && !is_deleting && selected().any(|selected| selected == key)
    };
    for (key, release) in &mut observed.releases {
        if !namespaces.contains(key.namespace.as_str()) || is_forged(key, release) {
            disown(release);
        }
    }
    if listed.is_none() {
        let records = selection.releases.iter().filter_map(|(name, key)| find_record(observed, name, key));
        observed.recognized = records.cloned().collect_set();
    }
    observed.owned = listed.unwrap_or_else(|| observed.recognized.clone());
}

/// Returns the installed release that has osdpl's labels and is the release `name` of the catalogue; `None` if there is
/// none.
///
/// `selected` contains the namespace and name that the spec gives the release. But an installed release can have
/// another namespace or name, because osdpl refuses to move or rename it. So if the release `selected` lacks osdpl's
/// labels, the function searches for a release with osdpl's labels and another namespace or name.
///
/// The search skips a release whose uninstall has begun, because osdpl does not refuse a new namespace or name for such
/// a release. If the function returned the release with the old namespace or name, the release would belong to the
/// cloud, and osdpl would uninstall it, because the spec no longer selects it.
fn find_record<'a>(observed: &'a Observed, name: &String, selected: &'a ReleaseKey) -> Option<&'a ReleaseKey> {
    if observed.releases.get(selected).is_some_and(ObservedRelease::is_ours) {
        return Some(selected);
    }
    let is_installed = |release: &ObservedRelease| {
        release.attempt.is_some() && !matches!(release.status, Status::Uninstalling | Status::Uninstalled)
    };
    let mut installed = observed.releases.iter().filter(|(_, release)| is_installed(release));
    installed.find(|(_, release)| release.release.as_ref() == Some(name)).map(|(key, _)| key)
}

/// Removes the data that comes from osdpl's labels, so that osdpl treats the observed release as made by someone else.
fn disown(release: &mut ObservedRelease) {
    *release = ObservedRelease {
        status: release.status,
        revision: release.revision,
        created_at: release.created_at,
        was_deployed: release.was_deployed,
        history: std::mem::take(&mut release.history),
        body: release.body.take(),
        undecodable: release.undecodable.take(),
        ..ObservedRelease::default()
    };
}

#[cfg(test)]
mod tests {
    use osdpl_core::catalog::Catalog;
    use osdpl_core::desired::select;
    use osdpl_core::plan::{Reason, Step, Wait};
    use osdpl_core::testing::observed_release;
    use serde_json::{Value, json};

    use super::*;
    use crate::Plan;
    use crate::tests::{complete, deleting_nova, snapshot};

    /// Returns the observed state after [`claim`]. The cluster has the releases in `releases`, and their records have
    /// osdpl's labels. Each item is a pair: `namespace/name`, and the value of the label with the release's name in the
    /// catalogue; `None` if the record lacks this label, but has the others. The spec selects `store` and `front` in
    /// the namespace `openstack`.
    fn claimed(releases: &[(&str, Option<&str>)], status: &Value) -> Observed {
        claimed_with(releases, status, &json!({}))
    }

    /// Returns the observed state as [`claimed`] does. `metadata` is added to the metadata of the OpenStackDeployment.
    fn claimed_with(releases: &[(&str, Option<&str>)], status: &Value, metadata: &Value) -> Observed {
        claimed_records(releases, status, metadata, |_| {})
    }

    /// Returns the observed state as [`claimed_with`] does. `change` changes each observed release before the call of
    /// [`claim`].
    fn claimed_records(
        releases: &[(&str, Option<&str>)],
        status: &Value,
        metadata: &Value,
        change: fn(&mut ObservedRelease),
    ) -> Observed {
        let spec = json!({"openstackRelease": "2026.1", "presets": ["small"]});
        let mut object = json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": "nimbus", "namespace": "openstack"}, "spec": spec, "status": status,
        });
        osdpl_values::merge(
            object.as_object_mut().unwrap(),
            json!({"metadata": metadata}).as_object().unwrap().clone(),
        );
        let deployment: OpenStackDeployment = serde_json::from_value(object).unwrap();
        let catalog = Catalog::load(&osdpl_core::testing::files(&[])).unwrap();
        let mut observed = Observed::default();
        for (key, name) in releases {
            let release = name.map(str::to_owned);
            let mut release = ObservedRelease { release, ..observed_release(Status::Deployed) };
            change(&mut release);
            observed.releases.insert(key.parse().unwrap(), release);
        }
        claim(&mut observed, &deployment, &select("nimbus", "openstack", &deployment.spec, &catalog));
        observed
    }

    fn deleted() -> Value {
        json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})
    }

    fn ours(observed: &Observed) -> Vec<String> {
        let ours = observed.releases.iter().filter(|(_, release)| release.is_ours());
        ours.map(|(key, _)| key.to_string()).collect()
    }

    fn owned(observed: &Observed) -> Vec<String> {
        observed.owned.iter().map(ToString::to_string).collect()
    }

    fn recognized(observed: &Observed) -> Vec<String> {
        observed.recognized.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ignores_labels_in_namespaces_that_neither_spec_nor_status_names() {
        let all = ["openstack/store", "tenant/store", "old/front"].map(|key| (key, None));
        let observed = claimed(&all, &json!({"ownedReleases": ["openstack/store"]}));
        assert_eq!(ours(&observed), ["openstack/store"]);
        assert_eq!(observed.releases.len(), 3, "helm's own data of the other releases stays");
        let moved = claimed(&all, &json!({"ownedReleases": ["old/front", "openstack/store"]}));
        assert_eq!(ours(&moved), ["old/front", "openstack/store"]);
    }

    #[test]
    fn only_the_status_makes_an_unselected_release_part_of_the_cloud() {
        let observed = claimed(&[("openstack/extra", None)], &json!({"ownedReleases": ["openstack/store"]}));
        assert_eq!(
            (ours(&observed), owned(&observed)),
            (vec!["openstack/extra".into()], vec!["openstack/store".into()])
        );
    }

    #[test]
    fn only_the_status_makes_a_selected_release_part_of_the_cloud() {
        let both = || ["openstack/store", "openstack/front"].map(|key| (key, None));
        for listed in [vec!["openstack/store"], Vec::new()] {
            let status = json!({"ownedReleases": listed});
            let observed = claimed(&both(), &status);
            assert_eq!(
                (ours(&observed), owned(&observed)),
                (
                    listed.iter().map(|key| (*key).to_owned()).collect(),
                    listed.iter().map(|key| (*key).to_owned()).collect()
                ),
                "the status does not name the other releases, so somebody else wrote their labels"
            );
            let observed = claimed_with(&both(), &status, &deleted());
            assert_eq!(ours(&observed), ["openstack/front", "openstack/store"], "the deletion waits for a decision");
            assert_eq!(
                (owned(&observed), recognized(&observed)),
                (listed.iter().map(|key| (*key).to_owned()).collect(), Vec::new())
            );
        }
    }

    #[test]
    fn recognizes_selected_releases_without_a_status() {
        for status in [Value::Null, json!({"message": "restored"})] {
            let all = ["openstack/store", "openstack/extra", "tenant/front"].map(|key| (key, None));
            let observed = claimed(&all, &status);
            assert_eq!((owned(&observed), recognized(&observed)), (vec!["openstack/store".into()], owned(&observed)));
        }
    }

    #[test]
    fn does_not_recognize_an_unfinished_uninstall() {
        let records = [("openstack/store", Some("store")), ("openstack/base", Some("front"))];
        let claimed = |metadata: &Value| {
            claimed_records(&records, &Value::Null, metadata, |release| release.status = Status::Uninstalling)
        };
        let observed = claimed(&json!({}));
        assert_eq!((ours(&observed), owned(&observed)), (vec!["openstack/base".into()], Vec::new()));
        let observed = claimed(&deleted());
        assert_eq!(ours(&observed), ["openstack/base", "openstack/store"], "the deletion waits for a decision");
        assert_eq!(recognized(&observed), ["openstack/store"]);
    }

    #[test]
    fn recognizes_renamed_releases_only_without_a_status() {
        let base = || vec![("openstack/base", Some("store"))];
        assert_eq!(owned(&claimed(&base(), &Value::Null)), ["openstack/base"]);
        let both = [base(), vec![("openstack/store", Some("store"))]].concat();
        assert_eq!(owned(&claimed(&both, &Value::Null)), ["openstack/store"]);
        for listed in [vec!["openstack/front"], Vec::new()] {
            assert_eq!(owned(&claimed(&base(), &json!({"ownedReleases": listed}))), listed);
        }
        let foreign = |release: &mut ObservedRelease| release.attempt = None;
        let observed = claimed_records(&base(), &Value::Null, &json!({}), foreign);
        assert_eq!(
            (ours(&observed), owned(&observed)),
            (base().iter().map(|(key, _)| (*key).to_owned()).collect(), Vec::new())
        );
    }

    /// Returns the complete plan for a cloud in which somebody has forged a release record of `store`. `change` is
    /// merged into the OpenStackDeployment.
    fn plan_with_forged(change: Value) -> Plan {
        let mut snapshot = snapshot(change);
        snapshot.observed.releases.insert("openstack/store".parse().unwrap(), observed_release(Status::Deployed));
        complete(&mut snapshot)
    }

    #[test]
    fn new_cloud_lists_no_releases() {
        let paused = json!({"spec": {"paused": true}});
        let refused = json!({"spec": {"services": {"unknown": {}}}});
        let unapproved = json!({"spec": {"approval": "Always"}});
        for spec in [paused, refused, unapproved] {
            let plan = complete(&mut snapshot(spec.clone()));
            assert_eq!(plan.owned, Some(BTreeSet::new()), "{spec}");
            let mut known = spec.clone();
            known["status"] = json!({"ownedReleases": []});
            let plan = plan_with_forged(known);
            assert!(plan.owned.unwrap_or_default().is_empty(), "a record forged later does not belong to the cloud");
        }
        let refused = plan_with_forged(json!({"spec": {"services": {"unknown": {}}}}));
        assert_eq!(refused.owned, None, "a refused spec may not name all releases, so a later pass recognizes them");
    }

    #[test]
    fn deletion_without_a_status_uninstalls_only_after_approval() {
        let lost = |annotations: Value| {
            let change = json!({"metadata": {"annotations": annotations}, "status": {"ownedReleases": null}});
            deleting_nova(change, Some(Ok(None)))
        };
        let plan = complete(&mut lost(json!({})));
        let waits = |plan: &Plan| {
            let waits = |decision: &osdpl_core::plan::Decision| {
                matches!(decision.step, Step::Wait(Wait::Approval(Reason::NotOwned) | Wait::Dependents(_)))
            };
            plan.releases.decisions.values().all(waits)
        };
        assert!(waits(&plan), "{:?}", plan.releases);
        assert_eq!(plan.owned, None, "the status must not name the releases before the approval");

        let approved = json!({"osdpl.dev/approve": plan.releases.hash});
        let plan = complete(&mut lost(approved.clone()));
        assert!(!waits(&plan), "{:?}", plan.releases);
        let both = ["openstack/keystone", "openstack/nova"].map(|key| key.parse().unwrap());
        assert_eq!(plan.owned, Some(both.into()), "the approval applies to all uninstalls");
        let mut with_instances = lost(approved);
        with_instances.instances = deleting_nova(json!({}), Some(Ok(Some("web")))).instances;
        let plan = complete(&mut with_instances);
        assert!(plan.deleting.unwrap().starts_with("Nova has instances, such as web"));
    }
}
