//! Reads the state of the cluster for a preview, with the permissions of the user who runs `osdpl plan`.

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
use osdpl_client::ErrorContext;
use osdpl_core::observed::Liveness;
use osdpl_core::scrub::Scrubber;

/// Starts the tasks that watch the cluster, limited to the objects that the user of `osdpl plan` may read. Waits until
/// the tasks have listed these objects once.
///
/// # Errors
/// Returns an error if the API server does not respond, or does not send all lists within `limit`.
pub(super) async fn observe(
    client: &Client,
    namespaces: &BTreeSet<String>,
    unknown: &mut Vec<String>,
    limit: Duration,
) -> Result<Tasks, Error> {
    let rights::Rights { scope, unreadable_kinds } = rights::check_rights(client, namespaces, unknown).await?;
    let (_secrets, scrubber) = watch::channel(Arc::new(Scrubber::new(Vec::<String>::new())));
    // Don't search for drift, because the user may not be permitted to read all kinds of objects. The status reports
    // the drift that the operator has found.
    let options = Options {
        scope,
        liveness: liveness_check(client, unknown).await?,
        unreadable_kinds,
        scrubber,
        node_grace: NODE_GRACE,
        probing: None,
        nova: None,
        tolerated_changes: None,
    };
    let tasks = Tasks::spawn(client, &options, &Arc::default());
    if tokio::time::timeout(limit, tasks.ready()).await.is_err() {
        return Err(unread(limit, &tasks.describe_problems()));
    }
    unknown.extend(tasks.describe_problems());
    Ok(tasks)
}

/// Returns the error about watches that did not list all objects within `limit`. The message quotes the watches'
/// `problems`.
pub(super) fn unread(limit: Duration, problems: &[String]) -> Error {
    let why = if problems.is_empty() { "the API server did not send all lists".into() } else { problems.join("; ") };
    let seconds = limit.as_secs();
    Error::Object(format!(
        "the cluster could not be read within {seconds} s: {why}; check the API server, or wait longer with \
         --request-timeout"
    ))
}

/// Returns a function that tells whether an operator process could still be running helm. The function's argument is
/// the process's identity, from the attempt label of a release record.
///
/// Only the holder of the operator's Lease runs helm. If the Leases can't be listed, the returned function answers
/// [`Liveness::Unknown`].
async fn liveness_check(client: &Client, unknown: &mut Vec<String>) -> Result<LivenessCheck, Error> {
    let what = "whether the operator process that left a release pending still runs";
    let holders = unless_refused(lease::holders(client).await, what, unknown)?;
    Ok(Arc::new(move |instance: &str| match &holders {
        Some(holders) if holders.contains(instance) => Liveness::Alive,
        Some(_) => Liveness::Dead,
        None => Liveness::Unknown,
    }))
}

/// Returns the response to a read. If the API server refused the read, returns `None`, and adds a line to `unknown`:
/// `what` (the fact that the preview does not know, such as "whether namespace x exists") and the API server's message.
///
/// # Errors
/// Returns an error if the API server did not answer.
fn unless_refused<T>(read: kube::Result<T>, what: &str, unknown: &mut Vec<String>) -> Result<Option<T>, Error> {
    match read {
        Err(kube::Error::Api(status)) => {
            unknown.push(format!("{what}: {}", api_message(&kube::Error::Api(status))));
            Ok(None)
        }
        read => read.map(Some).with_context(|| format!("finding out {what}")),
    }
}

/// Returns which of the given namespaces exist, and which of them are being deleted.
///
/// If the user lacks the right to read a namespace, the function returns it as existing, and adds a line to `unknown`.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub(super) async fn read_namespaces(
    client: &Client,
    names: &BTreeSet<String>,
    unknown: &mut Vec<String>,
) -> Result<Namespaces, Error> {
    let api: Api<Namespace> = Api::all(client.clone());
    let (mut all, mut terminating) = (names.clone(), BTreeSet::new());
    for name in names {
        let what = format!("whether namespace {name} exists or is being deleted");
        match unless_refused(api.get_metadata_opt(name).await, &what, unknown)? {
            Some(Some(found)) if found.metadata.deletion_timestamp.is_some() => drop(terminating.insert(name.clone())),
            Some(None) => drop(all.remove(name)),
            Some(Some(_)) | None => {}
        }
    }
    Ok(Namespaces { all: Some(all), terminating })
}
