//! Everything that a status ever said, so that a story can prove what was never said.

use std::pin::pin;

use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use osdpl_core::api::{OpenStackDeployment, condition};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cloud::{NAME, Told};
use crate::world::{World, patience};

/// Every version of the resource since it was asked for.
pub struct History {
    versions: watch::Receiver<Vec<OpenStackDeployment>>,
    task: JoinHandle<()>,
}

impl Drop for History {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl World {
    /// Writes down every version of the resource from now on.
    pub fn history(&self) -> History {
        let (kept, versions) = watch::channel(Vec::new());
        let api = self.deployments();
        let task = tokio::spawn(async move {
            let mut seen = pin!(watcher::watch_object(api, NAME).default_backoff());
            while let Some(event) = seen.next().await {
                if let Ok(Some(version)) = event {
                    kept.send_modify(|versions| versions.push(version));
                }
            }
        });
        History { versions, task }
    }
}

impl History {
    /// What was seen up to this version, which is the last.
    pub async fn up_to(&self, last: &OpenStackDeployment) -> Vec<OpenStackDeployment> {
        let mut versions = self.versions.clone();
        let place = |versions: &Vec<OpenStackDeployment>| versions.iter().position(|version| version == last);
        let seen = versions.wait_for(|versions| place(versions).is_some());
        let seen = patience("the history has come so far", seen).await.unwrap();
        seen[..=place(&seen).unwrap()].to_vec()
    }
}

/// What kstatus, and with it kubectl, Flux and Argo CD, make of a resource: its rules for resources that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kstatus {
    InProgress,
    Failed,
    Current,
    Terminating,
}

/// kstatus' generic rules (sigs.k8s.io/cli-utils `pkg/kstatus/status/generic.go`), in their order.
pub fn kstatus(deployment: &OpenStackDeployment) -> Kstatus {
    let status = deployment.status();
    let says = |type_: &str, value: &str| status.conditions.iter().any(|c| c.type_ == type_ && c.status == value);
    if deployment.metadata.deletion_timestamp.is_some() {
        return Kstatus::Terminating;
    }
    let observed = status.observed_generation;
    if observed.is_some() && observed != deployment.metadata.generation || says(condition::RECONCILING, "True") {
        return Kstatus::InProgress;
    }
    if says(condition::STALLED, "True") {
        return Kstatus::Failed;
    }
    // A resource without any of its conditions counts as done to kstatus; nobody can help that before the first status.
    if says(condition::READY, "False") || status.conditions.is_empty() { Kstatus::InProgress } else { Kstatus::Current }
}
