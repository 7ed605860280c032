//! Volumes of the controller manager's host path provisioner, which creates an empty folder for every volume outside of
//! the cluster's folder. They are removed with the cluster if the API server can still list them.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::Api;
use kube::api::ListParams;

use crate::client;
use crate::folder::Folder;

/// The folder of Kubernetes' `pkg/volume/hostpath`.
const HOST_PATH: &str = "/tmp/hostpath_pv";
/// A killed or frozen API server must not delay the end.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Removes the folders of all volumes if they are empty, which they are without real kubelets.
pub(super) async fn remove(folder: &Folder) {
    let Ok(client) = client::for_kubeconfig(&folder.kubeconfig_of("seed")).await else { return };
    let api: Api<PersistentVolume> = Api::all(client);
    let listed = tokio::time::timeout(TIMEOUT, api.list(&ListParams::default())).await;
    for volume in listed.into_iter().flatten().flatten() {
        let path = volume.spec.and_then(|spec| spec.host_path).map(|source| source.path).unwrap_or_default();
        if Path::new(&path).starts_with(HOST_PATH) {
            // Already removed, or not empty and then not ours.
            let _ = std::fs::remove_dir(&path);
        }
    }
}
