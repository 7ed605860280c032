//! Removes the folders of a cluster's persistent volumes. The host path provisioner of kube-controller-manager creates
//! an empty folder in `/tmp` for every volume, outside of the cluster's folder.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::Api;
use kube::api::ListParams;

use crate::client;
use crate::folder::Folder;

/// The folder in which the host path provisioner creates the folders of volumes (Kubernetes' `pkg/volume/hostpath`).
const HOST_PATH: &str = "/tmp/hostpath_pv";
/// The timeout for listing the volumes. It is short, because a test may have killed or frozen the API server before the
/// cluster stops.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Removes the folders of all volumes that the API server lists. The folders are empty, because simulated pods write no
/// data.
pub(super) async fn remove(folder: &Folder) {
    let Ok(client) = client::for_kubeconfig(&folder.kubeconfig_of("seed")).await else { return };
    let api: Api<PersistentVolume> = Api::all(client);
    let listed = tokio::time::timeout(TIMEOUT, api.list(&ListParams::default())).await;
    for volume in listed.into_iter().flatten().flatten() {
        let path = volume.spec.and_then(|spec| spec.host_path).map(|source| source.path).unwrap_or_default();
        if Path::new(&path).starts_with(HOST_PATH) {
            // Ignore an error: it means that the folder does not exist or contains files. A folder with files does not
            // belong to this cluster, so it must stay.
            let _ = std::fs::remove_dir(&path);
        }
    }
}
