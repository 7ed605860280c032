//! Records every version of the test's `OpenStackDeployment`, so that a test can check that a status never occurred.

use std::pin::pin;

use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use osdpl_core::api::{OpenStackDeployment, condition};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cloud::{NAME, StatusAccess};
use crate::world::{World, with_timeout};

/// Every version of the test's `OpenStackDeployment` that a watch has reported since the call of [`World::history`].
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
    /// Starts to record every version of the test's `OpenStackDeployment`.
    pub fn history(&self) -> History {
        let (sender, versions) = watch::channel(Vec::new());
        let api = self.deployments();
        let task = tokio::spawn(async move {
            let mut events = pin!(watcher::watch_object(api, NAME).default_backoff());
            while let Some(event) = events.next().await {
                if let Ok(Some(version)) = event {
                    sender.send_modify(|versions| versions.push(version));
                }
            }
        });
        History { versions, task }
    }
}

impl History {
    /// Waits until the version `last` is recorded. Returns all recorded versions, from the first to `last`.
    pub async fn up_to(&self, last: &OpenStackDeployment) -> Vec<OpenStackDeployment> {
        let mut versions = self.versions.clone();
        let position = |versions: &Vec<OpenStackDeployment>| versions.iter().position(|version| version == last);
        let recorded = versions.wait_for(|versions| position(versions).is_some());
        let recorded = with_timeout("the history contains the last version", recorded).await.unwrap();
        recorded[..=position(&recorded).unwrap()].to_vec()
    }
}

/// The status that the library kstatus computes for a custom resource. Flux uses kstatus to wait for resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kstatus {
    InProgress,
    Failed,
    Current,
    Terminating,
}

/// Computes the status of a resource by the generic rules of kstatus. Applies the rules in the order of their source
/// file (sigs.k8s.io/cli-utils `pkg/kstatus/status/generic.go`).
pub fn kstatus(deployment: &OpenStackDeployment) -> Kstatus {
    let status = deployment.status();
    let has_condition = |type_: &str, value: &str| {
        status.conditions.iter().any(|condition| condition.type_ == type_ && condition.status == value)
    };
    if deployment.metadata.deletion_timestamp.is_some() {
        return Kstatus::Terminating;
    }
    let observed = status.observed_generation;
    if observed.is_some() && observed != deployment.metadata.generation || has_condition(condition::RECONCILING, "True")
    {
        return Kstatus::InProgress;
    }
    if has_condition(condition::STALLED, "True") {
        return Kstatus::Failed;
    }
    // This function differs from kstatus in one case. For a resource without conditions, kstatus returns Current, but
    // this function returns InProgress, because no operator can write conditions before it sees the resource.
    if has_condition(condition::READY, "False") || status.conditions.is_empty() {
        Kstatus::InProgress
    } else {
        Kstatus::Current
    }
}
