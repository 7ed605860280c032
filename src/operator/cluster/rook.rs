//! Writes Rook's objects: Ceph's pools, file systems and clients, and the Keystone settings of object stores.
//!
//! osdpl never deletes an object of Rook, because the cloud's data and Ceph's keys depend on these objects.

mod watch;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, Status};
use serde_json::{Value, json};

pub(super) use watch::RookWatch;

use super::{Cluster, Error, ErrorContext, MANAGER};
use osdpl_client::refusal;
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::ceph::Manifest;
use osdpl_core::observed::ReleaseKey;
use osdpl_decide::OBJECT_STORE;

pub(super) fn rook_resource(kind: &str) -> ApiResource {
    let plural = format!("{}s", kind.to_lowercase());
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("ceph.rook.io", "v1", kind), &plural)
}

/// Describes why the API server refused a request for an object of Rook. Names the remedy if Rook is not installed or
/// the operator lacks the permission.
pub(super) fn describe_refusal(object: &str, status: &Status) -> String {
    if status.code == 404 {
        return format!(
            "{object} can't be created: the namespace or ceph.rook.io/v1 does not exist; install Rook, or correct \
             spec.features.storage.ceph.rook.namespace"
        );
    }
    if status.is_forbidden() {
        return format!("{object}: {}; set `rbac.rook` in the values of the operator's chart", refusal(status));
    }
    format!("{object}: {}", refusal(status))
}

impl Cluster {
    /// Applies a `CephBlockPool`, `CephFilesystem` or `CephClient`.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn apply_rook(&self, owner: &str, namespace: &str, manifest: &Manifest) -> Result<(), Error> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &rook_resource(manifest.kind));
        let object = format!("{} {namespace}/{}", manifest.kind, manifest.name);
        let labels = json!({DEPLOYMENT_LABEL: owner, "app.kubernetes.io/managed-by": MANAGER});
        let body = json!({
            "apiVersion": "ceph.rook.io/v1", "kind": manifest.kind, "spec": manifest.spec,
            "metadata": {"name": manifest.name, "namespace": namespace, "labels": labels},
        });
        match api.patch(&manifest.name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(body)).await {
            Err(kube::Error::Api(status)) => Err(Error::Object(describe_refusal(&object, &status))),
            other => other.map(drop).with_context(|| format!("applying {object}")),
        }
    }

    /// Applies the Keystone settings in `settings` to the spec of a `CephObjectStore` that someone else created.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn configure_store(
        &self,
        owner: &str,
        store: &ReleaseKey,
        uid: &Value,
        settings: &Value,
    ) -> Result<(), Error> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &store.namespace, &rook_resource(OBJECT_STORE));
        let body = json!({
            "apiVersion": "ceph.rook.io/v1", "kind": OBJECT_STORE, "spec": settings,
            // With the uid, the API server refuses the request if someone has deleted the store since osdpl read it.
            // Without the uid, the API server would create a new store.
            "metadata": {"name": store.name, "uid": uid, "labels": {DEPLOYMENT_LABEL: owner}},
        });
        match api.patch(&store.name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(body)).await {
            Err(kube::Error::Api(status)) => {
                Err(Error::Object(format!("{OBJECT_STORE} {store}: {}", refusal(&status))))
            }
            other => other.map(drop).with_context(|| format!("writing {OBJECT_STORE} {store}")),
        }
    }

    /// Removes from a `CephObjectStore` the Keystone settings that osdpl has applied to it.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn release_store(&self, store: &ReleaseKey, uid: &str) -> Result<(), Error> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &store.namespace, &rook_resource(OBJECT_STORE));
        let metadata = json!({"name": store.name, "uid": uid});
        let body = json!({"apiVersion": "ceph.rook.io/v1", "kind": OBJECT_STORE, "metadata": metadata});
        let patched = api.patch(&store.name, &PatchParams::apply(MANAGER), &Patch::Apply(body)).await;
        patched.map(drop).with_context(|| format!("removing Keystone's settings from {OBJECT_STORE} {store}"))
    }
}
