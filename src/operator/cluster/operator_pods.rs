//! Finds out whether an operator process is alive.
//!
//! osdpl unlocks a record that helm left locked only if the operator process that started helm is dead.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};

use crate::helm::{Instance, InstanceState, pod_token};
use osdpl_core::observed::Liveness;

/// The label of the operator's own pods. The operator's chart sets it.
const LABEL: &str = "app.kubernetes.io/name=osdpl";

/// The field selector of pods that may still run processes.
///
/// The API server also lists a finished pod, such as an evicted one, until someone deletes it.
const NOT_FINISHED: &str = "status.phase!=Failed,status.phase!=Succeeded";

/// The operator's own pods, to check whether the process that an attempt label names is alive.
#[derive(Clone)]
pub struct OperatorPods {
    instance: Instance,
    /// The uids of the pods that were not finished at the last refresh, in the form that attempt labels contain.
    tokens: Arc<Mutex<BTreeSet<String>>>,
}

impl OperatorPods {
    /// Creates an `OperatorPods` that knows no pod yet; [`refresh`](Self::refresh) lists the pods. `instance` is the
    /// identity of this process.
    pub fn new(instance: Instance) -> Self {
        Self { instance, tokens: Arc::default() }
    }

    /// Lists the operator's unfinished pods. The helm processes of a deleted or finished pod have ended with it.
    ///
    /// # Errors
    /// If a request to the API server fails.
    pub async fn refresh(&self, client: &kube::Client) -> Result<(), kube::Error> {
        // The chart grants the operator rights for pods only in the namespaces of clouds, and in its own namespace.
        let api: Api<Pod> = match std::env::var("POD_NAMESPACE") {
            Ok(namespace) => Api::namespaced(client.clone(), &namespace),
            Err(_) => Api::all(client.clone()),
        };
        let pods = api.list_metadata(&ListParams::default().labels(LABEL).fields(NOT_FINISHED)).await?;
        let tokens = pods.items.into_iter().filter_map(|pod| pod.metadata.uid.as_deref().map(pod_token)).collect();
        *self.tokens.lock().unwrap_or_else(PoisonError::into_inner) = tokens;
        Ok(())
    }

    /// Returns whether the operator process with the identity `instance`, which an attempt label contains, is alive.
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
