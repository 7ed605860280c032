//! The expected objects of a release, and the drift that was found.

use std::collections::BTreeMap;

use super::{DriftedObject, ObjectId, find_kind};
use crate::release::{Field, Object, ReleaseKey};

/// The fields that one object has in the manifest. If one of them has no owner in the cluster, someone removed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedFields(pub Box<[Field]>);

impl ExpectedFields {
    /// Selects the fields of a manifest that must have an owner.
    ///
    /// With client-side apply (`server_side` is false) the API server may silently drop unknown fields, so only fields
    /// that it always keeps are expected.
    fn new(fields: &[Field], server_side: bool) -> Self {
        let kept = |path: &str| server_side || path.starts_with("data.") || path == "spec.replicas";
        Self(fields.iter().filter(|(path, _)| kept(path)).cloned().collect())
    }
}

/// The drift of one revision of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedDrift {
    /// The revision; the result does not apply to others.
    pub revision: i64,
    /// The objects that differ from that revision, in order.
    pub objects: Vec<DriftedObject>,
}

/// Returns the objects of a release's manifest that are watched for drift.
///
/// Objects with `helm.sh/resource-policy: keep` may be shared, and Jobs with a TTL may be deleted already, so both are
/// left out. `server_side` is whether the API server applied the manifest.
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
