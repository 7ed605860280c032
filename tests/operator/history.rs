//! Records every status of a resource, so that a test can check that a status never occurred.

use std::pin::pin;

use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use osdpl_core::api::{OpenStackDeployment, condition};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cloud::{NAME, StatusAccess};
use crate::world::{World, with_timeout};

/// Every version of the resource since the recording began.
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
    /// Records every version of the resource from now on.
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
    /// Returns the versions up to this one, which is the last.
    pub async fn up_to(&self, last: &OpenStackDeployment) -> Vec<OpenStackDeployment> {
        let mut versions = self.versions.clone();
        let place = |versions: &Vec<OpenStackDeployment>| versions.iter().position(|version| version == last);
        let seen = versions.wait_for(|versions| place(versions).is_some());
        let seen = with_timeout("the history has come so far", seen).await.unwrap();
        seen[..=place(&seen).unwrap()].to_vec()
    }
}

/// The status that kstatus, which kubectl, Flux and Argo CD use, computes for a resource of an unknown kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kstatus {
    InProgress,
    Failed,
    Current,
    Terminating,
}

/// Applies the generic rules of kstatus (sigs.k8s.io/cli-utils `pkg/kstatus/status/generic.go`) in their order.
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
    // kstatus considers a resource without conditions as current; this can't be avoided before the first status.
    if says(condition::READY, "False") || status.conditions.is_empty() { Kstatus::InProgress } else { Kstatus::Current }
}
