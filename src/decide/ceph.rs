//! Ceph: osdpl reads its settings from a Secret or from Rook, and writes the objects that charts mount. It deletes
//! those objects when no release mounts them any more.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::Value;

use super::action::{Action, Kind, Planned};
use super::draft::Draft;
use super::object_store;
use super::objects::{Data as Bytes, ObjectState, Objects};
use super::requests::{FRESH, Read, Reference, Response, Stored};
use super::resource::paused_releases;
use osdpl_core::api::{DEPLOYMENT_LABEL, OpenStackDeploymentSpec, ValuesKind};
use osdpl_core::ceph::{
    self, Ceph, Consumer, DeclaredCeph, Manifest, NotReady, Object, ObjectStore, RookSettings, contains,
};
use osdpl_core::desired::{Desired, Facts, Selection, Unavailable};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::release::Status;

/// Rook's kind of a Ceph cluster.
const CLUSTER: &str = "CephCluster";

/// Rook's kind of an object store.
pub const OBJECT_STORE: &str = "CephObjectStore";

/// The label of the objects that osdpl writes for Ceph.
///
/// It distinguishes them from the Secrets with credentials, which osdpl writes too.
pub const CEPH_COMPONENT: (&str, &str) = ("app.kubernetes.io/component", "ceph");

/// The texts in a Secret or `ConfigMap`, by key.
type Data = BTreeMap<String, String>;

/// Returns the objects that describe the Ceph cluster of a spec: a Secret, or objects of Rook.
pub(crate) fn references(spec: &OpenStackDeploymentSpec, namespace: &str) -> Vec<Reference> {
    let Some(feature) = feature(spec) else { return Vec::new() };
    let secret =
        |namespace: &str, name: String| Reference { kind: ValuesKind::Secret, namespace: namespace.to_owned(), name };
    match RookSettings::from_feature(feature) {
        Some(rook) => {
            let secrets = rook.secrets().into_iter().map(|name| secret(&rook.namespace, name));
            secrets.chain([endpoints(&rook)]).collect()
        }
        None => feature["secret"]["name"].as_str().map(|name| secret(namespace, name.to_owned())).into_iter().collect(),
    }
}

fn endpoints(rook: &RookSettings) -> Reference {
    Reference { kind: ValuesKind::ConfigMap, namespace: rook.namespace.clone(), name: ceph::ENDPOINTS.into() }
}

/// Returns the settings of Rook; `None` if the cloud does not use Ceph by Rook.
pub(crate) fn rook(selection: &Selection) -> Option<RookSettings> {
    let storage = selection.features.get("storage").filter(|storage| storage["backend"] == "ceph")?;
    RookSettings::from_feature(&storage["ceph"])
}

/// Returns the namespace of Rook and the kinds of objects to watch there; `None` if the spec does not name Rook.
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

/// Returns the Ceph cluster that the spec declares, as far as the watched objects describe it; `None` if the cloud uses
/// no Ceph.
pub(crate) fn declared(
    objects: &Objects,
    spec: &OpenStackDeploymentSpec,
    selection: &Selection,
) -> Option<DeclaredCeph> {
    if let Some(rook) = rook(selection) {
        let clusters = objects.rook_objects(CLUSTER).map(|clusters| {
            clusters.iter().map(|(name, object)| ceph::Cluster::from_object(&rook.namespace, name, object)).collect()
        });
        let settings = rook.read(&consumers(selection), clusters, |name| rook_data(objects, &rook, name));
        let gateway = object_store::rook_gateway(objects, &rook, selection);
        return Some(DeclaredCeph::from_rook(settings).with_gateway(gateway));
    }
    let is_used = selection.features.get("storage").is_some_and(|storage| storage["backend"] == "ceph");
    let reference = references(spec, &selection.namespace).into_iter().next().filter(|_| is_used)?;
    let data = objects.all(&reference).map_err(|problem| problem.to_string());
    let object = format!("{}/{}", reference.namespace, reference.name);
    let releases = selection.releases.keys().map(String::as_str);
    Some(ceph::read_declared_ceph(&object, data, releases, selection.object_store().as_ref()))
}

/// Returns the data of a Secret or `ConfigMap` that Rook creates; an error says why it is not available.
fn rook_data(objects: &Objects, rook: &RookSettings, name: &str) -> Result<Bytes, String> {
    let reference = match name {
        ceph::ENDPOINTS => endpoints(rook),
        name => Reference { kind: ValuesKind::Secret, namespace: rook.namespace.clone(), name: name.to_owned() },
    };
    objects.all(&reference).map_err(|problem| match problem {
        Unavailable::Missing(_) => format!("{reference} does not exist yet"),
        Unavailable::Unusable(problem) => problem,
    })
}

/// Returns the objects that the charts of all selected releases mount to use Ceph.
fn objects(ceph: &Ceph, selection: &Selection) -> Vec<Object> {
    ceph::desired_objects(ceph, &selection.namespace, &namespaces(selection))
}

/// Returns the namespace of each selected release, by its name in the catalogue.
fn namespaces(selection: &Selection) -> BTreeMap<&str, &str> {
    selection.releases.iter().map(|(name, key)| (name.as_str(), key.namespace.as_str())).collect()
}

/// Plans the objects that osdpl requests from Rook, and those that charts mount.
///
/// If one belongs to somebody else or does not exist yet, `declared` reports that Ceph is not ready.
pub(crate) fn plan_ceph_objects(
    draft: &mut Draft<'_>,
    declared: &mut DeclaredCeph,
    selection: &Selection,
    facts: &Facts,
) {
    if let Some(rook) = rook(selection) {
        request_from_rook(draft, &rook, declared, selection);
    }
    if let Ok(ceph) = &declared.settings {
        // Objects that only paused releases mount must stay as they are, so these releases are left out.
        let paused = paused_releases(&draft.snapshot.deployment.spec);
        let mut namespaces = namespaces(selection);
        namespaces.retain(|release, _| !paused.contains(*release));
        let objects = ceph::desired_objects(ceph, &selection.namespace, &namespaces);
        if let Some(problem) = write(draft, &selection.name, &objects) {
            declared.settings = Err(problem);
        }
    }
    object_store::provide(draft, declared, selection, facts);
    // No watch reports that these three problems are solved.
    let needs_requeue = matches!(
        declared.not_ready_reason(),
        Some(NotReady::Occupied(_) | NotReady::Rook(_) | NotReady::OtherCeph { .. })
    );
    draft.requeue(draft.snapshot.now.checked_add(FRESH).ok().filter(|_| needs_requeue));
}

/// The state of an object that osdpl requests from Rook, such as a pool.
enum RookState {
    /// Rook reports that the object is ready.
    Ready,
    /// Rook has not created the object yet, or it is not ready. Contains the reason.
    Pending(String),
    /// osdpl can't apply the object. Contains the reason.
    Refused(NotReady),
}

/// Plans the objects that osdpl requests from Rook: pools and users.
///
/// A pool that is not ready blocks only the first installation. Later it is a warning.
fn request_from_rook(draft: &mut Draft<'_>, rook: &RookSettings, declared: &mut DeclaredCeph, selection: &Selection) {
    let mut pending = None;
    for manifest in rook.manifests(&consumers(selection)) {
        match request_object(draft, &selection.name, rook, manifest) {
            RookState::Ready => {}
            RookState::Pending(problem) => drop(pending.get_or_insert(problem)),
            RookState::Refused(problem) => {
                declared.settings = Err(problem);
                return;
            }
        }
    }
    // Without a CephCluster Rook creates nothing. That problem is reported already.
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

/// Plans one object that osdpl requests from Rook; returns its state.
fn request_object(draft: &mut Draft<'_>, deployment: &str, rook: &RookSettings, manifest: Manifest) -> RookState {
    let object = format!("{} {}/{}", manifest.kind, rook.namespace, manifest.name);
    let read = Read::Rook(manifest.kind, ReleaseKey::new(&rook.namespace, &manifest.name));
    let live = match draft.read(read).map(|received| &received.response) {
        Some(Response::Rook(Ok(live))) => live,
        Some(Response::Rook(Err(error))) => return RookState::Refused(NotReady::Rook(error.clone())),
        _ => return RookState::Pending(format!("{object} is being read")),
    };
    if let Some(live) = live {
        if live["metadata"]["labels"][DEPLOYMENT_LABEL].as_str() != Some(deployment) {
            return RookState::Refused(NotReady::Occupied(object));
        }
        if contains(&live["spec"], &manifest.spec) {
            let phase = live["status"]["phase"].as_str().unwrap_or("not processed yet");
            let problem = || format!("{object} is {phase}; the log of Rook's operator contains the reason");
            return if phase == "Ready" { RookState::Ready } else { RookState::Pending(problem()) };
        }
    }
    let action = Action::ApplyRook { namespace: rook.namespace.clone(), manifest };
    match draft.attempt(Planned::new(action, "releases keep their data there")) {
        Some(refusal) => RookState::Refused(NotReady::Rook(refusal.message.clone())),
        None => RookState::Pending(format!("{object} was requested; Rook has not created it yet")),
    }
}

/// Plans to write the objects that differ from the cluster; returns the first problem, and then plans nothing.
///
/// A problem is an object without osdpl's label that has other data, and an object that belongs to another Ceph
/// cluster.
pub(crate) fn write(draft: &mut Draft<'_>, deployment: &str, objects: &[Object]) -> Option<NotReady> {
    let mut different = Vec::new();
    for object in objects {
        match live_object(draft, object, deployment) {
            Live::Unread => {}
            Live::Foreign(data) if object.is_equivalent_to(&data) => {
                draft.requests.foreign.insert(reference(object));
            }
            Live::Foreign(_) => return Some(NotReady::Occupied(object.to_string())),
            Live::Ours(data) if data == object.data => {}
            Live::Ours(data) => {
                if let Some(problem) = object.other_ceph_error(&data) {
                    return Some(problem);
                }
                different.push(object);
            }
            Live::Absent => different.push(object),
        }
    }
    for object in different {
        draft.add(Planned::new(Action::WriteObject(object.clone()), "charts that use Ceph mount it"));
    }
    None
}

/// The object in the cluster that has the name of a desired one.
enum Live {
    /// The object was not read yet.
    Unread,
    /// The object does not exist.
    Absent,
    /// The object has osdpl's label. Contains its data.
    Ours(Data),
    /// The object lacks osdpl's label. Contains its data.
    Foreign(Data),
}

fn reference(object: &Object) -> Reference {
    let kind = if object.kind == ceph::Kind::ConfigMap { ValuesKind::ConfigMap } else { ValuesKind::Secret };
    Reference { kind, namespace: object.namespace.clone(), name: object.name.clone() }
}

/// Returns the object in the cluster, from a watch or, if no watch has it, from a one-off read.
fn live_object(draft: &mut Draft<'_>, object: &Object, deployment: &str) -> Live {
    let known = &draft.snapshot.objects;
    let key = ReleaseKey::new(&object.namespace, &object.name);
    let ours = match object.kind {
        ceph::Kind::ConfigMap => known.maps.get(&key).map(|map| live_config_map(map, deployment)),
        ceph::Kind::Secret | ceph::Kind::Opaque => {
            known.secrets.get(&key).map(|secret| live_secret(secret, deployment))
        }
    };
    if let Some(live) = ours {
        return live;
    }
    let reference = reference(object);
    if let Some(ObjectState::Read(data)) = known.foreign.get(&reference) {
        return Live::Foreign(texts(data.iter().map(|(key, value)| (key, value.as_slice()))));
    }
    match draft.read(Read::Stored(reference)).map(|received| &received.response) {
        Some(Response::Stored(Stored::Secret(secret))) => live_secret(secret, deployment),
        Some(Response::Stored(Stored::Map(map))) => live_config_map(map, deployment),
        Some(Response::Stored(Stored::Nothing)) => Live::Absent,
        _ => Live::Unread,
    }
}

fn live_config_map(map: &ConfigMap, deployment: &str) -> Live {
    let data = map.data.clone().unwrap_or_default();
    if is_of(map, deployment) { Live::Ours(data) } else { Live::Foreign(data) }
}

fn live_secret(secret: &Secret, deployment: &str) -> Live {
    let data = texts(secret.data.iter().flatten().map(|(key, value)| (key, value.0.as_slice())));
    if is_of(secret, deployment) { Live::Ours(data) } else { Live::Foreign(data) }
}

fn texts<'a>(data: impl Iterator<Item = (&'a String, &'a [u8])>) -> Data {
    data.map(|(key, bytes)| (key.clone(), String::from_utf8_lossy(bytes).into_owned())).collect()
}

fn is_of(object: &impl ResourceExt, deployment: &str) -> bool {
    object.labels().get(DEPLOYMENT_LABEL).is_some_and(|owner| owner == deployment)
}

/// Plans to delete the objects for Ceph that no release mounts any more, once every release runs with the desired
/// inputs.
///
/// Until then, new pods of an old revision still mount them. If Ceph's settings can't be read, nothing is deleted.
pub(crate) fn plan_ceph_cleanup(
    draft: &mut Draft<'_>,
    declared: Option<&DeclaredCeph>,
    selection: &Selection,
    desired: &Desired,
    observed: &Observed,
) {
    let ceph = match declared.map(|declared| &declared.settings) {
        Some(Err(_)) => return,
        Some(Ok(ceph)) => Some(ceph),
        None => None,
    };
    let mut mounted = ceph.map(|ceph| objects(ceph, selection)).unwrap_or_default();
    let (gateway_objects, store) = object_store::desired(declared, selection);
    mounted.extend(gateway_objects);
    let names: Vec<String> =
        mounted.iter().map(Object::to_string).chain(store.iter().map(ToString::to_string)).collect();
    if draft.paused || draft.kept.ceph.as_ref() == Some(&names) || !is_settled(desired, observed) {
        return;
    }
    mounted.extend(ceph.iter().flat_map(|ceph| ceph::chart_owned_secrets(ceph, &namespaces(selection))));
    let is_incomplete = draft.list(Read::OwnStores).is_none();
    let before = draft.actions.len();
    object_store::release(draft, store.as_ref());
    delete_except(draft, &selection.name, &mounted);
    if draft.actions.len() == before && !is_incomplete {
        draft.kept.ceph = Some(names);
    }
}

/// Plans to delete the objects that osdpl wrote for Ceph, except for `kept`.
pub(crate) fn delete_except(draft: &mut Draft<'_>, deployment: &str, kept: &[Object]) {
    let objects = &draft.snapshot.objects;
    let is_kept = |kind: Kind, key: &ReleaseKey| {
        kept.iter().any(|object| {
            object.kind.name() == kind.name() && object.namespace == key.namespace && object.name == key.name
        })
    };
    // The finalizer of another controller may keep a deleted object for long. It is not deleted again.
    let is_left = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_none();
    let maps = objects.maps.iter().filter(|(_, map)| is_of_ceph(&***map, deployment) && is_left(&map.metadata));
    let secrets = objects.secrets.iter();
    let secrets = secrets.filter(|(_, secret)| is_of_ceph(&***secret, deployment) && is_left(&secret.metadata));
    let maps = maps.map(|(key, _)| (Kind::ConfigMap, key));
    let obsolete = maps.chain(secrets.map(|(key, _)| (Kind::Secret, key)));
    let obsolete: Vec<(Kind, ReleaseKey)> =
        obsolete.filter(|(kind, key)| !is_kept(*kind, key)).map(|(kind, key)| (kind, key.clone())).collect();
    for (kind, key) in obsolete {
        draft.add(Planned::new(Action::Delete { kind, key }, "no release mounts it any more"));
    }
}

/// Returns whether osdpl wrote the object for the Ceph of this resource.
pub(crate) fn is_of_ceph(object: &impl ResourceExt, deployment: &str) -> bool {
    is_of(object, deployment)
        && object.labels().get(CEPH_COMPONENT.0).is_some_and(|component| component == CEPH_COMPONENT.1)
}

/// Returns whether every release that osdpl made is desired and runs with the desired inputs.
fn is_settled(desired: &Desired, observed: &Observed) -> bool {
    let mut ours = observed.releases.iter().filter(|(_, existing)| existing.is_ours());
    observed.running.is_empty()
        && ours.all(|(key, existing)| {
            let release = desired.releases.values().find(|release| release.key == *key);
            let is_current = release.is_some_and(|release| existing.inputs.as_deref() == Some(release.inputs.as_str()));
            is_current && existing.status == Status::Deployed
        })
}
