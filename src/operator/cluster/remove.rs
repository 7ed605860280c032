//! Deletes objects: Jobs before an upgrade, and what a plan names.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service};
use k8s_openapi::{NamespaceResourceScope, Resource as _};
use kube::Resource;
use kube::api::{Api, DeleteParams};
use serde::de::DeserializeOwned;

use super::{Cluster, Error, Explain, Inputs};
use osdpl_core::observed::ReleaseKey;
use osdpl_decide::Kind;

/// Treats the deletion of an object that is already deleted as done.
pub(super) fn gone<T>(answer: Result<T, kube::Error>, what: impl FnOnce() -> String) -> Result<(), Error> {
    match answer {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other.map(drop).because(what),
    }
}

impl Cluster {
    /// Deletes Jobs with their pods; those that do not exist are skipped.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn delete_jobs(&self, namespace: &str, names: &[String]) -> Result<(), Error> {
        for name in names {
            self.delete_one::<Job>(&ReleaseKey::new(namespace, name), &DeleteParams::background()).await?;
        }
        Ok(())
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn delete(&self, kind: Kind, key: &ReleaseKey, inputs: &Inputs) -> Result<(), Error> {
        let params = DeleteParams::default();
        match kind {
            Kind::Job => self.delete_one::<Job>(key, &DeleteParams::background()).await,
            Kind::Service => self.delete_one::<Service>(key, &params).await,
            Kind::Claim => self.delete_one::<PersistentVolumeClaim>(key, &params).await,
            Kind::ConfigMap => {
                self.delete_one::<ConfigMap>(key, &params).await?;
                inputs.own_maps().forget(&key.namespace, &key.name);
                Ok(())
            }
            Kind::Secret => {
                self.delete_one::<Secret>(key, &params).await?;
                inputs.own().forget(&key.namespace, &key.name);
                Ok(())
            }
        }
    }

    async fn delete_one<K>(&self, key: &ReleaseKey, params: &DeleteParams) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + k8s_openapi::Resource
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        gone(api.delete(&key.name, params).await, || {
            let kind = if K::KIND == PersistentVolumeClaim::KIND { "claim" } else { K::KIND };
            format!("deleting {kind} {key}")
        })
    }
}
