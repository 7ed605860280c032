//! Creates clients of the API server, and asks the API server whether it is ready.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::Error;

/// Returns a client with the server and identity of the current context in a kubeconfig.
pub(crate) async fn for_kubeconfig(path: &Path) -> Result<Client, Error> {
    let failed = |reason: String| Error::Malformed { path: path.into(), reason };
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| failed(error.to_string()))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.map_err(|error| failed(error.to_string()))?).map_err(|error| failed(error.to_string()))
}

/// Whether the API server responds `ok` to `/readyz`.
pub(crate) async fn is_ready(client: &Client) -> bool {
    let request = axum::http::Request::get("/readyz").body(Vec::new());
    let Ok(request) = request else { return false };
    client.request_text(request).await.is_ok_and(|answer| answer == "ok")
}
