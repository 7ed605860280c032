//! Methods with which tests write an `OpenStackDeployment` and read its status.

use std::pin::pin;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use osdpl_core::api::{
    DELETE_WITH_INSTANCES, HelmReleaseStatus, OpenStackDeployment, OpenStackDeploymentStatus, condition,
};
use serde_json::{Value, json};

use crate::world::{World, with_timeout};

/// The name of a test's `OpenStackDeployment`. The name differs from the names of osdpl and of services, so that a test
/// fails if code confuses these names.
pub const NAME: &str = "nimbus";

/// Returns a spec that enables these services and no preset.
pub fn services(names: &[&str]) -> Value {
    let services: serde_json::Map<_, _> =
        names.iter().map(|name| ((*name).to_owned(), json!({"enabled": true}))).collect();
    json!({"openstackRelease": "2026.1", "services": services})
}

/// Returns `spec` with these values for the release that has the same name as its service.
pub fn with_values(mut spec: Value, service: &str, values: Value) -> Value {
    spec["services"][service]["releases"][service]["values"] = values;
    spec
}

/// The services that can run outside of the cluster. See [`World::with_external`].
pub const BACKENDS: [&str; 3] = ["mariadb", "memcached", "rabbitmq"];

/// Methods that read the status of an `OpenStackDeployment`.
pub trait StatusAccess {
    fn status(&self) -> OpenStackDeploymentStatus;
    /// Returns the condition of this type. Ignores a condition that describes an older generation of the spec.
    fn condition(&self, type_: &str) -> Option<Condition>;
    /// Whether the Ready condition is True for the newest generation of the spec.
    fn is_ready(&self) -> bool;
    /// Returns the reason of the Ready condition. The reason is empty if the operator has not yet written this
    /// condition for the newest generation of the spec.
    fn reason(&self) -> String;
    /// Returns the status of a release; empty if the `OpenStackDeployment`'s status does not list the release.
    fn child(&self, release: &str) -> HelmReleaseStatus;
}

impl StatusAccess for OpenStackDeployment {
    fn status(&self) -> OpenStackDeploymentStatus {
        self.status.clone().unwrap_or_default()
    }

    fn condition(&self, type_: &str) -> Option<Condition> {
        let current = |condition: &Condition| condition.observed_generation == self.metadata.generation;
        self.status().conditions.into_iter().find(|condition| condition.type_ == type_ && current(condition))
    }

    fn is_ready(&self) -> bool {
        self.condition(condition::READY).is_some_and(|condition| condition.status == "True")
    }

    fn reason(&self) -> String {
        self.condition(condition::READY).map(|condition| condition.reason).unwrap_or_default()
    }

    fn child(&self, release: &str) -> HelmReleaseStatus {
        self.status().children.get(release).cloned().unwrap_or_default()
    }
}

impl World {
    /// Returns the API of `OpenStackDeployment`s in the test's namespace.
    pub fn deployments(&self) -> Api<OpenStackDeployment> {
        self.api()
    }

    /// Applies the test's `OpenStackDeployment` with this spec, like `kubectl apply --server-side`.
    pub async fn apply(&self, spec: &Value) -> OpenStackDeployment {
        self.apply_as(NAME, spec).await
    }

    /// Applies an `OpenStackDeployment` with this name and spec.
    pub async fn apply_as(&self, name: &str, spec: &Value) -> OpenStackDeployment {
        let object = json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": name, "namespace": self.namespace}, "spec": spec,
        });
        let params = PatchParams::apply("test").force();
        self.deployments().patch(name, &params, &Patch::Apply(object)).await.unwrap()
    }

    /// Returns `spec` with these [`BACKENDS`] outside of the cluster, and creates the Secret with their passwords.
    ///
    /// osdpl writes a Service for each of them, so the pods that wait for this Service start. Helm does not install the
    /// backends, which saves time in tests of other services.
    pub async fn with_external(&self, mut spec: Value, backends: &[&str]) -> Value {
        const SECRET: &str = "external-backends";
        let passwords = json!({"mariadb": "external-database", "rabbitmq": "external-broker"});
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": passwords,
        });
        self.api::<Secret>().patch(SECRET, &PatchParams::apply("test"), &Patch::Apply(secret)).await.unwrap();
        for backend in backends {
            let key = json!({"name": SECRET, "key": backend});
            let credentials = match *backend {
                "mariadb" => json!({"root": key}),
                "rabbitmq" => json!({"admin": key}),
                _ => json!({}),
            };
            spec["services"][backend] =
                json!({"enabled": true, "external": {"host": "192.0.2.7"}, "credentials": credentials});
        }
        spec
    }

    /// Returns a spec with Keystone and external backends, and creates the Secret with the backends' passwords.
    pub async fn keystone(&self) -> Value {
        self.with_external(services(&["keystone"]), &BACKENDS).await
    }

    /// Sets an annotation of the test's `OpenStackDeployment`, or removes the annotation if `value` is null.
    pub async fn annotate(&self, key: &str, value: Value) -> OpenStackDeployment {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        self.deployments().patch(NAME, &PatchParams::default(), &patch).await.unwrap()
    }

    /// Deletes the test's `OpenStackDeployment` without waiting until it is gone. First sets the annotation that allows
    /// the deletion although instances may exist. Without the annotation, the deletion would wait forever in most
    /// tests, because no Nova responds to the operator.
    pub async fn delete(&self) {
        self.annotate(DELETE_WITH_INSTANCES, json!(NAME)).await;
        self.delete_named(NAME).await;
    }

    /// Deletes the `OpenStackDeployment` with this name, without waiting for its finalizer.
    pub async fn delete_named(&self, name: &str) {
        self.deployments().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until the test's `OpenStackDeployment` is deleted.
    pub async fn until_gone(&self) {
        self.until_object::<OpenStackDeployment>("the resource is deleted", NAME, |found| found.is_none()).await;
    }

    /// Calls `find` for every version of the test's `OpenStackDeployment` until `find` returns a value. Returns this
    /// value.
    pub async fn until<T>(&self, what: &str, find: impl FnMut(&OpenStackDeployment) -> Option<T>) -> T {
        self.until_of(NAME, what, find).await
    }

    /// Calls `find` for every version of the `OpenStackDeployment` with this name until `find` returns a value. Returns
    /// this value.
    pub async fn until_of<T>(
        &self,
        name: &str,
        what: &str,
        mut find: impl FnMut(&OpenStackDeployment) -> Option<T>,
    ) -> T {
        let found = async {
            let mut events = pin!(watcher::watch_object(self.deployments(), name).default_backoff());
            loop {
                let event = events.next().await;
                if let Some(Ok(Some(deployment))) = event
                    && let Some(found) = find(&deployment)
                {
                    return found;
                }
            }
        };
        with_timeout(what, found).await
    }

    /// Waits until the test's `OpenStackDeployment` is Ready for its newest spec. Returns the `OpenStackDeployment`.
    pub async fn until_ready(&self) -> OpenStackDeployment {
        self.until("the cloud is Ready", |cloud| cloud.is_ready().then(|| cloud.clone())).await
    }

    /// Waits until the Ready condition has this reason for the newest spec. Returns the test's `OpenStackDeployment`.
    pub async fn until_reason(&self, reason: &str) -> OpenStackDeployment {
        let what = format!("the cloud is not Ready because of {reason}");
        self.until(&what, |cloud| (cloud.reason() == reason).then(|| cloud.clone())).await
    }
}
