//! Plans to write and delete the `ConfigMap`s and Secrets that osdpl provides so that pods can use Ceph.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use osdpl_core::api::{DEPLOYMENT_LABEL, ValuesKind};
use osdpl_core::ceph::{self, NotReady, Object};
use osdpl_core::observed::ReleaseKey;
use osdpl_values::CollectSorted;

use crate::action::{Action, Kind, Planned};
use crate::draft::Draft;
use crate::namespaces::unusable;
use crate::objects::ObjectState;
use crate::requests::{Read, Reference, Response, Stored};

/// The label of the `ConfigMap`s and Secrets that osdpl writes so that pods can use Ceph.
///
/// The label distinguishes these Secrets from the Secrets in which osdpl stores credentials.
pub const CEPH_COMPONENT: (&str, &str) = ("app.kubernetes.io/component", "ceph");

/// The data of a Secret or `ConfigMap` as strings, by key.
type Data = BTreeMap<String, String>;

/// Plans to write each of `objects` that does not exist in the cluster, or whose data in the cluster differs from the
/// desired data.
///
/// If osdpl must not overwrite one of the existing objects, the function plans nothing and returns the problem. osdpl
/// must not overwrite an object that lacks osdpl's label for the cloud `owner` and has other data, or an object that
/// belongs to another Ceph cluster.
///
/// If osdpl can't write into the namespace of an object, the function skips the object and adds a problem to the draft.
pub(crate) fn write(draft: &mut Draft<'_>, owner: &str, objects: &[Object]) -> Option<NotReady> {
    let mut different = Vec::new();
    for object in objects {
        if let Some(problem) = unusable(draft.snapshot, &object.namespace) {
            draft.problems.push(format!("{object} can't be written: {problem}"));
            continue;
        }
        match live_object(draft, object, owner) {
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
        draft.add(Planned::new(Action::WriteObject(object.clone()), "pods mount this object to use Ceph"));
    }
    None
}

/// The state in the cluster of an object that osdpl wants to write.
enum Live {
    /// osdpl has not read the object yet.
    Unread,
    /// The object does not exist.
    Absent,
    /// The object has osdpl's label for this cloud. Contains the object's data.
    Ours(Data),
    /// The object lacks osdpl's label for this cloud. Contains the object's data.
    Foreign(Data),
}

fn reference(object: &Object) -> Reference {
    let kind = if object.kind == ceph::Kind::ConfigMap { ValuesKind::ConfigMap } else { ValuesKind::Secret };
    Reference { kind, namespace: object.namespace.clone(), name: object.name.clone() }
}

/// Returns the state of `object` in the cluster. The state comes from a watch or, if no watch lists the object, from a
/// one-off read.
fn live_object(draft: &mut Draft<'_>, object: &Object, owner: &str) -> Live {
    let known = &draft.snapshot.objects;
    let key = ReleaseKey::new(&object.namespace, &object.name);
    let ours = match object.kind {
        ceph::Kind::ConfigMap => known.maps.get(&key).map(|map| live_config_map(map, owner)),
        ceph::Kind::Secret | ceph::Kind::Opaque => known.secrets.get(&key).map(|secret| live_secret(secret, owner)),
    };
    if let Some(live) = ours {
        return live;
    }
    let reference = reference(object);
    if let Some(ObjectState::Read(data)) = known.foreign.get(&reference) {
        return Live::Foreign(texts(data.iter().map(|(key, value)| (key, value.as_slice()))));
    }
    match draft.read(Read::Stored(reference)).map(|received| &received.response) {
        Some(Response::Stored(Stored::Secret(secret))) => live_secret(secret, owner),
        Some(Response::Stored(Stored::Map(map))) => live_config_map(map, owner),
        Some(Response::Stored(Stored::Nothing)) => Live::Absent,
        _ => Live::Unread,
    }
}

fn live_config_map(map: &ConfigMap, owner: &str) -> Live {
    let data = map.data.clone().unwrap_or_default();
    if is_of(map, owner) { Live::Ours(data) } else { Live::Foreign(data) }
}

fn live_secret(secret: &Secret, owner: &str) -> Live {
    let data = texts(secret.data.iter().flatten().map(|(key, value)| (key, value.0.as_slice())));
    if is_of(secret, owner) { Live::Ours(data) } else { Live::Foreign(data) }
}

fn texts<'a>(data: impl Iterator<Item = (&'a String, &'a [u8])>) -> Data {
    data.map(|(key, bytes)| (key.clone(), String::from_utf8_lossy(bytes).into_owned())).collect_map()
}

fn is_of(object: &impl ResourceExt, owner: &str) -> bool {
    object.labels().get(DEPLOYMENT_LABEL).is_some_and(|label| label == owner)
}

/// Plans to delete the objects that belong to the cloud `owner` and have the label [`CEPH_COMPONENT`], except for the
/// objects in `kept`.
pub(crate) fn delete_except(draft: &mut Draft<'_>, owner: &str, kept: &[Object]) {
    let objects = &draft.snapshot.objects;
    let is_kept = |kind: Kind, key: &ReleaseKey| {
        kept.iter().any(|object| {
            object.kind.name() == kind.name() && object.namespace == key.namespace && object.name == key.name
        })
    };
    // Skip an object that is already being deleted. The finalizer of another controller may keep it in the cluster for
    // a long time.
    let is_left = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_none();
    let maps = objects.maps.iter().filter(|(_, map)| is_of_ceph(&***map, owner) && is_left(&map.metadata));
    let secrets = objects.secrets.iter();
    let secrets = secrets.filter(|(_, secret)| is_of_ceph(&***secret, owner) && is_left(&secret.metadata));
    let maps = maps.map(|(key, map)| (Kind::ConfigMap, key, map.uid()));
    let obsolete = maps.chain(secrets.map(|(key, secret)| (Kind::Secret, key, secret.uid())));
    for (kind, key, uid) in obsolete.filter(|(kind, key, _)| !is_kept(*kind, key)) {
        let action = Action::Delete { kind, key: key.clone(), uid: uid.unwrap_or_default() };
        draft.add(Planned::new(action, "no release mounts this object any more"));
    }
}

/// Returns whether an object belongs to the cloud `owner` and has the label [`CEPH_COMPONENT`].
pub(crate) fn is_of_ceph(object: &impl ResourceExt, owner: &str) -> bool {
    is_of(object, owner) && object.labels().get(CEPH_COMPONENT.0).is_some_and(|component| component == CEPH_COMPONENT.1)
}
