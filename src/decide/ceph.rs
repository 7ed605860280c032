//! Ceph: read out of the Secret that the spec names, or asked of Rook; written for the charts, withdrawn when no release mounts it any more.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::Value;

use super::action::{Action, Kind, Planned};
use super::draft::Draft;
use super::requests::{Answer, FRESH, Read, Reference, Stored};
use super::snapshot::{Data as Bytes, ObjectState, Objects};
use super::spec::policy;
use super::store;
use osdpl_core::api::{DEPLOYMENT_LABEL, OpenStackDeploymentSpec, ValuesKind};
use osdpl_core::ceph::{
    self, Ceph, Consumer, DeclaredCeph, Manifest, NotReady, Object, ObjectStore, RookSettings, contains,
};
use osdpl_core::desired::{Desired, Facts, Selection, Unavailable};
use osdpl_core::observed::{Observed, ReleaseKey};

/// The kind that says what the Ceph is, and how it is.
pub const CLUSTER: &str = "CephCluster";

/// The kind of an object store of Rook.
pub const STORE: &str = "CephObjectStore";

/// The label that tells Ceph's objects from Secrets with credentials, which have our label as well.
pub const COMPONENT: (&str, &str) = ("app.kubernetes.io/component", "ceph");

/// An object's text by key.
type Data = BTreeMap<String, String>;

/// The objects that describe the Ceph of a spec: a Secret, or those of Rook.
pub fn references(spec: &OpenStackDeploymentSpec, namespace: &str) -> Vec<Reference> {
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

/// The Rook that the features name, where Ceph is used.
pub fn rook(selection: &Selection) -> Option<RookSettings> {
    let storage = selection.features.get("storage").filter(|storage| storage["backend"] == "ceph")?;
    RookSettings::from_feature(&storage["ceph"])
}

/// The namespace of Rook and the kinds to watch there, where the spec names a Rook.
pub fn watched(spec: &OpenStackDeploymentSpec) -> Option<(String, Vec<&'static str>)> {
    let rook = feature(spec).and_then(RookSettings::from_feature)?;
    let has_store = feature(spec).and_then(ObjectStore::from_feature).is_some();
    Some((rook.namespace, if has_store { vec![CLUSTER, STORE] } else { vec![CLUSTER] }))
}

fn feature(spec: &OpenStackDeploymentSpec) -> Option<&Value> {
    spec.features.get("storage").and_then(|storage| storage.get("ceph"))
}

fn consumers(selection: &Selection) -> BTreeSet<Consumer> {
    ceph::consumers(selection.releases.keys().map(String::as_str))
}

/// What those objects say; none where no Ceph is used.
pub fn declared(objects: &Objects, spec: &OpenStackDeploymentSpec, selection: &Selection) -> Option<DeclaredCeph> {
    if let Some(rook) = rook(selection) {
        let clusters = objects.rooks(CLUSTER).map(|clusters| {
            clusters.iter().map(|(name, object)| ceph::Cluster::from_object(&rook.namespace, name, object)).collect()
        });
        let answer = rook.read(&consumers(selection), clusters, |name| of_rook(objects, &rook, name));
        return Some(DeclaredCeph::from_rook(answer).with_gateway(store::of_rook(objects, &rook, selection)));
    }
    let is_used = selection.features.get("storage").is_some_and(|storage| storage["backend"] == "ceph");
    let reference = references(spec, &selection.namespace).into_iter().next().filter(|_| is_used)?;
    let data = objects.all(&reference).map_err(|problem| problem.to_string());
    let object = format!("{}/{}", reference.namespace, reference.name);
    let gateway = data.as_ref().ok().and_then(|data| store::of_secret(&object, data, selection));
    Some(ceph::read_declared_ceph(&object, data, selection.releases.keys().map(String::as_str)).with_gateway(gateway))
}

/// An object that Rook makes.
fn of_rook(objects: &Objects, rook: &RookSettings, name: &str) -> Result<Bytes, String> {
    let reference = match name {
        ceph::ENDPOINTS => endpoints(rook),
        name => Reference { kind: ValuesKind::Secret, namespace: rook.namespace.clone(), name: name.to_owned() },
    };
    objects.all(&reference).map_err(|problem| match problem {
        Unavailable::Missing(_) => format!("{reference} does not exist yet"),
        Unavailable::Unusable(problem) => problem,
    })
}

/// The objects that are written for the charts.
fn objects(ceph: &Ceph, selection: &Selection) -> Vec<Object> {
    ceph::desired_objects(ceph, &selection.namespace, &namespaces(selection))
}

/// The same without the objects that only paused releases mount: these stay as they are.
fn mounted(ceph: &Ceph, selection: &Selection, paused: &BTreeSet<String>) -> Vec<Object> {
    let mut namespaces = namespaces(selection);
    namespaces.retain(|release, _| !paused.contains(*release));
    ceph::desired_objects(ceph, &selection.namespace, &namespaces)
}

/// The namespace of each release, by the catalogue's name.
fn namespaces(selection: &Selection) -> BTreeMap<&str, &str> {
    selection.releases.iter().map(|(name, key)| (name.as_str(), key.namespace.as_str())).collect()
}

/// Plans what Rook is asked for and what the charts mount. What is in the way, or not made yet, makes the Ceph unusable.
pub fn hand_on(draft: &mut Draft<'_>, declared: &mut DeclaredCeph, selection: &Selection, facts: &Facts) {
    let paused = policy(&draft.snapshot.deployment).paused_releases;
    if let Some(rook) = rook(selection) {
        ask(draft, &rook, declared, selection);
    }
    if let Ok(ceph) = &declared.settings
        && let Some(problem) = write(draft, &selection.name, &mounted(ceph, selection, &paused))
    {
        declared.settings = Err(problem);
    }
    store::hand_back(draft, declared, selection, facts);
    let looks_again = matches!(
        declared.not_ready_reason(),
        Some(NotReady::Occupied(_) | NotReady::Rook(_) | NotReady::OtherCeph { .. })
    );
    draft.wake(draft.snapshot.now.checked_add(FRESH).ok().filter(|_| looks_again));
}

/// What came of asking Rook.
enum Asked {
    /// All exists.
    Done,
    /// Rook has not made it yet.
    Pending(String),
    /// It can't be asked for.
    Refused(NotReady),
}

/// Asks Rook. Pools that are not ready hold back a cloud that never ran, not one that runs.
fn ask(draft: &mut Draft<'_>, rook: &RookSettings, declared: &mut DeclaredCeph, selection: &Selection) {
    let mut pending = None;
    for manifest in rook.manifests(&consumers(selection)) {
        match ask_for(draft, &selection.name, rook, manifest) {
            Asked::Done => {}
            Asked::Pending(problem) => drop(pending.get_or_insert(problem)),
            Asked::Refused(problem) => {
                declared.settings = Err(problem);
                return;
            }
        }
    }
    // Nothing is made where there is no cluster; that is reported already.
    let Some(problem) = pending.filter(|_| declared.cluster.is_some()) else { return };
    let is_handed_on = |object: &Object| {
        draft.snapshot.objects.secrets.contains_key(&ReleaseKey::new(&object.namespace, &object.name))
    };
    let runs = declared.settings.as_ref().is_ok_and(|ceph| objects(ceph, selection).iter().any(is_handed_on));
    let problem = NotReady::Rook(problem);
    if runs {
        declared.warning.get_or_insert(problem);
    } else {
        declared.settings = Err(problem);
    }
}

fn ask_for(draft: &mut Draft<'_>, deployment: &str, rook: &RookSettings, manifest: Manifest) -> Asked {
    let place = format!("{} {}/{}", manifest.kind, rook.namespace, manifest.name);
    let read = Read::Rook(manifest.kind, ReleaseKey::new(&rook.namespace, &manifest.name));
    let live = match draft.read(read).map(|answered| &answered.answer) {
        Some(Answer::Rook(Ok(live))) => live,
        Some(Answer::Rook(Err(error))) => return Asked::Refused(NotReady::Rook(error.clone())),
        _ => return Asked::Pending(format!("{place} is being read")),
    };
    if let Some(live) = live {
        if live["metadata"]["labels"][DEPLOYMENT_LABEL].as_str() != Some(deployment) {
            return Asked::Refused(NotReady::Occupied(place));
        }
        if contains(&live["spec"], &manifest.spec) {
            let phase = live["status"]["phase"].as_str().unwrap_or("not looked at yet");
            let problem = || format!("{place} is {phase}; Rook's operator says why in its log");
            return if phase == "Ready" { Asked::Done } else { Asked::Pending(problem()) };
        }
    }
    let action = Action::ApplyRook { namespace: rook.namespace.clone(), manifest };
    match draft.attempt(Planned::new(action, "releases keep their data there")) {
        Some(refusal) => Asked::Refused(NotReady::Rook(refusal.message.clone())),
        None => Asked::Pending(format!("{place} was asked for; Rook has not made it yet")),
    }
}

/// Plans what differs, but nothing where an object that is not ours is in the way and says something else, or where the charts were given another
/// Ceph: the first such trouble is returned.
pub fn write(draft: &mut Draft<'_>, deployment: &str, objects: &[Object]) -> Option<NotReady> {
    let mut different = Vec::new();
    for object in objects {
        match held(draft, object, deployment) {
            Held::Unread => {}
            Held::Foreign(data) if object.is_equivalent_to(&data) => {
                draft.requests.occupants.insert(reference(object));
            }
            Held::Foreign(_) => return Some(NotReady::Occupied(object.to_string())),
            Held::Ours(data) if data == object.data => {}
            Held::Ours(data) => {
                if let Some(problem) = object.other_ceph_error(&data) {
                    return Some(problem);
                }
                different.push(object);
            }
            Held::Absent => different.push(object),
        }
    }
    for object in different {
        draft.add(Planned::new(Action::WriteObject(object.clone()), "charts that use Ceph mount it"));
    }
    None
}

/// What exists in place of an object.
enum Held {
    Unread,
    Absent,
    Ours(Data),
    Foreign(Data),
}

fn reference(object: &Object) -> Reference {
    let kind = if object.kind == ceph::Kind::ConfigMap { ValuesKind::ConfigMap } else { ValuesKind::Secret };
    Reference { kind, namespace: object.namespace.clone(), name: object.name.clone() }
}

/// What exists there: as a watch says, of ours or of an object that was left to others; else as the API server has it.
fn held(draft: &mut Draft<'_>, object: &Object, deployment: &str) -> Held {
    let known = &draft.snapshot.objects;
    let key = ReleaseKey::new(&object.namespace, &object.name);
    let ours = match object.kind {
        ceph::Kind::ConfigMap => known.maps.get(&key).map(|map| of_map(map, deployment)),
        ceph::Kind::Secret | ceph::Kind::Opaque => known.secrets.get(&key).map(|secret| of_secret(secret, deployment)),
    };
    if let Some(held) = ours {
        return held;
    }
    let reference = reference(object);
    if let Some(ObjectState::Read(data)) = known.occupants.get(&reference) {
        return Held::Foreign(texts(data.iter().map(|(key, value)| (key, value.as_slice()))));
    }
    match draft.read(Read::Stored(reference)).map(|answered| &answered.answer) {
        Some(Answer::Stored(Stored::Secret(secret))) => of_secret(secret, deployment),
        Some(Answer::Stored(Stored::Map(map))) => of_map(map, deployment),
        Some(Answer::Stored(Stored::Nothing)) => Held::Absent,
        _ => Held::Unread,
    }
}

fn of_map(map: &ConfigMap, deployment: &str) -> Held {
    let data = map.data.clone().unwrap_or_default();
    if is_of(map, deployment) { Held::Ours(data) } else { Held::Foreign(data) }
}

fn of_secret(secret: &Secret, deployment: &str) -> Held {
    let data = texts(secret.data.iter().flatten().map(|(key, value)| (key, value.0.as_slice())));
    if is_of(secret, deployment) { Held::Ours(data) } else { Held::Foreign(data) }
}

fn texts<'a>(data: impl Iterator<Item = (&'a String, &'a [u8])>) -> Data {
    data.map(|(key, bytes)| (key.clone(), String::from_utf8_lossy(bytes).into_owned())).collect()
}

fn is_of(object: &impl ResourceExt, deployment: &str) -> bool {
    object.labels().get(DEPLOYMENT_LABEL).is_some_and(|owner| owner == deployment)
}

/// Plans to withdraw what nothing mounts any more: only once every release runs with what is desired, because until then pods that start
/// anew mount it. A Ceph that can't be read withdraws nothing.
pub fn withdraw(
    draft: &mut Draft<'_>,
    declared: Option<&DeclaredCeph>,
    selection: &Selection,
    (desired, observed): (&Desired, &Observed),
) {
    let ceph = match declared.map(|declared| &declared.settings) {
        Some(Err(_)) => return,
        Some(Ok(ceph)) => Some(ceph),
        None => None,
    };
    let wanted = ceph.map(|ceph| objects(ceph, selection)).unwrap_or_default();
    let (back, store) = store::kept(declared, selection);
    let wanted: Vec<Object> = wanted.into_iter().chain(back).collect();
    let names: Vec<String> =
        wanted.iter().map(Object::to_string).chain(store.iter().map(ToString::to_string)).collect();
    if draft.paused || draft.kept.ceph.as_ref() == Some(&names) || !is_settled(desired, observed) {
        return;
    }
    let taken = ceph.map(|ceph| ceph::chart_owned_secrets(ceph, &namespaces(selection))).unwrap_or_default();
    let kept: Vec<Object> = wanted.into_iter().chain(taken).collect();
    let is_unanswered = draft.list(Read::OwnStores).is_none();
    let before = draft.actions.len();
    store::release(draft, store.as_ref());
    remove(draft, &selection.name, &kept);
    if draft.actions.len() == before && !is_unanswered {
        draft.kept.ceph = Some(names);
    }
}

/// Plans to delete the objects of Ceph that are not kept.
pub fn remove(draft: &mut Draft<'_>, deployment: &str, kept: &[Object]) {
    let objects = &draft.snapshot.objects;
    let is_kept = |kind: Kind, key: &ReleaseKey| {
        kept.iter().any(|object| {
            object.kind.name() == kind.name() && object.namespace == key.namespace && object.name == key.name
        })
    };
    // Finalizers of others may keep deleted objects for long.
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

/// Whether it is an object of Ceph that this resource made.
pub fn is_of_ceph(object: &impl ResourceExt, deployment: &str) -> bool {
    is_of(object, deployment) && object.labels().get(COMPONENT.0).is_some_and(|component| component == COMPONENT.1)
}

/// Whether every release of ours is desired and runs with the desired inputs.
fn is_settled(desired: &Desired, observed: &Observed) -> bool {
    let mut ours = observed.releases.iter().filter(|(_, seen)| seen.is_ours());
    observed.running.is_empty()
        && ours.all(|(key, seen)| {
            let wanted = desired.releases.values().find(|release| release.key == *key);
            let same = wanted.is_some_and(|wanted| seen.inputs.as_deref() == Some(wanted.inputs.as_str()));
            same && seen.status == "deployed"
        })
}
