//! Detects the Ceph cluster that an existing cloud uses. Writes nothing to the Kubernetes cluster, and does not connect
//! to Ceph.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client, ResourceExt};
use osdpl_values::CollectSorted;

use crate::connect::readable;
use osdpl_core::adopt::{CephDeclaration, CephState, CephUses, IdentifiedReleases, find_ceph_uses};
use osdpl_core::ceph::Cluster;

/// The Ceph cluster that an existing cloud uses.
pub(crate) struct Ceph {
    /// The value of `spec.features.storage` and the Secret with which the user declares this Ceph cluster to osdpl;
    /// `None` if osdpl did not find all the data that the declaration needs.
    pub storage: Option<CephDeclaration>,
    /// A note for the user: whether the file that `osdpl adopt` writes declares this Ceph cluster, and what the user
    /// must check.
    pub note: String,
}

/// Detects the Ceph cluster that the releases use; `None` if no release uses Ceph. `namespace` and `name` are those of
/// the `OpenStackDeployment` that `osdpl adopt` writes.
pub(crate) async fn detect(
    client: &Client,
    known: &IdentifiedReleases<'_>,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Option<Ceph>> {
    let Some(uses) = find_ceph_uses(known) else { return Ok(None) };
    let state = read_state(client, &uses).await.map_err(readable)?;
    // The charts' values contain defaults for Ceph even if the cloud does not use Ceph. The cloud uses Ceph only if the
    // Kubernetes cluster contains a `ceph.conf`, or the Ceph key of an OpenStack service.
    if state.configuration.is_none() && state.keys.is_empty() {
        return Ok(None);
    }
    let secret = format!("{name}-adopted-ceph");
    let storage = uses.storage(&state, namespace, &secret, known.releases.keys().map(String::as_str));
    let note = match &storage {
        Ok(storage) => declared_note(&uses, &state, storage),
        Err(missing) => undeclared_note(&uses, namespace, missing),
    };
    Ok(Some(Ceph { storage: storage.ok(), note }))
}

/// Reads the `ceph.conf` and the Ceph keys that the releases use, and the fsids of Rook's `CephClusters`.
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

/// Returns the fsid of each `CephCluster` of Rook. The result is empty if the API server can't list `CephClusters`, for
/// example because Rook is not installed.
async fn rook_clusters(client: &Client) -> BTreeMap<String, Option<String>> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ceph.rook.io", "v1", "CephCluster"));
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let all = all.list(&ListParams::default()).await.map(|all| all.items).unwrap_or_default();
    let fsid = |object: DynamicObject| {
        let cluster = Cluster::from_object(&object.namespace().unwrap_or_default(), &object.name_any(), &object.data);
        (cluster.path, cluster.fsid)
    };
    all.into_iter().map(fsid).collect_map()
}

/// Returns the note about a Ceph cluster that the file written by `osdpl adopt` declares.
fn declared_note(uses: &CephUses, state: &CephState, storage: &CephDeclaration) -> String {
    let (namespace, map) = &uses.configuration;
    let mut note = format!(
        "note: this cloud uses Ceph ({}): Secret {} of the file describes the Ceph cluster, from ConfigMap {namespace}/{map} and the keys in use, and \
         features.storage.ceph references the Secret. Existing pools, users and objects stay as they are.",
        uses.who(),
        storage.secret.0
    );
    if let Some(cluster) = &storage.guessed {
        let _ = write!(
            note,
            " No ceph.conf has the fsid, so osdpl took the fsid of Rook's CephCluster {cluster}: compare it with `ceph fsid`."
        );
    }
    if !state.clusters.is_empty() {
        note.push_str(
            " The spec uses mode external, because mode rook is only for pools and users that osdpl requested from Rook. In mode external, update the Secret when monitors move or keys change.",
        );
    }
    note
}

/// Returns the note about a Ceph cluster that the file written by `osdpl adopt` does not declare. `missing` says which
/// data osdpl would need for the declaration, but did not find.
fn undeclared_note(uses: &CephUses, namespace: &str, missing: &[String]) -> String {
    format!(
        "note: this cloud uses Ceph ({}), but the file does not declare the Ceph cluster: {}. The file keeps the settings of the releases as overrides. \
         If osdpl is to distribute keys and to monitor Ceph, create a Secret in namespace {namespace} with {}, declare features.storage: {{backend: ceph, ceph: \
         {{mode: external, secret: {{name: THAT-SECRET}}}}}}, and check the changed file with `osdpl diff -f FILE` before you apply it.",
        uses.who(),
        missing.join("; "),
        uses.keys()
    )
}

#[cfg(test)]
mod tests;
