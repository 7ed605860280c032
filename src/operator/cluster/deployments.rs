//! The custom resource: its finalizer, its status, its events.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::events::{Event, EventType};
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::{Cluster, Error, Explain, MANAGER};
use osdpl_core::api::{FINALIZER, OpenStackDeployment, OpenStackDeploymentStatus};
use osdpl_core::status::{self, Subject};

impl Cluster {
    fn deployments(&self, deployment: &OpenStackDeployment) -> Api<OpenStackDeployment> {
        Api::namespaced(self.client.clone(), &deployment.namespace().unwrap_or_default())
    }

    /// Adds or removes our finalizer, guarded by the resource's version; does nothing where it is as wanted.
    ///
    /// # Errors
    /// When the API server refuses, or someone else changed the resource meanwhile.
    pub async fn set_finalizer(&self, deployment: &OpenStackDeployment, wanted: bool) -> Result<bool, Error> {
        let mut finalizers = deployment.finalizers().to_vec();
        if finalizers.iter().any(|finalizer| finalizer == FINALIZER) == wanted {
            return Ok(false);
        }
        if wanted {
            finalizers.push(FINALIZER.into());
        } else {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
        }
        let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": deployment.resource_version()}});
        let name = deployment.name_any();
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        match self.deployments(deployment).patch(&name, &params, &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(true),
            other => other.map(|_| true).because(|| format!("changing the finalizers of {name}")),
        }
    }

    /// Sets annotations, or takes them away; returns whether that was done. Where the resource changed meanwhile nothing is: someone may have said
    /// more in them, and the pass for that change does it.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn annotate(
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
            other => other.map(|_| true).because(|| {
                let keys: Vec<_> = annotations.keys().copied().collect();
                format!("changing annotation {} of {name}", keys.join(", "))
            }),
        }
    }

    /// Writes the status where it differs from the one that stands, then tells the events. Gives the resource as it stands since; `None` where nothing was
    /// written.
    ///
    /// # Errors
    /// When the API server refuses the status.
    pub async fn publish(
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
        });
        let params = PatchParams::apply(MANAGER).force();
        let written = match self.deployments(deployment).patch_status(&name, &params, &Patch::Apply(patch)).await {
            Err(kube::Error::Api(answer)) if answer.is_not_found() => return Ok(None),
            other => other.because(|| format!("writing the status of {name}"))?,
        };
        self.tell(deployment, events).await;
        Ok(Some(written))
    }

    /// Tells events of the resource. A refused one is logged: it is no reason to do again what it tells of.
    pub async fn tell(&self, deployment: &OpenStackDeployment, events: Vec<status::Event>) {
        for event in events {
            let event = Event {
                type_: if event.warning { EventType::Warning } else { EventType::Normal },
                reason: event.reason.into(),
                note: Some(event.note),
                action: "Reconcile".into(),
                secondary: event.subject.map(|about| related(deployment, about)),
            };
            if let Err(error) = self.recorder.publish(&event, &deployment.object_ref(&())).await {
                tracing::warn!(error = osdpl_client::explain(&error), reason = event.reason, "event not recorded");
            }
        }
    }
}

/// Events that agree in everything but their note are folded into one; the related object keeps them apart.
fn related(deployment: &OpenStackDeployment, about: Subject) -> ObjectReference {
    let (kind, version, name) = match about {
        // Of two versions of the resource the same field is said two things.
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

    #[tokio::test]
    async fn an_annotation_is_taken_away_as_it_was_read_or_left_to_the_next_pass() {
        let asked = Arc::<Mutex<Vec<serde_json::Value>>>::default();
        let bodies = Arc::clone(&asked);
        let changed_meanwhile = async move |body: String| {
            bodies.lock().unwrap().push(serde_json::from_str(&body).unwrap());
            let refusal = json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict"});
            (StatusCode::CONFLICT, refusal.to_string()).into_response()
        };
        let cluster = Cluster::new(kube::Client::new(Router::new().fallback(changed_meanwhile), "cloud"));
        let mut deployment = OpenStackDeployment::new("nimbus", OpenStackDeploymentSpec::default());
        deployment.metadata.namespace = Some("cloud".into());
        deployment.metadata.resource_version = Some("7".into());
        assert!(!cluster.annotate(&deployment, &[(REPAIR, None)].into()).await.unwrap());
        assert!(cluster.annotate(&deployment, &BTreeMap::new()).await.unwrap(), "there is nothing to ask for");
        let metadata = json!({"annotations": {REPAIR: null}, "resourceVersion": "7"});
        assert_eq!(*asked.lock().unwrap(), [json!({"metadata": metadata})]);
    }
    /// The events that are recorded: whether each is a new one, and its note.
    async fn recorded(versions: &[&str], event: impl Fn(&str) -> Vec<status::Event>) -> Vec<(bool, String)> {
        let asked = Arc::<Mutex<Vec<_>>>::default();
        let requests = Arc::clone(&asked);
        let record = async move |request: axum::extract::Request| {
            let is_new = request.method() == axum::http::Method::POST;
            let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
            let event: serde_json::Value = serde_json::from_slice(&body).unwrap();
            requests.lock().unwrap().push((is_new, event["note"].as_str().unwrap().to_owned()));
            event.to_string().into_response()
        };
        let cluster = Cluster::new(kube::Client::new(Router::new().fallback(record), "cloud"));
        let mut deployment = OpenStackDeployment::new("nimbus", OpenStackDeploymentSpec::default());
        deployment.metadata.namespace = Some("cloud".into());
        for version in versions {
            deployment.metadata.resource_version = Some((*version).to_owned());
            cluster.tell(&deployment, event(version)).await;
        }
        std::mem::take(&mut *asked.lock().unwrap())
    }

    #[tokio::test]
    async fn what_is_said_of_two_fields_or_of_two_versions_of_one_is_two_events() {
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
        let folded = recorded(&["7", "7"], |_| vec![of("spec.a", "a has no effect")]).await;
        assert_eq!(folded.iter().map(|(is_new, _)| *is_new).collect::<Vec<_>>(), [true, false]);
    }
}
