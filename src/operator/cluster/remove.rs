//! What the operator itself deletes: plain Jobs before an upgrade, hook objects after an uninstall, and with Purge what holds data.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Resource, ResourceExt};

use super::ceph::COMPONENT;
use super::claims::belongs;
use super::{Cluster, Error, Explain};
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::ceph::Object;
use osdpl_core::observed::ReleaseKey;

/// What an uninstall of a cloud leaves behind.
#[derive(Clone, Debug, Default)]
pub struct Leftovers {
    /// The releases that were there, and were ours.
    pub releases: BTreeSet<ReleaseKey>,
    /// Those that are there and are not ours.
    pub stay: BTreeSet<ReleaseKey>,
    /// Our Secrets with the credentials of services of which a release stays.
    pub credentials: BTreeSet<String>,
    /// Secrets that upstream keeps, as (namespace, name).
    pub secrets: BTreeSet<(String, String)>,
    /// What the pods of releases that stay may live on.
    pub needed: Needed,
}

/// What the operator made beside helm and does not take away, because pods may live on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// Whose pods.
    pub releases: BTreeSet<ReleaseKey>,
    /// Whether they may choose nodes by the labels of roles.
    pub labels: bool,
    /// Services that lead outside, as (namespace, name).
    pub external: BTreeSet<(String, String)>,
    /// What they may mount of Ceph's, by name.
    pub ceph: Vec<Object>,
    /// Whether Ceph's object store belongs to what stays.
    pub store: bool,
}

/// A deletion of what is gone already is done.
pub(super) fn gone<T>(answer: Result<T, kube::Error>, what: impl FnOnce() -> String) -> Result<(), Error> {
    match answer {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other.map(drop).because(what),
    }
}

impl Cluster {
    /// Deletes Jobs with their pods; those that are not there are fine.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn delete_jobs(&self, namespace: &str, names: &[String]) -> Result<(), Error> {
        let api: Api<Job> = Api::namespaced(self.client.clone(), namespace);
        for name in names {
            gone(api.delete(name, &DeleteParams::background()).await, || format!("deleting Job {namespace}/{name}"))?;
        }
        Ok(())
    }

    /// Deletes the Jobs that helm left of a release: hooks belong to no release, so an uninstall does not touch them (`helm.md` §0.5).
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn collect_jobs(&self, key: &ReleaseKey) -> Result<(), Error> {
        let api: Api<Job> = Api::namespaced(self.client.clone(), &key.namespace);
        let jobs = self.list(&api, &format!("release_group={}", key.name)).await?;
        let names: Vec<String> = jobs.iter().map(ResourceExt::name_any).collect();
        self.delete_jobs(&key.namespace, &names).await
    }

    async fn list<K>(&self, api: &Api<K>, labels: &str) -> Result<Vec<K>, Error>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let selector = ListParams::default().labels(labels);
        let kind = K::kind(&());
        Ok(api.list(&selector).await.because(|| format!("listing {kind} with {labels}"))?.items)
    }

    /// Deletes what holds data: volume claims of the releases, kept key Secrets, our credentials; nothing of releases that stay. Only for
    /// `deletionPolicy: Purge`.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn purge(&self, deployment: &str, namespace: &str, left: &Leftovers) -> Result<(), Error> {
        for key in &left.releases {
            let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &key.namespace);
            for claim in self.claims(&key.namespace).await? {
                if !belongs(&claim, key) {
                    continue;
                }
                let name = claim.name_any();
                gone(api.delete(&name, &DeleteParams::default()).await, || {
                    format!("deleting claim {}/{name}", key.namespace)
                })?;
            }
        }
        for (namespace, name) in &left.secrets {
            let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
            gone(api.delete(name, &DeleteParams::default()).await, || format!("deleting Secret {namespace}/{name}"))?;
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        for secret in self.list(&api, &format!("{DEPLOYMENT_LABEL}={deployment}")).await? {
            let name = secret.name_any();
            let is_mounted = secret.labels().get(COMPONENT.0).is_some_and(|component| component == COMPONENT.1);
            // What of Ceph's was not removed before stays.
            if left.credentials.contains(&name) || is_mounted {
                continue;
            }
            gone(api.delete(&name, &DeleteParams::default()).await, || format!("deleting Secret {namespace}/{name}"))?;
        }
        Ok(())
    }
}
