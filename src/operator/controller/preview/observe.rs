//! Reads the observed state for a preview, with the permissions of the user.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::sync::watch;

use super::rights;
use crate::cluster::{Error, Namespaces, api_message};
use crate::lease;
use crate::tasks::{LivenessCheck, NODE_GRACE, Options, Tasks};
use osdpl_core::observed::Liveness;
use osdpl_core::scrub::Scrubber;

/// How long to wait until all watches have completed their first list.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Starts the tasks that watch the cluster, limited to the objects that the user may read, and waits for their first
/// lists.
pub(super) async fn observe(
    client: &Client,
    namespaces: &BTreeSet<String>,
    unknown: &mut Vec<String>,
) -> Result<Tasks, Error> {
    let rights::Rights { scope, unreadable_kinds } = rights::check_rights(client, namespaces, unknown).await?;
    let (_secrets, scrubber) = watch::channel(Arc::new(Scrubber::new(Vec::<String>::new())));
    // Don't watch for drift, because the user may not be permitted to read all kinds of objects. The status reports the
    // drift that the operator has found.
    let options = Options {
        scope,
        liveness: liveness_check(client, unknown).await,
        unreadable_kinds,
        scrubber,
        node_grace: NODE_GRACE,
        probing: None,
        nova: None,
        tolerated_changes: None,
    };
    let tasks = Tasks::spawn(client, &options, &Arc::default());
    if tokio::time::timeout(LIST_TIMEOUT, tasks.ready()).await.is_err() {
        let seconds = LIST_TIMEOUT.as_secs();
        let why = tasks.describe_problems().join("; ");
        return Err(Error::Object(format!("the cluster could not be read within {seconds} s: {why}")));
    }
    unknown.extend(tasks.describe_problems());
    Ok(tasks)
}

/// Returns a function that tells whether an operator process may still run helm. The argument of the function is the
/// process's identity, from the attempt label of a release record.
///
/// Only the holder of the operator's Lease runs helm. If the Leases can't be listed, the returned function answers
/// [`Liveness::Unknown`].
async fn liveness_check(client: &Client, unknown: &mut Vec<String>) -> LivenessCheck {
    let holders = match lease::holders(client).await {
        Ok(holders) => Some(holders),
        Err(error) => {
            let why = api_message(&error);
            unknown.push(format!("whether the operator process that locked a release record still runs: {why}"));
            None
        }
    };
    Arc::new(move |instance: &str| match &holders {
        Some(holders) if holders.contains(instance) => Liveness::Alive,
        Some(_) => Liveness::Dead,
        None => Liveness::Unknown,
    })
}

/// Returns which of the given namespaces exist, and which of them are being deleted.
///
/// A namespace that the user may not read counts as existing.
pub(super) async fn read_namespaces(
    client: &Client,
    names: &BTreeSet<String>,
    unknown: &mut Vec<String>,
) -> Namespaces {
    let api: Api<Namespace> = Api::all(client.clone());
    let (mut all, mut terminating) = (names.clone(), BTreeSet::new());
    for name in names {
        match api.get_metadata_opt(name).await {
            Ok(Some(found)) if found.metadata.deletion_timestamp.is_some() => drop(terminating.insert(name.clone())),
            Ok(Some(_)) => {}
            Ok(None) => drop(all.remove(name)),
            Err(error) => {
                unknown.push(format!("whether namespace {name} exists or is being deleted: {}", api_message(&error)));
            }
        }
    }
    Namespaces { all: Some(all), terminating }
}
