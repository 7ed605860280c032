//! What a release left, and what was found of it.

use std::collections::BTreeMap;

use super::{Drifted, Id, kind};
use crate::release::{Key, Object};

/// What a manifest says of one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// How many keys its `data` has.
    pub data: usize,
    /// Whether it sets `spec.replicas`.
    pub replicas: bool,
}

/// What was found of one revision of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriftSeen {
    /// The revision: of another one it says nothing.
    pub revision: i64,
    /// The objects that are not as that revision left them, in their order.
    pub objects: Vec<Drifted>,
}

/// The objects of a release's manifest that are looked after. What `helm.sh/resource-policy` keeps is not the release's alone, and a Job that
/// ends its own days may be gone.
pub fn left(manifest: &[Object], release: &Key) -> BTreeMap<Id, Left> {
    let own = manifest.iter().filter(|object| !object.keep && !object.expires);
    own.filter_map(|object| {
        let kind = kind(&object.api_version, &object.kind)?;
        let namespace = object.namespace.as_ref().unwrap_or(&release.namespace);
        let namespace = if kind.namespaced { namespace.clone() } else { String::new() };
        Some((
            Id { kind, namespace, name: object.name.clone() },
            Left { data: object.data, replicas: object.replicas.is_some() },
        ))
    })
    .collect()
}
