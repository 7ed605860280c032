//! Detects the Ceph that an existing cloud uses, read-only.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client, ResourceExt};

use crate::connect::readable;
use osdpl_core::adopt::{CephDeclaration, CephState, CephUses, IdentifiedReleases, find_ceph_uses};
use osdpl_core::ceph::Cluster;

/// The detected Ceph.
pub(crate) struct Ceph {
    /// The part of the spec that declares it; `None` if it is not known completely.
    pub storage: Option<CephDeclaration>,
    /// The note for the user.
    pub note: String,
}

/// Detects the Ceph that the releases use, for a resource of this namespace and name; `None` if they use none.
pub(crate) async fn detect(
    client: &Client,
    known: &IdentifiedReleases<'_>,
    (namespace, name): (&str, &str),
) -> anyhow::Result<Option<Ceph>> {
    let Some(uses) = find_ceph_uses(known) else { return Ok(None) };
    let state = read_state(client, &uses).await.map_err(readable)?;
    // The defaults of charts describe a Ceph that may not exist.
    if state.configuration.is_none() && state.keys.is_empty() {
        return Ok(None);
    }
    let secret = format!("{name}-adopted-ceph");
    let storage = uses.storage(&state, (namespace, &secret), known.releases.keys().map(String::as_str));
    let note = match &storage {
        Ok(storage) => declared_note(&uses, &state, storage),
        Err(missing) => undeclared_note(&uses, namespace, missing),
    };
    Ok(Some(Ceph { storage: storage.ok(), note }))
}

/// Reads the configuration and the keys that the releases use, and the Ceph clusters of Rook.
async fn read_state(client: &Client, uses: &CephUses) -> kube::Result<CephState> {
    let (namespace, name) = &uses.configuration;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = maps.get_opt(name).await?.and_then(|map| map.data);
    let mut keys = BTreeMap::new();
    for (consumer, ceph_use) in &uses.consumers {
        let Some((namespace, name)) = &ceph_use.keyring else { continue };
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let value = secrets.get_opt(name).await?.and_then(|secret| secret.data?.remove("key"));
        let key = value.and_then(|key| String::from_utf8(key.0).ok());
        keys.extend(key.map(|key| (*consumer, key.trim().to_owned())));
    }
    let configuration = map.and_then(|mut map| map.remove("ceph.conf"));
    Ok(CephState { configuration, keys, clusters: rook_clusters(client).await })
}

/// Returns the Ceph clusters of Rook with their fsid; none if the kind is unknown, or without permission to list it.
async fn rook_clusters(client: &Client) -> BTreeMap<String, Option<String>> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ceph.rook.io", "v1", "CephCluster"));
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let all = all.list(&ListParams::default()).await.map(|all| all.items).unwrap_or_default();
    let fsid = |object: DynamicObject| {
        let cluster = Cluster::from_object(&object.namespace().unwrap_or_default(), &object.name_any(), &object.data);
        (cluster.path, cluster.fsid)
    };
    all.into_iter().map(fsid).collect()
}

/// Returns the note about a Ceph that the file declares.
fn declared_note(uses: &CephUses, state: &CephState, storage: &CephDeclaration) -> String {
    let (namespace, map) = &uses.configuration;
    let mut note = format!(
        "note: this cloud uses a Ceph ({}): Secret {} of the file describes it, from ConfigMap {namespace}/{map} and the keys in use, and \
         features.storage.ceph references it. Existing pools, users and objects stay as they are.",
        uses.who(),
        storage.secret.0
    );
    if let Some(cluster) = &storage.guessed {
        let _ =
            write!(note, " No ceph.conf contains its fsid: compare that of CephCluster {cluster} with `ceph fsid`.");
    }
    if !state.clusters.is_empty() {
        note.push_str(
            " Mode rook is for pools and users that osdpl requested from Rook; in this mode, update the Secret when monitors move or keys change.",
        );
    }
    note
}

/// Returns the note about a Ceph of which something is missing.
fn undeclared_note(uses: &CephUses, namespace: &str, missing: &[String]) -> String {
    format!(
        "note: this cloud uses a Ceph ({}), and the file does not declare it: {}. The settings of its releases are kept as overrides. \
         For osdpl to distribute keys and monitor it, create a Secret in namespace {namespace} with {}, declare features.storage: {{backend: ceph, ceph: \
         {{mode: external, secret: {{name: THAT-SECRET}}}}}}, and check `osdpl diff` before you apply that.",
        uses.who(),
        missing.join("; "),
        uses.keys()
    )
}

#[cfg(test)]
mod tests;
