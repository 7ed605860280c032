//! Reads the settings of Ceph from a Secret or from Rook, and plans the `ConfigMap`s and Secrets that pods mount to use
//! Ceph.
//!
//! When no release mounts such a `ConfigMap` or Secret any more, osdpl deletes it.

mod mounted;
mod object_store;
pub(crate) mod rook;

use std::collections::{BTreeMap, BTreeSet};

use osdpl_values::CollectSorted;
use serde_json::Value;

use super::draft::Draft;
use super::needed::Needed;
use super::objects::Objects;
use super::requests::{FRESH, Read, Reference};
use super::selection::paused_releases;
use osdpl_core::api::{OpenStackDeploymentSpec, ValuesKind};
use osdpl_core::ceph::{self, Ceph, Consumer, DeclaredCeph, NotReady, Object, ObjectStore, RookSettings};
use osdpl_core::desired::{Desired, Facts, Selection};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::release::Status;

pub use mounted::CEPH_COMPONENT;
pub(crate) use mounted::{delete_except, is_of_ceph};
pub(crate) use object_store::{release as release_object_stores, used_by_foreign};
pub use rook::OBJECT_STORE;
use rook::{CLUSTER, RequestState};

/// Returns references to the objects that contain the settings of the Ceph cluster that the spec declares: a Secret, or
/// objects of Rook.
pub(crate) fn references(spec: &OpenStackDeploymentSpec, namespace: &str) -> Vec<Reference> {
    let Some(feature) = feature(spec) else { return Vec::new() };
    let secret =
        |namespace: &str, name: String| Reference { kind: ValuesKind::Secret, namespace: namespace.to_owned(), name };
    match RookSettings::from_feature(feature) {
        Some(rook) => {
            let secrets = rook.secrets().into_iter().map(|name| secret(&rook.namespace, name));
            secrets.chain([rook::endpoints(&rook)]).collect()
        }
        None => feature["secret"]["name"].as_str().map(|name| secret(namespace, name.to_owned())).into_iter().collect(),
    }
}

/// Returns the namespace of Rook and the kinds of objects to watch there; `None` if the spec does not declare a Ceph
/// cluster of Rook.
pub(crate) fn watched(spec: &OpenStackDeploymentSpec) -> Option<(String, Vec<&'static str>)> {
    let rook = feature(spec).and_then(RookSettings::from_feature)?;
    let has_store = feature(spec).and_then(ObjectStore::from_feature).is_some();
    Some((rook.namespace, if has_store { vec![CLUSTER, OBJECT_STORE] } else { vec![CLUSTER] }))
}

fn feature(spec: &OpenStackDeploymentSpec) -> Option<&Value> {
    spec.features.get("storage").and_then(|storage| storage.get("ceph"))
}

fn consumers(selection: &Selection) -> BTreeSet<Consumer> {
    ceph::consumers(selection.releases.keys().map(String::as_str))
}

/// Returns the settings of the Ceph cluster that the spec declares, or why osdpl can't read the settings; `None` if the
/// cloud does not use Ceph.
pub(crate) fn declared(
    objects: &Objects,
    spec: &OpenStackDeploymentSpec,
    selection: &Selection,
) -> Option<DeclaredCeph> {
    if let Some(rook) = rook::settings(selection) {
        let clusters = objects.rook_objects(CLUSTER).map(|clusters| {
            clusters.iter().map(|(name, object)| ceph::Cluster::from_object(&rook.namespace, name, object)).collect()
        });
        let (settings, cluster) = rook.read(&consumers(selection), clusters, |name| rook::data(objects, &rook, name));
        let gateway = object_store::rook_gateway(objects, &rook, selection);
        return Some(DeclaredCeph::from_rook(settings, cluster).with_gateway(gateway));
    }
    let is_used = selection.features.get("storage").is_some_and(|storage| storage["backend"] == "ceph");
    let reference = references(spec, &selection.namespace).into_iter().next().filter(|_| is_used)?;
    let data = objects.all(&reference).map_err(|problem| problem.to_string());
    let object = format!("{}/{}", reference.namespace, reference.name);
    let releases = selection.releases.keys().map(String::as_str);
    Some(ceph::read_declared_ceph(&object, data, releases, selection.object_store().as_ref()))
}

/// Returns the `ConfigMap`s and Secrets that the pods of all selected releases mount to use Ceph.
fn objects(ceph: &Ceph, selection: &Selection) -> Vec<Object> {
    ceph::desired_objects(ceph, &selection.namespace, &namespaces(selection), stores_images_in_volumes(selection))
}

/// Whether glance stores images in volumes of cinder. If so, `values/features/images.yaml` mounts cinder's key in
/// glance's pods.
fn stores_images_in_volumes(selection: &Selection) -> bool {
    let backends = selection.features.get("images").and_then(|images| images["backends"].as_array());
    backends.into_iter().flatten().any(|backend| backend["type"] == "cinder")
}

/// Returns the namespace of each selected release, by its name in the catalogue.
fn namespaces(selection: &Selection) -> BTreeMap<&str, &str> {
    selection.releases.iter().map(|(name, key)| (name.as_str(), key.namespace.as_str())).collect_map()
}

/// Plans the pools and users that osdpl requests from Rook, the objects that pods mount to use Ceph, and the objects
/// and settings of Ceph's object store.
///
/// If an object belongs to somebody else or does not exist yet, the function stores in `declared` why Ceph is not
/// ready.
pub(crate) fn plan_ceph_objects(
    draft: &mut Draft<'_>,
    declared: &mut DeclaredCeph,
    selection: &Selection,
    facts: &Facts,
) {
    // Leave out paused releases: osdpl must not change objects that only paused releases use.
    let paused = paused_releases(&draft.snapshot.deployment.spec);
    let mut namespaces = namespaces(selection);
    namespaces.retain(|release, _| !paused.contains(*release));
    if let Some(rook) = rook::settings(selection) {
        let active = ceph::consumers(namespaces.keys().copied());
        request_from_rook(draft, &rook, &active, declared, selection);
    }
    if let Ok(ceph) = &declared.settings {
        let images_in_volumes = stores_images_in_volumes(selection);
        let objects = ceph::desired_objects(ceph, &selection.namespace, &namespaces, images_in_volumes);
        if let Some(problem) = mounted::write(draft, &selection.owner(), &objects) {
            declared.settings = Err(problem);
        }
    }
    if !paused.contains(object_store::RELEASE) {
        object_store::provide(draft, declared, selection, facts);
    }
    // No watch reports that one of the following problems is solved, so a later pass must check again.
    let needs_requeue = matches!(
        declared.not_ready_reason(),
        Some(NotReady::Occupied(_) | NotReady::Rook(_) | NotReady::OtherCeph { .. })
    );
    draft.requeue(draft.snapshot.now.checked_add(FRESH).ok().filter(|_| needs_requeue));
}

/// Plans the objects that osdpl requests from Rook: the pools and users of the consumers in `active`.
///
/// Before the first installation, the releases that use Ceph wait until every pool and user is ready. Later, a pool or
/// user that is not ready only causes a warning.
fn request_from_rook(
    draft: &mut Draft<'_>,
    rook: &RookSettings,
    active: &BTreeSet<Consumer>,
    declared: &mut DeclaredCeph,
    selection: &Selection,
) {
    let mut pending = None;
    for manifest in rook.manifests(&consumers(selection), active) {
        match rook::request(draft, &selection.owner(), rook, manifest) {
            RequestState::Ready => {}
            RequestState::Pending(problem) => drop(pending.get_or_insert(problem)),
            RequestState::Refused(problem) => {
                declared.settings = Err(problem);
                return;
            }
        }
    }
    // Without a CephCluster, Rook creates nothing. osdpl already reports that the CephCluster is missing, so it does
    // not report the pools and users that wait for Rook.
    let Some(problem) = pending.filter(|_| declared.cluster.is_some()) else { return };
    let is_written = |object: &Object| {
        draft.snapshot.objects.secrets.contains_key(&ReleaseKey::new(&object.namespace, &object.name))
    };
    let is_installed = declared.settings.as_ref().is_ok_and(|ceph| objects(ceph, selection).iter().any(is_written));
    let problem = NotReady::Rook(problem);
    if is_installed {
        declared.warning.get_or_insert(problem);
    } else {
        declared.settings = Err(problem);
    }
}

/// Plans to delete the objects that osdpl wrote for Ceph and that no release mounts any more.
///
/// The deletion waits until every release runs with the desired inputs, because pods of an old revision may still mount
/// the objects. If osdpl can't read Ceph's settings, it deletes nothing. It never deletes the objects in `needed`.
pub(crate) fn plan_ceph_cleanup(
    draft: &mut Draft<'_>,
    declared: Option<&DeclaredCeph>,
    selection: &Selection,
    desired: &Desired,
    observed: &Observed,
    needed: &Needed,
) {
    let ceph = match declared.map(|declared| &declared.settings) {
        Some(Err(_)) => return,
        Some(Ok(ceph)) => Some(ceph),
        None => None,
    };
    let mut mounted = ceph.map(|ceph| objects(ceph, selection)).unwrap_or_default();
    let (gateway_objects, store) = object_store::desired(declared, selection);
    mounted.extend(gateway_objects);
    mounted.extend(needed.ceph.iter().cloned());
    let names: Vec<String> =
        mounted.iter().map(Object::to_string).chain(store.iter().map(ToString::to_string)).collect();
    if draft.paused || draft.kept.ceph.as_ref() == Some(&names) || !is_settled(desired, observed) {
        return;
    }
    mounted.extend(ceph.iter().flat_map(|ceph| ceph::chart_owned_secrets(ceph, &namespaces(selection))));
    let is_incomplete = draft.list(Read::OwnStores).is_none();
    let before = draft.actions.len();
    if !needed.store {
        object_store::release(draft, store.as_ref());
    }
    delete_except(draft, &selection.owner(), &mounted);
    if draft.actions.len() == before && !is_incomplete {
        draft.kept.ceph = Some(names);
    }
}

/// Returns whether no helm process runs, and every release that osdpl made is desired and runs with the desired inputs.
fn is_settled(desired: &Desired, observed: &Observed) -> bool {
    let mut ours = observed.releases.iter().filter(|(_, existing)| existing.is_ours());
    observed.running.is_empty()
        && ours.all(|(key, existing)| {
            let release = desired.releases.values().find(|release| release.key == *key);
            let is_current = release.is_some_and(|release| existing.inputs.as_deref() == Some(release.inputs.as_str()));
            is_current && existing.status == Status::Deployed
        })
}

#[cfg(test)]
mod tests {
    use osdpl_core::desired::select;
    use serde_json::json;

    use super::*;

    #[test]
    fn copies_the_key_of_volumes_to_glance_if_it_stores_images_in_volumes() {
        let catalog = osdpl_core::files::load_catalog(None).unwrap();
        let in_glances_namespace = |backends: Value| {
            let spec = json!({
                "openstackRelease": "2026.1", "presets": ["storage"],
                "features": {"storage": {"backend": "ceph"}, "images": {"backends": backends}},
                "services": {"glance": {"releases": {"glance": {"namespace": "images"}}}},
            });
            let selection = select("nimbus", "openstack", &serde_json::from_value(spec).unwrap(), &catalog);
            let objects = objects(&ceph::example(), &selection).into_iter();
            let of_glance = objects.filter(|object| object.namespace == "images").map(|object| object.name);
            of_glance.collect::<Vec<_>>()
        };
        assert_eq!(in_glances_namespace(json!([{"type": "ceph"}])), ["ceph-etc", "images-rbd-keyring"]);
        let both = json!([{"type": "ceph"}, {"type": "cinder"}]);
        assert_eq!(in_glances_namespace(both), ["ceph-etc", "cinder-volume-rbd-keyring", "images-rbd-keyring"]);
    }
}
