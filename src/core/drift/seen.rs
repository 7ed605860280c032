//! The expected objects of a release, and the drift that was found.

use std::collections::BTreeMap;

use super::{Drifted, Id, kind};
use crate::release::{Field, Key, Object};

/// The fields of one object in the manifest; each must have an owner, unless someone removed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left(pub Box<[Field]>);

impl Left {
    /// With client-side apply (`server_side` false) the API server may silently drop unknown fields, so only fields
    /// that it always keeps count.
    fn new(fields: &[Field], server_side: bool) -> Self {
        let kept = |path: &str| server_side || path.starts_with("data.") || path == "spec.replicas";
        Self(fields.iter().filter(|(path, _)| kept(path)).cloned().collect())
    }
}

/// The drift of one revision of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriftSeen {
    /// The revision; the result does not apply to others.
    pub revision: i64,
    /// The objects that differ from that revision, in order.
    pub objects: Vec<Drifted>,
}

/// Returns the objects of a release's manifest that are watched for drift.
///
/// Objects with `helm.sh/resource-policy: keep` may be shared, and Jobs with a TTL may be deleted already, so both are
/// left out. `server_side` is whether the API server applied the manifest.
pub fn left(manifest: &[Object], release: &Key, server_side: bool) -> BTreeMap<Id, Left> {
    let own = manifest.iter().filter(|object| !object.keep && !object.expires);
    own.filter_map(|object| {
        let kind = kind(&object.api_version, &object.kind)?;
        let namespace = object.namespace.as_ref().unwrap_or(&release.namespace);
        let namespace = if kind.namespaced { namespace.clone() } else { String::new() };
        Some((Id { kind, namespace, name: object.name.clone() }, Left::new(&object.fields, server_side)))
    })
    .collect()
}
