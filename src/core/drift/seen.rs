//! What a release left, and what was found of it.

use std::collections::BTreeMap;

use super::{Drifted, Id, kind};
use crate::release::{Field, Key, Object};

/// What a manifest says of one object: the fields that must be held by someone, if nobody took them out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left(pub Box<[Field]>);

impl Left {
    /// Of what helm applied itself (`server_side` false) the API server may have dropped fields that it does not know, without a word: only what
    /// it keeps in any case counts then.
    fn new(fields: &[Field], server_side: bool) -> Self {
        let kept = |path: &str| server_side || path.starts_with("data.") || path == "spec.replicas";
        Self(fields.iter().filter(|(path, _)| kept(path)).cloned().collect())
    }
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
/// ends its own days may be gone. `server_side` says whether the API server applied it.
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
