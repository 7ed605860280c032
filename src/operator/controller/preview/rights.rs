//! Checks which kinds of objects the user of `osdpl plan` may read, by listing one object of each kind.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::Resource as _;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, Resource};
use osdpl_values::CollectSorted;

use crate::cluster::{Error, api_message};
use osdpl_client::Scope;

/// The read permissions of the user: the readable namespaces, and the kinds of objects that are not readable.
pub(super) struct Rights {
    /// The namespaces that the user may read.
    pub(super) scope: Scope,
    /// The kinds (plural names) that a plan does not require and that the user lacks the right to list.
    pub(super) unreadable_kinds: BTreeSet<&'static str>,
}

/// Checks whether the user may read all namespaces, as the operator does. If not, checks whether the user may read at
/// least the namespaces of the resource's releases.
///
/// # Errors
/// Returns an error if the user may read neither all namespaces nor those of the releases; the message names every
/// refused read.
pub(super) async fn check_rights(
    client: &Client,
    namespaces: &BTreeSet<String>,
    unknown: &mut Vec<String>,
) -> Result<Rights, Error> {
    let everywhere = refusals(client, None).await?;
    if everywhere.is_empty() {
        let unreadable_kinds = unreadable_kinds(client, &[None], unknown).await?;
        return Ok(Rights { scope: Scope::All, unreadable_kinds });
    }
    let mut refused = Vec::new();
    for namespace in namespaces {
        refused.extend(refusals(client, Some(namespace)).await?);
    }
    if !refused.is_empty() {
        return Err(Error::Object(format!(
            "you may not read objects that the plan requires (`osdpl status` shows the operator's report):\n  {}",
            refused.join("\n  ")
        )));
    }
    let names: Vec<_> = namespaces.iter().cloned().collect();
    unknown.push(format!(
        "releases outside of {}: {}",
        names.join(", "),
        everywhere.first().map(String::as_str).unwrap_or_default()
    ));
    let namespaces: Vec<_> = namespaces.iter().map(|namespace| Some(namespace.as_str())).collect();
    let unreadable_kinds = unreadable_kinds(client, &namespaces, unknown).await?;
    Ok(Rights { scope: Scope::Namespaces(names), unreadable_kinds })
}

/// Returns the API server's refusals to list objects that a plan requires, one message for each kind that the user
/// lacks the right to list.
async fn refusals(client: &Client, namespace: Option<&str>) -> Result<Vec<String>, Error> {
    let refusals = [
        refusal::<Secret>(client, namespace).await?,
        refusal::<Deployment>(client, namespace).await?,
        refusal::<StatefulSet>(client, namespace).await?,
        refusal::<DaemonSet>(client, namespace).await?,
        refusal::<Job>(client, namespace).await?,
        refusal::<Pod>(client, namespace).await?,
    ];
    Ok(refusals.into_iter().flatten().collect())
}

/// Returns the kinds of objects that a plan does not require and that the user lacks the right to list.
///
/// For each returned kind, this function adds to `unknown` what the preview can't determine.
async fn unreadable_kinds(
    client: &Client,
    namespaces: &[Option<&str>],
    unknown: &mut Vec<String>,
) -> Result<BTreeSet<&'static str>, Error> {
    let mut refused = BTreeMap::new();
    for namespace in namespaces {
        let refusals = [
            (Service::URL_PATH_SEGMENT, refusal::<Service>(client, *namespace).await?),
            (CronJob::URL_PATH_SEGMENT, refusal::<CronJob>(client, *namespace).await?),
            (PersistentVolumeClaim::URL_PATH_SEGMENT, refusal::<PersistentVolumeClaim>(client, *namespace).await?),
        ];
        refused.extend(refusals.into_iter().filter_map(|(kind, message)| Some((kind, message?))));
    }
    let classes = refusal::<StorageClass>(client, None).await?;
    refused.extend(classes.map(|message| (StorageClass::URL_PATH_SEGMENT, message)));
    let nodes = refusal::<Node>(client, None).await?;
    refused.extend(nodes.map(|message| (Node::URL_PATH_SEGMENT, message)));
    unknown.extend(refused.iter().map(|(kind, message)| format!("{}: {message}", unknown_fact(kind))));
    Ok(refused.into_keys().collect_set())
}

/// Returns what the preview does not know if the user has no right to list the objects of a kind, as text for a
/// message.
fn unknown_fact(kind: &str) -> &'static str {
    match kind {
        Service::URL_PATH_SEGMENT => "the pods behind Services that other pods wait for",
        PersistentVolumeClaim::URL_PATH_SEGMENT => {
            "the volume claims that pods wait for, and the storage classes of existing claims"
        }
        CronJob::URL_PATH_SEGMENT => "whether CronJobs succeed",
        Node::URL_PATH_SEGMENT => "which nodes exist, and their roles",
        _ => "which StorageClasses exist",
    }
}

/// Returns the API server's message if the user has no right to list the objects of the kind `K` in `namespace`
/// (`None`: in all namespaces); `None` if the user has the right.
fn refusal<'a, K>(client: &'a Client, namespace: Option<&'a str>) -> impl Future<Output = Result<Option<String>, Error>>
where
    K: Resource<DynamicType = ()>,
{
    list_one(client, ApiResource::erase::<K>(&()), namespace)
}

/// Makes the list request of [`refusal`]. [`refusal`] is generic, and the compiler repeats a generic function for each
/// type. This function is not generic, so the program contains its code only once.
async fn list_one(client: &Client, resource: ApiResource, namespace: Option<&str>) -> Result<Option<String>, Error> {
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    match api.list_metadata(&ListParams::default().limit(1)).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(Some(status.message)),
        Err(error) => Err(Error::Object(format!("listing {}: {}", resource.plural, api_message(&error)))),
    }
}
