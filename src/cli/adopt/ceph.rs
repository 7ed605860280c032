//! Detects the Ceph that an existing cloud uses, read-only.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client, ResourceExt};

use crate::common::readable;
use osdpl_core::adopt::{CephDeclaration, CephState, CephUses, IdentifiedReleases, find_ceph_uses};
use osdpl_core::ceph::Cluster;

/// The detected Ceph.
pub struct Ceph {
    /// The part of the spec that declares it; `None` if it is not known completely.
    pub storage: Option<CephDeclaration>,
    /// The note for the user.
    pub note: String,
}

/// Detects the Ceph that the releases use, for a resource of this namespace and name; `None` if they use none.
pub async fn detect(
    client: &Client,
    known: &IdentifiedReleases<'_>,
    (namespace, name): (&str, &str),
) -> anyhow::Result<Option<Ceph>> {
    let Some(uses) = find_ceph_uses(known) else { return Ok(None) };
    let answers = answers(client, &uses).await.map_err(readable)?;
    // Charts have a Ceph in their defaults, which need not exist.
    if answers.configuration.is_none() && answers.keys.is_empty() {
        return Ok(None);
    }
    let secret = format!("{name}-adopted-ceph");
    let storage = uses.storage(&answers, (namespace, &secret), known.releases.keys().map(String::as_str));
    let note = match &storage {
        Ok(storage) => declared(&uses, &answers, storage),
        Err(missing) => undeclared(&uses, namespace, missing),
    };
    Ok(Some(Ceph { storage: storage.ok(), note }))
}

async fn answers(client: &Client, uses: &CephUses) -> kube::Result<CephState> {
    let (namespace, name) = &uses.configuration;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = maps.get_opt(name).await?.and_then(|map| map.data);
    let mut keys = BTreeMap::new();
    for (consumer, own) in &uses.consumers {
        let Some((namespace, name)) = &own.keyring else { continue };
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let held = secrets.get_opt(name).await?.and_then(|secret| secret.data?.remove("key"));
        let key = held.and_then(|key| String::from_utf8(key.0).ok());
        keys.extend(key.map(|key| (*consumer, key.trim().to_owned())));
    }
    let configuration = map.and_then(|mut map| map.remove("ceph.conf"));
    Ok(CephState { configuration, keys, clusters: clusters(client).await })
}

/// Returns the Ceph clusters of Rook; none if the kind is unknown or must not be listed.
async fn clusters(client: &Client) -> BTreeMap<String, Option<String>> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ceph.rook.io", "v1", "CephCluster"));
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let all = all.list(&ListParams::default()).await.map(|all| all.items).unwrap_or_default();
    let read = |one: DynamicObject| {
        let cluster = Cluster::from_object(&one.namespace().unwrap_or_default(), &one.name_any(), &one.data);
        (cluster.path, cluster.fsid)
    };
    all.into_iter().map(read).collect()
}

fn declared(uses: &CephUses, answers: &CephState, storage: &CephDeclaration) -> String {
    let (namespace, map) = &uses.configuration;
    let mut note = format!(
        "note: this cloud uses a Ceph ({}): Secret {} of the file describes it, from ConfigMap {namespace}/{map} and the keys in use, and \
         features.storage.ceph references it. Existing pools, users and objects stay as they are.",
        uses.who(),
        storage.secret.0
    );
    if let Some(place) = &storage.guessed {
        let _ = write!(note, " No ceph.conf contains its fsid: compare that of CephCluster {place} with `ceph fsid`.");
    }
    if !answers.clusters.is_empty() {
        note.push_str(
            " Mode rook is for pools and users that osdpl requested from Rook; in this mode, update the Secret when monitors move or keys change.",
        );
    }
    note
}

fn undeclared(uses: &CephUses, namespace: &str, missing: &[String]) -> String {
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
