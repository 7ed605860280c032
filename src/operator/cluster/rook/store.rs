//! The Keystone settings of a `CephObjectStore`: set where they differ, taken out where no cloud uses them any more.

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::super::{Cluster, Error, Explain, MANAGER};
use super::resource;
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::observed::ReleaseKey;
use osdpl_decide::STORE;

impl Cluster {
    /// Sets `settings` in the `spec` of an object store.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn configure_store(
        &self,
        deployment: &str,
        store: &ReleaseKey,
        uid: &Value,
        settings: &Value,
    ) -> Result<(), Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &store.namespace, &resource(STORE));
        let body = json!({
            "apiVersion": "ceph.rook.io/v1", "kind": STORE, "spec": settings,
            // With the uid, a store that was deleted meanwhile is not created again.
            "metadata": {"name": store.name, "uid": uid, "labels": {DEPLOYMENT_LABEL: deployment}},
        });
        match api.patch(&store.name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(body)).await {
            Err(kube::Error::Api(status)) => Err(Error::Object(format!("{STORE} {store}: {}", status.message))),
            other => other.map(drop).because(|| format!("writing {STORE} {store}")),
        }
    }

    /// Takes our settings out of an object store.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn release_store(&self, store: &ReleaseKey, uid: Option<&str>) -> Result<(), Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &store.namespace, &resource(STORE));
        let metadata = json!({"name": store.name, "uid": uid});
        let body = json!({"apiVersion": "ceph.rook.io/v1", "kind": STORE, "metadata": metadata});
        let patched = api.patch(&store.name, &PatchParams::apply(MANAGER), &Patch::Apply(body)).await;
        patched.map(drop).because(|| format!("taking Keystone out of {STORE} {store}"))
    }
}
