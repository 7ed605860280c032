//! Which reads the caller may do: each that is wanted is tried, with a page of one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::{Metadata, NamespaceResourceScope, Resource};
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, Client};
use serde::de::DeserializeOwned;

use crate::cluster::Error;
use crate::tasks::Scope;

/// What the caller may see.
pub struct Sight {
    /// Where to look.
    pub scope: Scope,
    /// Kinds that are refused and that a plan can do without.
    pub without: BTreeSet<&'static str>,
}

/// Where to look: everywhere, as the operator does, else in the namespaces of the resource's releases.
///
/// # Errors
/// When the caller may not even look there: every refused read is named.
pub async fn sight(client: &Client, namespaces: &BTreeSet<String>, unknown: &mut Vec<String>) -> Result<Sight, Error> {
    let everywhere = refusals(client, None).await?;
    if everywhere.is_empty() {
        return Ok(Sight { scope: Scope::All, without: without(client, &[None], unknown).await? });
    }
    let mut refused = Vec::new();
    for namespace in namespaces {
        refused.extend(refusals(client, Some(namespace)).await?);
    }
    if !refused.is_empty() {
        return Err(Error::Object(format!(
            "reads that are needed are refused to you (`osdpl status` shows what the operator says):\n  {}",
            refused.join("\n  ")
        )));
    }
    let names: Vec<_> = namespaces.iter().cloned().collect();
    unknown.push(format!(
        "releases outside of {}: {}",
        names.join(", "),
        everywhere.first().map(String::as_str).unwrap_or_default()
    ));
    let places: Vec<_> = namespaces.iter().map(|namespace| Some(namespace.as_str())).collect();
    Ok(Sight { without: without(client, &places, unknown).await?, scope: Scope::Namespaces(names) })
}

/// The API server's words for each kind that may not be listed.
async fn refusals(client: &Client, namespace: Option<&str>) -> Result<Vec<String>, Error> {
    let tries = [
        refusal::<Secret>(client, namespace).await?,
        refusal::<Deployment>(client, namespace).await?,
        refusal::<StatefulSet>(client, namespace).await?,
        refusal::<DaemonSet>(client, namespace).await?,
        refusal::<Job>(client, namespace).await?,
        refusal::<Pod>(client, namespace).await?,
    ];
    Ok(tries.into_iter().flatten().collect())
}

/// The kinds that only tell more: what is not seen of them is said.
async fn without(
    client: &Client,
    places: &[Option<&str>],
    unknown: &mut Vec<String>,
) -> Result<BTreeSet<&'static str>, Error> {
    let mut refused = BTreeMap::new();
    for place in places {
        let tries = [
            (Service::URL_PATH_SEGMENT, refusal::<Service>(client, *place).await?),
            (CronJob::URL_PATH_SEGMENT, refusal::<CronJob>(client, *place).await?),
            (PersistentVolumeClaim::URL_PATH_SEGMENT, refusal::<PersistentVolumeClaim>(client, *place).await?),
        ];
        refused.extend(tries.into_iter().filter_map(|(kind, words)| Some((kind, words?))));
    }
    let classes = refused_by(Api::<StorageClass>::all(client.clone())).await?;
    refused.extend(classes.map(|words| (StorageClass::URL_PATH_SEGMENT, words)));
    let nodes = refused_by(Api::<Node>::all(client.clone())).await?;
    refused.extend(nodes.map(|words| (Node::URL_PATH_SEGMENT, words)));
    unknown.extend(refused.iter().map(|(kind, words)| format!("{}: {words}", what(kind))));
    Ok(refused.into_keys().collect())
}

/// What a kind would have told.
fn what(kind: &str) -> &'static str {
    match kind {
        Service::URL_PATH_SEGMENT => "what is behind the Services that pods wait for",
        PersistentVolumeClaim::URL_PATH_SEGMENT => {
            "the volume claims that pods wait for, and the classes of those there are"
        }
        CronJob::URL_PATH_SEGMENT => "whether CronJobs succeed",
        Node::URL_PATH_SEGMENT => "which nodes are there, and play which role",
        _ => "which StorageClasses there are",
    }
}

async fn refusal<K>(client: &Client, namespace: Option<&str>) -> Result<Option<String>, Error>
where
    K: Resource<Scope = NamespaceResourceScope> + Metadata<Ty = ObjectMeta> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    refused_by(api).await
}

async fn refused_by<K>(api: Api<K>) -> Result<Option<String>, Error>
where
    K: Resource + Metadata<Ty = ObjectMeta> + Clone + Debug + DeserializeOwned,
{
    match api.list_metadata(&ListParams::default().limit(1)).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(Some(status.message)),
        Err(error) => Err(Error::Object(format!("listing {}: {}", K::URL_PATH_SEGMENT, said(&error)))),
    }
}

/// The API server's own words, where there are some.
pub fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => format!("the API server does not answer: {other}"),
    }
}
