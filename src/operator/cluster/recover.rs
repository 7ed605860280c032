//! Unlocks a release record that a dead helm process left pending.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt};

use super::objects::ignore_missing;
use super::records::record_name;
use super::{Cluster, Error, ErrorContext};
use osdpl_core::observed::{ObservedRelease, ReleaseKey};
use osdpl_core::release::{self, ATTEMPT_LABEL, Hook, Recovery};

impl Cluster {
    /// Unlocks the newest record of a release after the helm process that wrote the record has died. Returns a
    /// description of the result for the log.
    ///
    /// `observed` is the release as the plan saw it. If another helm run has written the record since then, this
    /// function writes nothing.
    ///
    /// # Errors
    /// Returns an error if the record can't be decoded, if the unlocked record would be too large, or if a request to
    /// the API server fails, for example because the record has changed.
    pub(crate) async fn unlock(&self, key: &ReleaseKey, observed: &ObservedRelease) -> Result<&'static str, Error> {
        let name = record_name(key, observed.revision);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let Some(secret) = api.get_opt(&name).await.with_context(|| format!("reading release record {name}"))? else {
            return Ok("the record no longer exists");
        };
        let attempt = observed.attempt.as_ref().map(|attempt| attempt.label.as_str());
        if secret.uid() != observed.uid || secret.labels().get(ATTEMPT_LABEL).map(String::as_str) != attempt {
            return Ok("another helm process has written the record since osdpl planned to unlock it");
        }
        let payload =
            secret.data.as_ref().and_then(|data| data.get(release::SECRET_KEY)).map(|bytes| bytes.0.as_slice());
        let payload = payload
            .ok_or_else(|| Error::Object(format!("Secret {name} contains no release record; delete the Secret")))?;
        let malformed = |error: release::DecodeError| Error::Object(format!("release record {name}: {error}"));
        let (status, hooks) = release::decode_hooks(payload).map_err(malformed)?;
        let mut existing = Vec::new();
        for hook in &hooks {
            if self.hook_exists(key, hook).await? {
                existing.push(hook.name.clone());
            }
        }
        match release::next_recovery_step(status, &hooks, |hook| existing.contains(&hook.name)) {
            Recovery::Nothing | Recovery::Uninstall => Ok("the record does not block helm, so osdpl did not change it"),
            Recovery::RewriteFailed => {
                let failed =
                    release::mark_secret_failed(secret, "osdpl: the operation was interrupted").map_err(malformed)?;
                let written = api.replace(&name, &PostParams::default(), &failed).await;
                if written.as_ref().is_err_and(is_too_large) {
                    return Err(Error::Object(format!(
                        "release record {name} can't be unlocked: with the status `failed`, it would be larger than \
                         1 MiB, the most that a Secret may contain; delete the Secret, so that the operator continues \
                         from the previous revision, and make the values of the release smaller"
                    )));
                }
                written.with_context(|| format!("unlocking release record {name}"))?;
                Ok("marked the record as failed")
            }
            Recovery::DeleteRecord { .. } => {
                // Delete only the record, and keep the objects of pre-install hooks, because these objects may contain
                // data, such as keys. The next install uses server-side apply, so it accepts objects that already
                // exist.
                let preconditions =
                    Preconditions { resource_version: secret.metadata.resource_version, uid: secret.metadata.uid };
                let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                ignore_missing(api.delete(&name, &params).await, || format!("deleting release record {name}"))?;
                Ok("deleted the record of an interrupted install")
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
        Ok(found.with_context(|| format!("reading {} {}/{}", hook.kind, key.namespace, hook.name))?.is_some())
    }
}

/// Whether the API server refused a write because the Secret, or the request that contains it, is too large.
fn is_too_large(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 413 || status.code == 422 && status.message.contains("Too long")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::Router;
    use axum::http::{Method, StatusCode};
    use base64::Engine;
    use k8s_openapi::ByteString;
    use osdpl_core::observed::{Attempt, Liveness};
    use serde_json::json;

    use super::super::testing::RefusingServer;
    use super::*;

    /// Calls [`Cluster::unlock`] while the record in the API server has the uid `uid` and the attempt `attempt`. The
    /// plan observed the uid 7 and the attempt `h1.2.3-1-v3`. Returns the result, and the methods of the requests.
    async fn unlock(uid: &str, attempt: &str) -> (Result<&'static str, Error>, Vec<Method>) {
        let requests = Arc::<Mutex<Vec<Method>>>::default();
        let methods = Arc::clone(&requests);
        let record = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {
                "name": "sh.helm.release.v1.store.v3", "uid": uid, "labels": {ATTEMPT_LABEL: attempt},
            },
        });
        let respond = async move |method: Method| {
            methods.lock().unwrap().push(method);
            record.to_string()
        };
        let cluster = Cluster::new(kube::Client::new(Router::new().fallback(respond), "openstack"));
        let attempt = Attempt { label: "h1.2.3-1-v3".into(), revision: 3, owner: Liveness::Dead };
        let observed = ObservedRelease {
            revision: 3,
            uid: Some("7".into()),
            attempt: Some(attempt),
            ..ObservedRelease::default()
        };
        let result = cluster.unlock(&ReleaseKey::new("openstack", "store"), &observed).await;
        let requests = std::mem::take(&mut *requests.lock().unwrap());
        (result, requests)
    }

    #[tokio::test]
    async fn does_not_unlock_the_record_of_another_helm_run() {
        for (uid, attempt) in [("8", "h1.2.3-1-v3"), ("7", "h4.5.6-1-v3")] {
            let (result, requests) = unlock(uid, attempt).await;
            assert_eq!(result.unwrap(), "another helm process has written the record since osdpl planned to unlock it");
            assert_eq!(requests, [Method::GET]);
        }
        let same = unlock("7", "h1.2.3-1-v3").await.0.unwrap_err().to_string();
        assert!(same.contains("contains no release record; delete the Secret"), "{same}");
    }

    #[tokio::test]
    async fn deletes_only_the_record_that_it_has_read() {
        let hook = json!({"name": "keys", "kind": "Job", "events": ["pre-install"]});
        let payload = json!({"info": {"status": "pending-install"}, "hooks": [hook]}).to_string();
        let payload = base64::engine::general_purpose::STANDARD.encode(payload);
        let record = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "sh.helm.release.v1.store.v1", "uid": "seen", "resourceVersion": "5"},
            "data": {"release": ByteString(payload.into_bytes())},
        });
        let job = json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "keys"},
        });
        let server = RefusingServer::new(move |name| if name == "keys" { job.clone() } else { record.clone() });
        let observed = ObservedRelease { revision: 1, uid: Some("seen".into()), ..ObservedRelease::default() };
        let error = server.cluster().unlock(&ReleaseKey::new("openstack", "store"), &observed).await.unwrap_err();
        assert!(error.to_string().contains("deleting release record"), "{error}");
        assert_eq!(server.preconditions(), [json!({"resourceVersion": "5", "uid": "seen"})]);
    }

    #[tokio::test]
    async fn names_a_record_that_is_too_large_to_unlock() {
        let payload = r#"{"info": {"status": "pending-upgrade"}}"#;
        let payload = base64::engine::general_purpose::STANDARD.encode(payload);
        let record = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sh.helm.release.v1.store.v3"},
            "data": {"release": ByteString(payload.into_bytes())},
        });
        for (code, message) in [
            (422, "Secret \"store\" is invalid: data: Too long: may not be more than 1048576 bytes"),
            (413, "Request entity too large: limit is 3145728"),
        ] {
            let record = record.to_string();
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code});
            let respond = async move |method: Method| match method {
                Method::GET => (StatusCode::OK, record),
                _ => (StatusCode::from_u16(code).unwrap(), status.to_string()),
            };
            let cluster = Cluster::new(kube::Client::new(Router::new().fallback(respond), "openstack"));
            let observed = ObservedRelease { revision: 3, ..ObservedRelease::default() };
            let error =
                cluster.unlock(&ReleaseKey::new("openstack", "store"), &observed).await.unwrap_err().to_string();
            assert!(error.contains("release record sh.helm.release.v1.store.v3 can't be unlocked"), "{error}");
            assert!(error.contains("larger than 1 MiB") && error.contains("delete the Secret"), "{error}");
        }
    }
}
