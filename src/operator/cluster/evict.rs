//! Evictions: the way to have a pod made anew that respects disruption budgets.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::Eviction as Body;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::{Cluster, Error, Explain};
use osdpl_core::rollout::{Eviction, Strategy};

/// The field manager of a `DaemonSet`'s strategy: one of its own, which holds nothing else; `values/drift.yaml` knows it.
const MANAGER: &str = "osdpl-rollout";

/// HTTP's "too many requests": how the API server says that a disruption budget holds a pod.
const HELD: u16 = 429;

/// What came of an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// The pod goes, or is gone.
    Going,
    /// A disruption budget holds it, in the API server's words.
    Refused(String),
}

impl Cluster {
    /// Evicts a pod, this one and no other of its name.
    ///
    /// # Errors
    /// When the API server refuses for another reason than a disruption budget.
    pub async fn evict(&self, pod: &Eviction) -> Result<Evicted, Error> {
        let Eviction { namespace, name, uid, .. } = pod;
        let api: Api<Pod> = Api::namespaced(self.asks_once.clone(), namespace);
        // Written out: kube's own `evict` gives the preconditions a name that the API server does not know.
        let preconditions = Preconditions { uid: Some(uid.clone()), ..Preconditions::default() };
        let body = Body {
            metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
            delete_options: Some(DeleteOptions { preconditions: Some(preconditions), ..DeleteOptions::default() }),
        };
        let what = || format!("evicting pod {namespace}/{name}");
        let answer: Result<serde_json::Value, kube::Error> =
            api.create_subresource("eviction", name, &PostParams::default(), &body).await;
        match answer {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Evicted::Going),
            // Another pod has its name by now.
            Err(kube::Error::Api(status)) if status.is_conflict() && status.message.contains("UID in precondition") => {
                Ok(Evicted::Going)
            }
            // A disruption budget holds it, or too many ask for one at once.
            Err(kube::Error::Api(status)) if status.code == HELD || status.is_conflict() => {
                Ok(Evicted::Refused(status.message))
            }
            other => other.map(|_| Evicted::Going).because(what),
        }
    }

    /// Has a `DaemonSet`'s old pods left alone, or gives them back to Kubernetes, where its chart says nothing about that. What someone else
    /// says stays: a strategy that helm or a person has set is theirs. Returns whether it is as wanted.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn set_strategy(&self, wanted: &Strategy) -> Result<bool, Error> {
        let Strategy { namespace, name, on_delete, .. } = wanted;
        let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), namespace);
        // What is not applied any more falls back to Kubernetes' own default.
        let spec = if *on_delete { json!({"updateStrategy": {"type": "OnDelete"}}) } else { json!({}) };
        let body = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec});
        match api.patch(name, &PatchParams::apply(MANAGER), &Patch::Apply(body)).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(true),
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(false),
            other => {
                other.map(|_| true).because(|| format!("setting how pods of DaemonSet {namespace}/{name} are replaced"))
            }
        }
    }
}
