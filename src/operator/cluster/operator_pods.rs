//! The liveness of operator processes. A record that is locked by helm is only unlocked if its process is dead.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};

use crate::helm::{Instance, InstanceState, pod_token};
use osdpl_core::observed::Liveness;

/// The label of the operator's own pods, as the chart sets it.
const LABEL: &str = "app.kubernetes.io/name=osdpl";

/// Pods that may run processes. An evicted pod remains in its final phase until someone deletes it.
const NOT_FINISHED: &str = "status.phase!=Failed,status.phase!=Succeeded";

/// The operator's own pods, to check whether the process that an attempt label names is alive.
#[derive(Clone)]
pub struct OperatorPods {
    instance: Instance,
    /// The tokens of the pods that were not finished at the last refresh.
    tokens: Arc<Mutex<BTreeSet<String>>>,
}

impl OperatorPods {
    /// Creates an empty list for this process; [`refresh`](Self::refresh) fills it.
    pub fn new(instance: Instance) -> Self {
        Self { instance, tokens: Arc::default() }
    }

    /// Lists the operator's pods. The helm processes of a deleted or finished pod ended with it.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn refresh(&self, client: &kube::Client) -> Result<(), kube::Error> {
        let api: Api<Pod> = Api::all(client.clone());
        let pods = api.list_metadata(&ListParams::default().labels(LABEL).fields(NOT_FINISHED)).await?;
        let tokens = pods.items.into_iter().filter_map(|pod| pod.metadata.uid.as_deref().map(pod_token)).collect();
        *self.tokens.lock().unwrap_or_else(PoisonError::into_inner) = tokens;
        Ok(())
    }

    /// The liveness of the process with this identity.
    pub fn liveness(&self, instance: &str) -> Liveness {
        match self.instance.liveness(instance) {
            InstanceState::Own => Liveness::Us,
            InstanceState::Dead => Liveness::Dead,
            InstanceState::Alive => Liveness::Alive,
            InstanceState::Unknown => Liveness::Unknown,
            InstanceState::Pod(token) => {
                let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
                if tokens.contains(&token) { Liveness::Alive } else { Liveness::Dead }
            }
        }
    }
}
