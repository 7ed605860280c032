//! Decides which releases belong to the cloud.
//!
//! The labels of a release record prove nothing: anyone who may write Secrets in a namespace can set them, and a backup
//! tool that clones a namespace copies them. Only the operator writes the resource's status, so the status names the
//! releases of the cloud.

use std::collections::BTreeSet;

use super::ceph::rook;
use super::resource::release_names;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::desired::Selection;
use osdpl_core::observed::{Observed, ObservedRelease, ReleaseKey};
use osdpl_values::CollectSorted;

/// Returns the releases of the cloud that the resource's status names.
pub fn owned_releases(deployment: &OpenStackDeployment) -> BTreeSet<ReleaseKey> {
    let names = deployment.status.iter().flat_map(|status| &status.owned_releases);
    names.filter_map(|name| name.parse().ok()).collect_set()
}

/// Returns the namespaces in which the cloud may have releases and objects.
///
/// These are the namespace of the resource, the namespaces that the status names, the namespace of Rook's Ceph cluster,
/// and the namespace that each release of the catalogue has or would have under the spec.
pub(crate) fn namespaces(deployment: &OpenStackDeployment, selection: &Selection) -> BTreeSet<String> {
    let releases = owned_releases(deployment).into_iter().chain(release_names(selection).into_keys());
    let rook = rook::settings(selection).map(|rook| rook.namespace);
    releases.map(|key| key.namespace).chain([selection.namespace.clone()]).chain(rook).collect_set()
}

/// Stores in `observed` which releases belong to the cloud.
///
/// The function ignores osdpl's labels on a release in two cases:
///
/// * Neither the spec nor the status names the namespace of the release.
/// * The spec selects the release, but the status does not name it. osdpl has not installed this release, so somebody
///   else set the labels. A person can adopt the release, like any release of another owner.
///
/// The function removes ignored labels only from `observed`, not from the objects in the cluster.
///
/// The status may name no release at all, for example after a restore from a backup without the status. Then a release
/// belongs to the cloud if the spec selects the release and its records have osdpl's labels.
pub(crate) fn claim(observed: &mut Observed, deployment: &OpenStackDeployment, selection: &Selection) {
    let mut owned = owned_releases(deployment);
    let selected = || selection.releases.values();
    let namespaces: BTreeSet<&str> = owned
        .iter()
        .chain(selected())
        .map(|key| key.namespace.as_str())
        .chain([selection.namespace.as_str()])
        .collect_set();
    // During a deletion, do not ignore the labels of a selected release that the status does not name. Then the
    // deletion waits until a person decides about the release.
    let has_forged = |key: &ReleaseKey| {
        let is_foreign = !owned.is_empty() && !owned.contains(key);
        is_foreign && deployment.metadata.deletion_timestamp.is_none() && selected().any(|selected| selected == key)
    };
    for (key, release) in &mut observed.releases {
        if !namespaces.contains(key.namespace.as_str()) || has_forged(key) {
            disown(release);
        }
    }
    if owned.is_empty() {
        owned =
            selection.releases.iter().filter_map(|(name, key)| find_record(observed, name, key)).cloned().collect_set();
    }
    observed.owned = owned;
}

/// Returns the installed release that has osdpl's labels and is the release `name` of the catalogue; `None` if there is
/// none.
///
/// `selected` contains the namespace and name that the spec gives the release. But osdpl refuses to move or rename an
/// installed release. So if the release `selected` lacks osdpl's labels, the function searches for a release with
/// osdpl's labels and another namespace or name.
fn find_record<'a>(observed: &'a Observed, name: &String, selected: &'a ReleaseKey) -> Option<&'a ReleaseKey> {
    let mut ours = observed.releases.iter().filter(|(_, release)| release.is_ours());
    if observed.releases.get(selected).is_some_and(ObservedRelease::is_ours) {
        return Some(selected);
    }
    ours.find(|(_, release)| release.release.as_ref() == Some(name)).map(|(key, _)| key)
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
    use osdpl_core::release::Status;
    use osdpl_core::testing::observed_release;
    use serde_json::{Value, json};

    use super::*;

    /// Returns the observed state after [`claim`]. In the cluster, the records of `releases` have osdpl's labels. The
    /// label with the catalogue name of the release may be missing. The spec selects `store` and `front` in the
    /// namespace `openstack`.
    fn claimed(releases: &[(&str, Option<&str>)], status: &Value) -> Observed {
        claimed_with(releases, status, &json!({}))
    }

    /// Returns the observed state as [`claimed`] does. `metadata` contains additional metadata of the resource.
    fn claimed_with(releases: &[(&str, Option<&str>)], status: &Value, metadata: &Value) -> Observed {
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
            let release = ObservedRelease { release, ..observed_release(Status::Deployed) };
            observed.releases.insert(key.parse().unwrap(), release);
        }
        claim(&mut observed, &deployment, &select("nimbus", "openstack", &deployment.spec, &catalog));
        observed
    }

    fn ours(observed: &Observed) -> Vec<String> {
        let ours = observed.releases.iter().filter(|(_, release)| release.is_ours());
        ours.map(|(key, _)| key.to_string()).collect()
    }

    fn owned(observed: &Observed) -> Vec<String> {
        observed.owned.iter().map(ToString::to_string).collect()
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
        let status = json!({"ownedReleases": ["openstack/store"]});
        let observed = claimed(&both(), &status);
        assert_eq!(
            (ours(&observed), owned(&observed)),
            (vec!["openstack/store".into()], vec!["openstack/store".into()]),
            "the status does not name front, so somebody else wrote the labels of front"
        );
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let observed = claimed_with(&both(), &status, &deleted);
        assert_eq!(ours(&observed), ["openstack/front", "openstack/store"], "the deletion waits for a decision");
        assert_eq!(owned(&observed), ["openstack/store"]);
    }

    #[test]
    fn recognizes_selected_releases_without_a_status() {
        for status in [Value::Null, json!({"message": "restored"})] {
            let all = ["openstack/store", "openstack/extra", "tenant/front"].map(|key| (key, None));
            let observed = claimed(&all, &status);
            assert_eq!(owned(&observed), ["openstack/store"]);
        }
    }

    #[test]
    fn recognizes_renamed_releases_only_without_a_status() {
        let base = || vec![("openstack/base", Some("store"))];
        assert_eq!(owned(&claimed(&base(), &Value::Null)), ["openstack/base"]);
        let both = [base(), vec![("openstack/store", Some("store"))]].concat();
        assert_eq!(owned(&claimed(&both, &Value::Null)), ["openstack/store"]);
        let status = json!({"ownedReleases": ["openstack/front"]});
        assert_eq!(owned(&claimed(&base(), &status)), ["openstack/front"]);
    }
}
