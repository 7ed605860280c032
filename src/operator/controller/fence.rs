//! Whether the maker of a record lives: the proof that no helm is alive before a record is unlocked.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};

use crate::helm::instance::pod_token;
use crate::helm::{Instance, InstanceState};
use osdpl_core::observed::Liveness;

/// The label of the operator's own pods, as the chart sets it.
const OURS: &str = "app.kubernetes.io/name=osdpl";

/// Those that may still run something. One that was evicted, or ended with its node, stays until somebody deletes it, and has no helm any more.
const NOT_ENDED: &str = "status.phase!=Failed,status.phase!=Succeeded";

/// Judges the identities in attempt labels.
#[derive(Clone)]
pub struct Fence {
    instance: Instance,
    pods: Arc<Mutex<BTreeSet<String>>>,
}

impl Fence {
    /// A fence around this process.
    pub fn new(instance: Instance) -> Self {
        Self { instance, pods: Arc::default() }
    }

    /// Looks which pods of the operator live. One that is gone, or has ended, took its helms with it.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn refresh(&self, client: &kube::Client) -> Result<(), kube::Error> {
        let api: Api<Pod> = Api::all(client.clone());
        let pods = api.list_metadata(&ListParams::default().labels(OURS).fields(NOT_ENDED)).await?;
        let tokens = pods.items.into_iter().filter_map(|pod| pod.metadata.uid.as_deref().map(pod_token)).collect();
        *self.pods.lock().unwrap_or_else(PoisonError::into_inner) = tokens;
        Ok(())
    }

    /// Whether the process with this identity lives.
    pub fn owner(&self, instance: &str) -> Liveness {
        match self.instance.liveness(instance) {
            InstanceState::Own => Liveness::Us,
            InstanceState::Dead => Liveness::Dead,
            InstanceState::Alive => Liveness::Alive,
            InstanceState::Unknown => Liveness::Unknown,
            InstanceState::Pod(token) => {
                let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
                if pods.contains(&token) { Liveness::Alive } else { Liveness::Dead }
            }
        }
    }
}
