//! Which reads the caller may do: each that a plan needs is tried, with a page of one.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use k8s_openapi::{Metadata, NamespaceResourceScope, Resource};
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, Client};
use serde::de::DeserializeOwned;

use crate::cluster::Error;
use crate::tasks::Scope;

/// Where to look: everywhere, as the operator does, else in the namespaces of the resource's releases.
///
/// # Errors
/// When the caller may not even look there: every refused read is named.
pub async fn scope(client: &Client, namespaces: &BTreeSet<String>, unknown: &mut Vec<String>) -> Result<Scope, Error> {
    let everywhere = refusals(client, None).await?;
    if everywhere.is_empty() {
        return Ok(Scope::All);
    }
    let mut refused = Vec::new();
    for namespace in namespaces {
        refused.extend(refusals(client, Some(namespace)).await?);
    }
    if !refused.is_empty() {
        return Err(Error::Object(format!(
            "a plan needs reads that are refused to you (`osdpl status` shows what the operator says):\n  {}",
            refused.join("\n  ")
        )));
    }
    let names: Vec<_> = namespaces.iter().cloned().collect();
    unknown.push(format!(
        "releases outside of {}: {}",
        names.join(", "),
        everywhere.first().map(String::as_str).unwrap_or_default()
    ));
    Ok(Scope::Namespaces(names))
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
        refusal::<Service>(client, namespace).await?,
    ];
    Ok(tries.into_iter().flatten().collect())
}

async fn refusal<K>(client: &Client, namespace: Option<&str>) -> Result<Option<String>, Error>
where
    K: Resource<Scope = NamespaceResourceScope>
        + Metadata<Ty = ObjectMeta>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api: Api<K> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
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
