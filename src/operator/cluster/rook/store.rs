//! The Keystone settings of a `CephObjectStore`: set where they differ, taken back where no cloud stands behind them any more.

use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::super::{Cluster, Error, Explain, MANAGER};
use super::resource;
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::ceph::{NotReady, contains};

/// The kind.
pub const STORE: &str = "CephObjectStore";

impl Cluster {
    /// Sets `settings` in the `spec` of an object store, of which `live` is what a watch told. It is Rook's user's own: only what is set here is
    /// touched. What the API server refuses is Rook's trouble, not the pass's.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn tell_store(
        &self,
        deployment: &str,
        (namespace, name): (&str, &str),
        live: &Value,
        settings: &Value,
    ) -> Result<Option<NotReady>, Error> {
        let place = format!("{STORE} {namespace}/{name}");
        let owner = live["metadata"]["labels"][DEPLOYMENT_LABEL].as_str();
        if owner.is_some_and(|owner| owner != deployment) {
            return Ok(Some(NotReady::Occupied(place)));
        }
        if self.only_reads || (owner.is_some() && contains(&live["spec"], settings)) {
            return Ok(None);
        }
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource(STORE));
        let body = json!({
            "apiVersion": "ceph.rook.io/v1", "kind": STORE, "spec": settings,
            // With the uid, one that was deleted meanwhile is not made anew.
            "metadata": {"name": name, "uid": live["metadata"]["uid"], "labels": {DEPLOYMENT_LABEL: deployment}},
        });
        match api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(body)).await {
            Ok(_) => {
                tracing::info!(object = place, "told where Keystone is");
                Ok(None)
            }
            Err(kube::Error::Api(status)) => Ok(Some(NotReady::Rook(format!("{place}: {}", status.message)))),
            Err(error) => Err(error).because(|| format!("writing {place}")),
        }
    }

    /// Takes our settings out of every object store but the one that is `kept`.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn leave_stores(&self, deployment: &str, kept: Option<(&str, &str)>) -> Result<(), Error> {
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource(STORE));
        let found =
            match all.list_metadata(&ListParams::default().labels(&format!("{DEPLOYMENT_LABEL}={deployment}"))).await {
                // No Rook, no object store.
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                found => found.because(|| format!("listing {STORE}s"))?,
            };
        for store in found {
            let (namespace, name) = (store.namespace().unwrap_or_default(), store.name_any());
            if kept == Some((&namespace, &name)) {
                continue;
            }
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, &resource(STORE));
            let body =
                json!({"apiVersion": "ceph.rook.io/v1", "kind": STORE, "metadata": {"name": name, "uid": store.uid()}});
            let patched = api.patch(&name, &PatchParams::apply(MANAGER), &Patch::Apply(body)).await;
            patched.because(|| format!("taking Keystone out of {STORE} {namespace}/{name}"))?;
        }
        Ok(())
    }
}
