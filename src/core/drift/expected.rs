//! Determines, from a release's manifest, which objects and fields must exist in the cluster. So osdpl notices objects
//! that someone deleted, and fields that someone removed.

use std::collections::BTreeMap;

use osdpl_values::CollectSorted;

use super::{DriftedObject, ObjectId, find_kind};
use crate::release::{Field, Object, ReleaseKey};

/// The fields that a release's manifest sets in one object: the path of each field, and the number of fields with this
/// path. Fields in different items of a list have the same path.
///
/// In the cluster, the object's `managedFields` list the owners of each field. If `managedFields` have fewer owners for
/// a path than the manifest has fields, someone removed a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedFields(pub Box<[Field]>);

impl ExpectedFields {
    /// Returns the fields of an object that must have an owner (a writer in `managedFields`) in the cluster.
    ///
    /// After server-side apply, these are all `fields`. In client-side apply (`server_side` is false), the API server
    /// drops fields that it does not know, without an error. A dropped field has no owner, although nobody removed it.
    /// So the result then contains only fields that the API server always keeps: the fields below `data`, and
    /// `spec.replicas`.
    fn new(fields: &[Field], server_side: bool) -> Self {
        let kept = |path: &str| server_side || path.starts_with("data.") || path == "spec.replicas";
        Self(fields.iter().filter(|(path, _)| kept(path)).cloned().collect())
    }
}

/// The drift of a release: the objects that someone changed outside of helm since helm installed the revision
/// `revision`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedDrift {
    /// The number of the revision with whose manifest osdpl compared the objects in the cluster.
    pub revision: i64,
    /// The objects that someone changed outside of helm since helm installed this revision, sorted.
    pub objects: Vec<DriftedObject>,
}

/// Returns the objects of a release's manifest that osdpl watches for drift, each with the fields that must exist in
/// the cluster.
///
/// The result leaves out objects with `helm.sh/resource-policy: keep`, because several releases can share such an
/// object. It also leaves out Jobs with a TTL, because Kubernetes deletes such a Job some time after the Job finishes.
/// `server_side` says whether helm applied the manifest with server-side apply.
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
    .collect_map()
}
