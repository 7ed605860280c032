//! Checks whether the Secrets and ConfigMaps that pods mount exist. A pod's status does not name a missing object,
//! because the kubelet reports a missing object only in events.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use osdpl_core::health::pod::{Mount, MountKind};

/// The interval between two rounds of the health task. In each round, the task sends requests to find out why objects
/// wait.
pub(super) const RECHECK_INTERVAL: Duration = Duration::from_secs(4);

/// A pod, and the Secrets and ConfigMaps that it mounts. The health task checks whether these objects exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MountQuery {
    pub(super) namespace: String,
    /// The uid of the pod.
    pub(super) uid: String,
    pub(super) mounts: Vec<Mount>,
}

/// A pod, and the missing Secrets and ConfigMaps that it mounts.
pub(super) struct Found {
    pub(super) uid: String,
    pub(super) absent: Vec<Mount>,
}

/// Returns the Secrets and ConfigMaps that a pod mounts and that do not exist. Leaves out objects that the operator
/// cannot read.
pub(super) async fn find_missing(client: Client, query: MountQuery) -> Found {
    let mut absent = Vec::new();
    for mount in query.mounts {
        let missing = match mount.kind {
            MountKind::Secret => {
                is_missing(&Api::<Secret>::namespaced(client.clone(), &query.namespace), &mount.name).await
            }
            MountKind::ConfigMap => {
                is_missing(&Api::<ConfigMap>::namespaced(client.clone(), &query.namespace), &mount.name).await
            }
        };
        if missing {
            absent.push(mount);
        }
    }
    Found { uid: query.uid, absent }
}

/// Whether the object does not exist. The request asks only for metadata, so that the operator reads no secret data.
async fn is_missing<K>(api: &Api<K>, name: &str) -> bool
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    matches!(api.get_metadata_opt(name).await, Ok(None))
}
