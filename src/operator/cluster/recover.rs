//! Unlocking a record that a dead attempt left pending, fenced by its resourceVersion (`helm.md` §3).

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind};

use super::{Cluster, Error, Explain};
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release::{self, Hook, Recovery};

impl Cluster {
    /// Unlocks revision `revision` of a release whose maker is dead; returns what was done, in words.
    ///
    /// # Errors
    /// When the record can't be read, or the API server refuses.
    pub async fn unlock(&self, key: &ReleaseKey, revision: i64) -> Result<&'static str, Error> {
        let name = format!("sh.helm.release.v1.{}.v{revision}", key.name);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let Some(secret) = api.get_opt(&name).await.because(|| format!("reading release record {name}"))? else {
            return Ok("the record is gone");
        };
        let payload =
            secret.data.as_ref().and_then(|data| data.get(release::SECRET_KEY)).map(|bytes| bytes.0.as_slice());
        let payload =
            payload.ok_or_else(|| Error::Object(format!("release record {name} is empty; delete the Secret")))?;
        let unreadable = |error: release::DecodeError| Error::Object(format!("release record {name}: {error}"));
        let (status, hooks) = release::decode_hooks(payload).map_err(unreadable)?;
        let mut existing = Vec::new();
        for hook in &hooks {
            if self.hook_exists(key, hook).await? {
                existing.push(hook.name.clone());
            }
        }
        match release::next_recovery_step(status, &hooks, |hook| existing.contains(&hook.name)) {
            Recovery::Nothing | Recovery::Uninstall => Ok("nothing stands in helm's way"),
            Recovery::RewriteFailed => {
                let failed =
                    release::mark_secret_failed(secret, "osdpl: the operation was interrupted").map_err(unreadable)?;
                api.replace(&name, &PostParams::default(), &failed).await.because(|| format!("unlocking {name}"))?;
                Ok("marked as failed")
            }
            Recovery::DeleteRecord { .. } => {
                // Server-side apply takes over what pre-install hooks left; helm 3 never gets this far with hooks that keep data.
                let preconditions =
                    Preconditions { resource_version: secret.metadata.resource_version, uid: secret.metadata.uid };
                let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                super::remove::gone(api.delete(&name, &params).await, || format!("deleting record {name}"))?;
                Ok("deleted, to be installed anew")
            }
        }
    }

    async fn hook_exists(&self, key: &ReleaseKey, hook: &Hook) -> Result<bool, Error> {
        if !hook.runs_at(release::Event::PreInstall) {
            return Ok(false);
        }
        let (group, version) = match hook.kind.as_str() {
            "Job" => ("batch", "v1"),
            "Secret" | "ConfigMap" | "Pod" | "ServiceAccount" => ("", "v1"),
            _ => return Ok(false),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &hook.kind));
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &key.namespace, &resource);
        let found = api.get_metadata_opt(&hook.name).await;
        Ok(found.because(|| format!("looking for {} {}/{}", hook.kind, key.namespace, hook.name))?.is_some())
    }
}
