//! Writes the finalizer, the annotations and the status of `OpenStackDeployment`s, and records events about them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::events::{Event, EventType};
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::{Cluster, Error, ErrorContext, MANAGER};
use osdpl_core::api::{FINALIZER, OpenStackDeployment, OpenStackDeploymentStatus};
use osdpl_core::status::{self, Subject};

/// Returns the kind, the namespace and the name of a resource, for error messages.
fn described(deployment: &OpenStackDeployment) -> String {
    format!("OpenStackDeployment {}/{}", deployment.namespace().unwrap_or_default(), deployment.name_any())
}

impl Cluster {
    fn deployments(&self, deployment: &OpenStackDeployment) -> Api<OpenStackDeployment> {
        Api::namespaced(self.client.clone(), &deployment.namespace().unwrap_or_default())
    }

    /// Adds osdpl's finalizer to the `OpenStackDeployment`, or removes the finalizer if `present` is `false`.
    ///
    /// # Errors
    /// Returns an error if the request to the API server fails, for example because someone else changed the resource
    /// concurrently.
    pub(crate) async fn set_finalizer(&self, deployment: &OpenStackDeployment, present: bool) -> Result<(), Error> {
        let mut finalizers = deployment.finalizers().to_vec();
        if finalizers.iter().any(|finalizer| finalizer == FINALIZER) == present {
            return Ok(());
        }
        if present {
            finalizers.push(FINALIZER.into());
        } else {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
        }
        let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": deployment.resource_version()}});
        let name = deployment.name_any();
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        match self.deployments(deployment).patch(&name, &params, &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => other.map(drop).with_context(|| format!("changing the finalizers of {}", described(deployment))),
        }
    }

    /// Sets annotations on the `OpenStackDeployment`; removes each annotation whose value is `None`.
    ///
    /// Writes nothing and returns `false` if someone changed the resource concurrently, because that change may concern
    /// the same annotations. The change triggers a pass, which decides about the annotations again.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn annotate(
        &self,
        deployment: &OpenStackDeployment,
        annotations: &BTreeMap<&str, Option<String>>,
    ) -> Result<bool, Error> {
        if annotations.is_empty() {
            return Ok(true);
        }
        let version = deployment.resource_version();
        let patch = json!({"metadata": {"annotations": annotations, "resourceVersion": version}});
        let name = deployment.name_any();
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        match self.deployments(deployment).patch(&name, &params, &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(true),
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(false),
            other => other.map(|_| true).with_context(|| {
                let keys: Vec<_> = annotations.keys().copied().collect();
                format!("changing annotations {} of {}", keys.join(", "), described(deployment))
            }),
        }
    }

    /// Writes `status`, and then records the events. Does nothing if `deployment` already has this status.
    ///
    /// Returns the written resource; `None` if osdpl wrote nothing, because `deployment` has this status or the
    /// resource no longer exists.
    ///
    /// # Errors
    /// Returns an error if the write of the status fails, for example because someone else has changed the resource
    /// since osdpl read `deployment`. The write names the resourceVersion of `deployment`. So an operator that has lost
    /// its Lease can't overwrite the status that the new holder of the Lease has written.
    pub(crate) async fn publish_status(
        &self,
        deployment: &OpenStackDeployment,
        status: OpenStackDeploymentStatus,
        events: Vec<status::Event>,
    ) -> Result<Option<OpenStackDeployment>, Error> {
        if deployment.status.as_ref() == Some(&status) {
            return Ok(None);
        }
        let name = deployment.name_any();
        let patch = json!({
            "apiVersion": OpenStackDeployment::api_version(&()), "kind": OpenStackDeployment::kind(&()), "status": status,
            "metadata": {"uid": deployment.uid(), "resourceVersion": deployment.resource_version()},
        });
        let params = PatchParams::apply(MANAGER).force();
        let written = match self.deployments(deployment).patch_status(&name, &params, &Patch::Apply(patch)).await {
            Err(kube::Error::Api(response)) if response.is_not_found() => return Ok(None),
            other => other.with_context(|| format!("writing the status of {}", described(deployment)))?,
        };
        self.record_events(deployment, events).await;
        Ok(Some(written))
    }

    /// Records events about the `OpenStackDeployment`. If this fails, the function only logs the error: the actions
    /// that the events describe are already done.
    pub(crate) async fn record_events(&self, deployment: &OpenStackDeployment, events: Vec<status::Event>) {
        for event in events {
            let event = Event {
                type_: if event.warning { EventType::Warning } else { EventType::Normal },
                reason: event.reason.into(),
                note: Some(event.note),
                action: "Reconcile".into(),
                secondary: event.subject.map(|subject| related(deployment, subject)),
            };
            if let Err(error) = self.recorder.publish(&event, &deployment.object_ref(&())).await {
                tracing::warn!(
                    error = osdpl_client::explain(&error),
                    reason = event.reason,
                    "osdpl can't record an event about the OpenStackDeployment"
                );
            }
        }
    }
}

/// Returns the object that an event concerns, for the event's field `related`.
///
/// The recorder merges events that differ only in their notes. Events with different related objects stay separate.
fn related(deployment: &OpenStackDeployment, subject: Subject) -> ObjectReference {
    let (kind, version, name) = match subject {
        // Set the resourceVersion, so that the recorder does not merge two events about one field if the resource has
        // changed between them.
        Subject::Field(path) => {
            let resource_version = deployment.resource_version();
            return ObjectReference { field_path: Some(path), resource_version, ..deployment.object_ref(&()) };
        }
        Subject::Release(name) => ("Release".to_owned(), Some("helm.sh/v1"), name),
        Subject::Secret(name) => ("Secret".to_owned(), Some("v1"), name),
        Subject::Object { kind, name } => (kind, None, name),
    };
    ObjectReference {
        kind: Some(kind),
        api_version: version.map(Into::into),
        namespace: deployment.namespace(),
        name: Some(name),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::Router;
    use axum::http::StatusCode;
    use axum::response::IntoResponse;

    use super::*;
    use osdpl_core::api::{OpenStackDeploymentSpec, REPAIR};

    /// Returns a client of an API server that refuses each write with a conflict, and a list that contains the request
    /// body of each write.
    fn cluster_with_conflicts() -> (Cluster, Arc<Mutex<Vec<serde_json::Value>>>) {
        let requests = Arc::<Mutex<Vec<serde_json::Value>>>::default();
        let bodies = Arc::clone(&requests);
        let conflict = async move |body: String| {
            bodies.lock().unwrap().push(serde_json::from_str(&body).unwrap());
            let refusal = json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict"});
            (StatusCode::CONFLICT, refusal.to_string()).into_response()
        };
        (Cluster::new(kube::Client::new(Router::new().fallback(conflict), "cloud")), requests)
    }

    /// Returns a resource with the uid `u` and the resourceVersion `7`.
    fn nimbus() -> OpenStackDeployment {
        let mut deployment = OpenStackDeployment::new("nimbus", OpenStackDeploymentSpec::default());
        deployment.metadata.namespace = Some("cloud".into());
        deployment.metadata.uid = Some("u".into());
        deployment.metadata.resource_version = Some("7".into());
        deployment
    }

    #[tokio::test]
    async fn status_and_finalizer_do_not_overwrite_a_change() {
        let ((cluster, requests), deployment) = (cluster_with_conflicts(), nimbus());
        let status = OpenStackDeploymentStatus { observed_generation: Some(1), ..OpenStackDeploymentStatus::default() };
        let written = cluster.publish_status(&deployment, status, Vec::new()).await;
        assert!(written.is_err_and(|error| error.is_conflict()));
        assert!(cluster.set_finalizer(&deployment, true).await.is_err_and(|error| error.is_conflict()));
        let mut own = deployment;
        own.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        assert!(cluster.set_finalizer(&own, false).await.is_err_and(|error| error.is_conflict()));
        // Each write names the resourceVersion, which belongs to one version of one object. So a write of finalizers is
        // safe without the uid.
        let expected = [
            json!({"uid": "u", "resourceVersion": "7"}),
            json!({"finalizers": [FINALIZER], "resourceVersion": "7"}),
            json!({"finalizers": [], "resourceVersion": "7"}),
        ];
        let requests = requests.lock().unwrap();
        let metadata: Vec<_> = requests.iter().map(|body| body["metadata"].clone()).collect();
        assert_eq!(metadata, expected);
    }

    #[tokio::test]
    async fn does_not_annotate_a_changed_resource() {
        let ((cluster, requests), deployment) = (cluster_with_conflicts(), nimbus());
        assert!(!cluster.annotate(&deployment, &[(REPAIR, None)].into()).await.unwrap());
        assert!(
            cluster.annotate(&deployment, &BTreeMap::new()).await.unwrap(),
            "without annotations no request is sent"
        );
        let metadata = json!({"annotations": {REPAIR: null}, "resourceVersion": "7"});
        assert_eq!(*requests.lock().unwrap(), [json!({"metadata": metadata})]);
    }

    /// Records events about the resource, once for each resourceVersion in `versions`. `event` returns the events for a
    /// resourceVersion.
    ///
    /// Returns one item for each request of the recorder: whether the request created an event or updated an existing
    /// one, and the event's note.
    async fn recorded(versions: &[&str], event: impl Fn(&str) -> Vec<status::Event>) -> Vec<(bool, String)> {
        let recorded = Arc::<Mutex<Vec<_>>>::default();
        let requests = Arc::clone(&recorded);
        let record = async move |request: axum::extract::Request| {
            let is_new = request.method() == axum::http::Method::POST;
            let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
            let event: serde_json::Value = serde_json::from_slice(&body).unwrap();
            requests.lock().unwrap().push((is_new, event["note"].as_str().unwrap().to_owned()));
            event.to_string().into_response()
        };
        let cluster = Cluster::new(kube::Client::new(Router::new().fallback(record), "cloud"));
        let mut deployment = nimbus();
        for version in versions {
            deployment.metadata.resource_version = Some((*version).to_owned());
            cluster.record_events(&deployment, event(version)).await;
        }
        std::mem::take(&mut *recorded.lock().unwrap())
    }

    #[tokio::test]
    async fn separates_events_of_fields_and_versions() {
        let of = |field: &str, note: &str| status::Event {
            warning: true,
            reason: "SpecWarning",
            note: note.to_owned(),
            subject: Some(Subject::Field(field.to_owned())),
        };
        let both = recorded(&["7"], |_| vec![of("spec.a", "a has no effect"), of("spec.b", "b has no effect")]).await;
        assert_eq!(both, [(true, "a has no effect".to_owned()), (true, "b has no effect".to_owned())]);
        let later = recorded(&["7", "8"], |version| vec![of("spec.a", version)]).await;
        assert_eq!(later, [(true, "7".to_owned()), (true, "8".to_owned())]);
        let merged = recorded(&["7", "7"], |_| vec![of("spec.a", "a has no effect")]).await;
        assert_eq!(merged.iter().map(|(is_new, _)| *is_new).collect::<Vec<_>>(), [true, false]);
    }
}
