//! Reads the objects of Rook, and requests Ceph pools and users from Rook.

use osdpl_core::api::{DEPLOYMENT_LABEL, ValuesKind};
use osdpl_core::ceph::{self, Manifest, NotReady, RookSettings, contains};
use osdpl_core::desired::{Selection, Unavailable};
use osdpl_core::observed::ReleaseKey;

use crate::action::{Action, Planned};
use crate::draft::Draft;
use crate::objects::{Data, Objects};
use crate::requests::{Read, Reference, Response};

/// The kind of Rook's resource that describes a Ceph cluster.
pub(super) const CLUSTER: &str = "CephCluster";

/// The kind of Rook's resource that describes an object store.
pub const OBJECT_STORE: &str = "CephObjectStore";

/// Returns the settings of Rook from the feature `storage`; `None` if the cloud does not use a Ceph cluster of Rook.
pub(crate) fn settings(selection: &Selection) -> Option<RookSettings> {
    let storage = selection.features.get("storage").filter(|storage| storage["backend"] == "ceph")?;
    RookSettings::from_feature(&storage["ceph"])
}

/// Returns a reference to the `ConfigMap` in which Rook stores the addresses of the monitors.
pub(super) fn endpoints(rook: &RookSettings) -> Reference {
    Reference { kind: ValuesKind::ConfigMap, namespace: rook.namespace.clone(), name: ceph::ENDPOINTS.into() }
}

/// Returns the data of a Secret or `ConfigMap` that Rook creates; `None` if the object does not exist. An error says
/// why osdpl can't read the object.
pub(super) fn data(objects: &Objects, rook: &RookSettings, name: &str) -> Result<Option<Data>, String> {
    let reference = match name {
        ceph::ENDPOINTS => endpoints(rook),
        name => Reference { kind: ValuesKind::Secret, namespace: rook.namespace.clone(), name: name.to_owned() },
    };
    match objects.all(&reference) {
        Ok(data) => Ok(Some(data)),
        Err(Unavailable::Missing(_)) => Ok(None),
        Err(Unavailable::Unusable(problem)) => Err(problem),
    }
}

/// The state of an object that osdpl requests from Rook, such as a pool.
pub(super) enum RequestState {
    /// Rook reports that the object is ready.
    Ready,
    /// osdpl has not read or applied the object yet, or Rook does not report that it is ready. Contains the reason.
    Pending(String),
    /// osdpl can't read or apply the object, or must not apply it, because it belongs to someone else. Contains the
    /// reason.
    Refused(NotReady),
}

/// Plans to apply an object that osdpl requests from Rook, unless the object already has the requested spec. Returns
/// the state of the object.
pub(super) fn request(draft: &mut Draft<'_>, owner: &str, rook: &RookSettings, manifest: Manifest) -> RequestState {
    let object = format!("{} {}/{}", manifest.kind, rook.namespace, manifest.name);
    let read = Read::Rook(manifest.kind, ReleaseKey::new(&rook.namespace, &manifest.name));
    let live = match draft.read(read).map(|received| &received.response) {
        Some(Response::Rook(Ok(live))) => live,
        Some(Response::Rook(Err(error))) => return RequestState::Refused(NotReady::Rook(error.clone())),
        _ => return RequestState::Pending(format!("{object} is being read")),
    };
    if let Some(live) = live {
        if live["metadata"]["labels"][DEPLOYMENT_LABEL].as_str() != Some(owner) {
            return RequestState::Refused(NotReady::Occupied(object));
        }
        if contains(&live["spec"], &manifest.spec) {
            let phase = live["status"]["phase"].as_str().unwrap_or("not processed yet");
            let problem = || format!("{object} is {phase}; the log of Rook's operator contains the reason");
            return if phase == "Ready" { RequestState::Ready } else { RequestState::Pending(problem()) };
        }
    }
    let action = Action::ApplyRook { namespace: rook.namespace.clone(), manifest };
    match draft.attempt_for_spec(Planned::new(action, "releases store their data in Ceph")) {
        Some(refusal) => RequestState::Refused(NotReady::Rook(refusal.message.clone())),
        None => {
            RequestState::Pending(format!("{object} does not exist yet, or does not have the spec that osdpl requests"))
        }
    }
}
