//! Whether Secrets and ConfigMaps that pods mount are there. The kubelet says so in events alone.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use osdpl_core::health::pod::{Mount, MountKind};

/// How often it is looked whether containers are still being created.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(4);

/// What is to be looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sought {
    pub(super) namespace: String,
    /// The pod.
    pub(super) uid: String,
    pub(super) mounts: Vec<Mount>,
}

/// What was not found.
pub(super) struct Found {
    pub(super) uid: String,
    pub(super) absent: Vec<Mount>,
}

/// Looks for them; what the API server does not answer for counts as there.
pub(super) async fn find(client: Client, sought: Sought) -> Found {
    let mut absent = Vec::new();
    for mount in sought.mounts {
        let is_absent = match mount.kind {
            MountKind::Secret => {
                lacks(&Api::<Secret>::namespaced(client.clone(), &sought.namespace), &mount.name).await
            }
            MountKind::ConfigMap => {
                lacks(&Api::<ConfigMap>::namespaced(client.clone(), &sought.namespace), &mount.name).await
            }
        };
        if is_absent {
            absent.push(mount);
        }
    }
    Found { uid: sought.uid, absent }
}

/// Metadata alone is asked for: no secret comes this way.
async fn lacks<K>(api: &Api<K>, name: &str) -> bool
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    matches!(api.get_metadata_opt(name).await, Ok(None))
}
