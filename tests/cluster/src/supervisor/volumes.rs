//! The controller manager's host path provisioner makes an empty folder for every volume, outside ours and with
//! no say in where. They go when the cluster goes, as far as the API server can still name them.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::Api;
use kube::api::ListParams;

use crate::client;
use crate::folder::Folder;

/// Where Kubernetes' `pkg/volume/hostpath` puts them.
const PLACE: &str = "/tmp/hostpath_pv";
/// An API server that was killed or frozen must not hold the end up.
const PATIENCE: Duration = Duration::from_secs(1);

/// Removes the folders of all volumes. Only empty ones, which they are without real kubelets.
pub(super) async fn remove(folder: &Folder) {
    let Ok(client) = client::for_kubeconfig(&folder.kubeconfig_of("seed")).await else { return };
    let api: Api<PersistentVolume> = Api::all(client);
    let listed = tokio::time::timeout(PATIENCE, api.list(&ListParams::default())).await;
    for volume in listed.into_iter().flatten().flatten() {
        let path = volume.spec.and_then(|spec| spec.host_path).map(|source| source.path).unwrap_or_default();
        if Path::new(&path).starts_with(PLACE) {
            // Gone already, or not empty and then not for us.
            let _ = std::fs::remove_dir(&path);
        }
    }
}
