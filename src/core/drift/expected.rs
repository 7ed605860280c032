//! Determines which objects and fields of a release must exist in the cluster; also the type for the drift that was
//! found.

use std::collections::BTreeMap;

use super::{DriftedObject, ObjectId, find_kind};
use crate::release::{Field, Object, ReleaseKey};

/// The fields that the manifest sets in one object. If such a field has no owner in the cluster, someone removed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedFields(pub Box<[Field]>);

impl ExpectedFields {
    /// Selects those of an object's fields that must have an owner in the cluster.
    ///
    /// If helm used client-side apply (`server_side` is false), the API server may have silently dropped unknown
    /// fields. So osdpl then expects only fields that the API server always keeps: `data` and `spec.replicas`.
    fn new(fields: &[Field], server_side: bool) -> Self {
        let kept = |path: &str| server_side || path.starts_with("data.") || path == "spec.replicas";
        Self(fields.iter().filter(|(path, _)| kept(path)).cloned().collect())
    }
}

/// The drift of a release since helm installed one of its revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedDrift {
    /// The revision with whose manifest osdpl compared the objects.
    pub revision: i64,
    /// The objects that someone changed since that revision, sorted.
    pub objects: Vec<DriftedObject>,
}

/// Returns the objects of a release's manifest that osdpl watches for drift, each with the expected fields.
///
/// Two sorts of objects are left out: those with `helm.sh/resource-policy: keep`, which several releases may share, and
/// Jobs with a TTL, which Kubernetes may have deleted. `server_side` says whether helm used server-side apply.
pub fn list_watched_objects(
    manifest: &[Object],
    release: &ReleaseKey,
    server_side: bool,
) -> BTreeMap<ObjectId, ExpectedFields> {
    let own = manifest.iter().filter(|object| !object.keep && !object.expires);
    own.filter_map(|object| {
        let kind = find_kind(&object.api_version, &object.kind)?;
        let namespace = object.namespace.as_ref().unwrap_or(&release.namespace);
        let namespace = if kind.namespaced { namespace.clone() } else { String::new() };
        Some((
            ObjectId { kind, namespace, name: object.name.clone() },
            ExpectedFields::new(&object.fields, server_side),
        ))
    })
    .collect()
}
