//! Evicts pods during a rollout, as disruption budgets permit, and sets the update strategy of `DaemonSet`s.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::Eviction as Body;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::{Cluster, Error, ErrorContext};
use osdpl_core::rollout::{Eviction, Strategy};

/// The field manager that osdpl uses only to set the update strategy of `DaemonSet`s.
///
/// `values/drift.yaml` lists this field manager as a tolerated writer, so that osdpl does not report the strategy as
/// drift.
const MANAGER: &str = "osdpl-rollout";

/// The HTTP status "too many requests", with which the API server refuses an eviction, for example because of a
/// disruption budget.
const TOO_MANY_REQUESTS: u16 = 429;

/// The API server's response to the request to evict a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EvictionResult {
    /// The pod is being deleted, or does not exist any more.
    Evicted,
    /// The API server refused the eviction, because of a disruption budget or of too many evictions at once. Contains
    /// its message.
    Refused(String),
}

impl Cluster {
    /// Evicts the pod with the uid in `pod`, but not a newer pod of the same name.
    ///
    /// # Errors
    /// Returns an error if the request to the API server fails. [`EvictionResult::Refused`] is not an error.
    pub(crate) async fn evict(&self, pod: &Eviction) -> Result<EvictionResult, Error> {
        let Eviction { namespace, name, uid, .. } = pod;
        let api: Api<Pod> = Api::namespaced(self.eviction_client.clone(), namespace);
        // kube's `evict` method sends the preconditions in a field that the API server does not know. So osdpl builds
        // the body of the request itself.
        let preconditions = Preconditions { uid: Some(uid.clone()), ..Preconditions::default() };
        let body = Body {
            metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
            delete_options: Some(DeleteOptions { preconditions: Some(preconditions), ..DeleteOptions::default() }),
        };
        let what = || format!("evicting pod {namespace}/{name}");
        let response: Result<serde_json::Value, kube::Error> =
            api.create_subresource("eviction", name, &PostParams::default(), &body).await;
        match response {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(EvictionResult::Evicted),
            // The eviction is done: the pod with this uid does not exist any more, and a newer pod has its name.
            Err(kube::Error::Api(status)) if status.is_conflict() && status.message.contains("UID in precondition") => {
                Ok(EvictionResult::Evicted)
            }
            // A disruption budget forbids the eviction, or the API server received too many evictions at once. In both
            // cases, a later pass retries the eviction.
            Err(kube::Error::Api(status)) if status.code == TOO_MANY_REQUESTS || status.is_conflict() => {
                Ok(EvictionResult::Refused(status.message))
            }
            other => other.map(|_| EvictionResult::Evicted).with_context(what),
        }
    }

    /// Sets the update strategy of a `DaemonSet` to `OnDelete`. If `on_delete` is `false`, removes the strategy that
    /// osdpl has set.
    ///
    /// Returns `false`, and changes nothing, if another field manager, such as helm or a person, has set the strategy.
    ///
    /// # Errors
    /// Returns an error if the request to the API server fails. A conflict with another field manager is not an error.
    pub(crate) async fn set_strategy(&self, desired: &Strategy) -> Result<bool, Error> {
        let Strategy { namespace, name, on_delete, .. } = desired;
        let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), namespace);
        // An apply without `updateStrategy` removes osdpl's value of this field, and Kubernetes restores the default,
        // `RollingUpdate`.
        let spec = if *on_delete { json!({"updateStrategy": {"type": "OnDelete"}}) } else { json!({}) };
        let body = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec});
        match api.patch_metadata(name, &PatchParams::apply(MANAGER), &Patch::Apply(body)).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(true),
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(false),
            other => other
                .map(|_| true)
                .with_context(|| format!("setting the update strategy of DaemonSet {namespace}/{name}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::RefusingServer;
    use super::*;

    #[tokio::test]
    async fn evicts_only_the_pod_that_the_decision_saw() {
        let server = RefusingServer::new(|_| json!({}));
        let [namespace, name, uid, node] = ["openstack", "ovs-1", "seen", "compute-1"].map(str::to_owned);
        let result = server.cluster().evict(&Eviction { namespace, name, uid, node }).await.unwrap();
        assert_eq!(result, EvictionResult::Evicted, "the pod is gone, and a newer pod has its name");
        assert_eq!(server.preconditions(), [json!({"uid": "seen"})]);
    }
}
