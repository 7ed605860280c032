//! What is, as one sees it who stands beside the operator.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::sync::watch;

use super::super::Fence;
use super::rights;
use crate::cluster::Error;
use crate::helm::Instance;
use crate::tasks::{LivenessCheck, NODE_GRACE, Options, Tasks};
use osdpl_core::observed::Liveness;
use osdpl_core::scrub::Scrubber;

/// How long the cluster may take to be seen whole.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts the operator's own watches, with the rights of the user.
pub async fn observe(
    client: &Client,
    namespaces: &BTreeSet<String>,
    unknown: &mut Vec<String>,
) -> Result<Tasks, Error> {
    let rights::Sight { scope, without } = rights::sight(client, namespaces, unknown).await?;
    let (_secrets, scrubber) = watch::channel(Arc::new(Scrubber::new(Vec::<String>::new())));
    // Whoever plans may not read all kinds of object, and what others did to them the status says.
    let owner = owner(client, unknown).await?;
    let options = Options {
        scope,
        liveness: owner,
        unreadable_kinds: without,
        scrubber,
        node_grace: NODE_GRACE,
        probing: None,
        tolerated_changes: None,
    };
    let tasks = Tasks::spawn(client, &options, &Arc::default());
    if tokio::time::timeout(PATIENCE, tasks.ready()).await.is_err() {
        let seconds = PATIENCE.as_secs();
        let why = tasks.describe_problems().join("; ");
        return Err(Error::Object(format!("the cluster could not be read within {seconds} s: {why}")));
    }
    unknown.extend(tasks.describe_problems());
    Ok(tasks)
}

/// Judges the makers of records. Where the operator's pods may not be listed, nobody is taken for dead.
async fn owner(client: &Client, unknown: &mut Vec<String>) -> Result<LivenessCheck, Error> {
    let instance = Instance::of_this_process(None).map_err(|error| Error::Object(error.to_string()))?;
    let fence = Fence::new(instance);
    let listed = match fence.refresh(client).await {
        Ok(()) => true,
        Err(error) => {
            let why = rights::said(&error);
            unknown.push(format!("whether the operator that left a record pending is alive: {why}"));
            false
        }
    };
    Ok(Arc::new(move |instance: &str| match fence.owner(instance) {
        Liveness::Dead if !listed => Liveness::Unknown,
        owner => owner,
    }))
}

/// Those of these namespaces that are being deleted.
pub async fn terminating(client: &Client, names: &BTreeSet<String>, unknown: &mut Vec<String>) -> BTreeSet<String> {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut ending = BTreeSet::new();
    for name in names {
        match api.get_metadata_opt(name).await {
            Ok(Some(found)) if found.metadata.deletion_timestamp.is_some() => drop(ending.insert(name.clone())),
            Ok(_) => {}
            Err(error) => {
                unknown.push(format!("whether namespace {name} is being deleted: {}", rights::said(&error)));
            }
        }
    }
    ending
}
