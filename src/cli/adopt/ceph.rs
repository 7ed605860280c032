//! The Ceph that a running cloud uses: what the cluster tells of it, and what is said of it. Reads alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client, ResourceExt};

use crate::common::readable;
use osdpl_core::adopt::{Answers, Known, Storage, Uses, uses};
use osdpl_core::ceph::Cluster;

/// What is known of it.
pub struct Ceph {
    /// The part of the spec that declares it; none where it can't be known.
    pub storage: Option<Storage>,
    /// What a person should know.
    pub note: String,
}

/// Looks at what the releases use of Ceph, for a resource of this namespace and name; none where they use none.
pub async fn look(client: &Client, known: &Known<'_>, (namespace, name): (&str, &str)) -> anyhow::Result<Option<Ceph>> {
    let Some(uses) = uses(known) else { return Ok(None) };
    let answers = answers(client, &uses).await.map_err(readable)?;
    // Charts name a Ceph in their defaults: one that was never there is none.
    if answers.configuration.is_none() && answers.keys.is_empty() {
        return Ok(None);
    }
    let secret = format!("{name}-adopted-ceph");
    let storage = uses.storage(&answers, (namespace, &secret), known.releases.keys().map(String::as_str));
    let note = match &storage {
        Ok(storage) => declared(&uses, &answers, storage),
        Err(lacking) => undeclared(&uses, namespace, lacking),
    };
    Ok(Some(Ceph { storage: storage.ok(), note }))
}

async fn answers(client: &Client, uses: &Uses) -> kube::Result<Answers> {
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
    Ok(Answers { configuration, keys, clusters: clusters(client).await })
}

/// The Cephs that Rook runs; none where its kind is not known here, or may not be seen.
async fn clusters(client: &Client) -> BTreeMap<String, Option<String>> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ceph.rook.io", "v1", "CephCluster"));
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let all = all.list(&ListParams::default()).await.map(|all| all.items).unwrap_or_default();
    let read = |one: DynamicObject| {
        let cluster = Cluster::of(&one.namespace().unwrap_or_default(), &one.name_any(), &one.data);
        (cluster.place, cluster.fsid)
    };
    all.into_iter().map(read).collect()
}

fn declared(uses: &Uses, answers: &Answers, storage: &Storage) -> String {
    let (namespace, map) = &uses.configuration;
    let mut note = format!(
        "note: this cloud uses a Ceph ({}): Secret {} of the file describes it, after ConfigMap {namespace}/{map} and the keys that run, and \
         features.storage.ceph names that. What is there stays as it is, pools, users and objects.",
        uses.who(),
        storage.secret.0
    );
    if let Some(place) = &storage.guessed {
        let _ = write!(note, " No ceph.conf tells its fsid: check the one of CephCluster {place} with `ceph fsid`.");
    }
    if !answers.clusters.is_empty() {
        note.push_str(
            " Mode rook is for pools and users that osdpl asked Rook for; with this one, where monitors move or keys change, change the Secret.",
        );
    }
    note
}

fn undeclared(uses: &Uses, namespace: &str, lacking: &[String]) -> String {
    format!(
        "note: this cloud uses a Ceph ({}), and the file does not declare it, for {}. What its releases say of it stands as overrides and goes on as it \
         is. For osdpl to hand out keys and watch over it, write a Secret in namespace {namespace} with {}, declare features.storage: {{backend: ceph, ceph: \
         {{mode: external, secret: {{name: THAT-SECRET}}}}}}, and look at `osdpl diff` before you apply that.",
        uses.who(),
        lacking.join("; "),
        uses.keys()
    )
}

#[cfg(test)]
mod tests;
