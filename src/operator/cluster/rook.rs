//! Objects of Rook: `CephBlockPool`s, `CephFilesystem`s and `CephClient`s, never deleted, because data and keys depend on them.

mod store;
mod watch;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, Status};
use serde_json::json;

pub use watch::RookWatch;

use super::{Cluster, Error, Explain, MANAGER};
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::ceph::Manifest;

pub(super) fn resource(kind: &str) -> ApiResource {
    let plural = format!("{}s", kind.to_lowercase());
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("ceph.rook.io", "v1", kind), &plural)
}

/// The API server's words about an object of Rook; with the remedy where Rook is missing.
pub(super) fn refusal(place: &str, status: &Status) -> String {
    if status.code == 404 {
        return format!(
            "{place} can't be made: the namespace, or ceph.rook.io/v1, is not there; install Rook, or correct spec.features.storage.ceph.rook.namespace"
        );
    }
    format!("{place}: {}", status.message)
}

impl Cluster {
    /// Applies an object that Rook is asked for.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn apply_rook(&self, deployment: &str, namespace: &str, manifest: &Manifest) -> Result<(), Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource(manifest.kind));
        let place = format!("{} {namespace}/{}", manifest.kind, manifest.name);
        let labels = json!({DEPLOYMENT_LABEL: deployment, "app.kubernetes.io/managed-by": MANAGER});
        let body = json!({
            "apiVersion": "ceph.rook.io/v1", "kind": manifest.kind, "spec": manifest.spec,
            "metadata": {"name": manifest.name, "namespace": namespace, "labels": labels},
        });
        match api.patch(&manifest.name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(body)).await {
            Err(kube::Error::Api(status)) => Err(Error::Object(refusal(&place, &status))),
            other => other.map(drop).because(|| format!("asking Rook for {place}")),
        }
    }
}
