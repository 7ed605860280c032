//! Answers the one-off reads that plans request.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, PersistentVolumeClaim, Secret, Service};
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::external::addresses;
use super::rook::{refusal, resource};
use super::{Error, Explain, Reader};
use osdpl_core::api::{DEPLOYMENT_LABEL, ValuesKind};
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release;
use osdpl_decide::{Answer, Published, Read, Recorded, Reference, STORE, Stored};

impl Reader {
    /// Answers a read; `deployment` is the name that our labels have.
    ///
    /// # Errors
    /// When the API server refuses, and the plan can't be made without.
    pub async fn answer(&self, read: &Read, deployment: &str) -> Result<Answer, Error> {
        let ours = || format!("{DEPLOYMENT_LABEL}={deployment}");
        Ok(match read {
            Read::Values { release, revision, required } => {
                let values = match self.recorded_values(release, *revision).await {
                    Err(error) if !required => Err(error.to_string()),
                    values => values?,
                };
                Answer::Values(values.map(Arc::new))
            }
            Read::Source { release, revision, owner } => {
                Answer::Source(self.recorded(release, *revision, *owner).await?.map(Arc::new))
            }
            Read::Stored(reference) => Answer::Stored(self.stored(reference).await?),
            Read::Service(key) => {
                Answer::Service(self.published(key).await.map(Box::new).map_err(|error| error.to_string()))
            }
            Read::Addresses(host, port) => Answer::Addresses(addresses(host, *port).await),
            Read::Rook(kind, key) => Answer::Rook(self.rook(kind, key).await?),
            Read::ServiceNetworks(_) => {
                Answer::Networks(self.service_networks().await.map_err(|error| error.to_string()))
            }
            Read::OwnServices => Answer::Objects(self.list::<Service>(None, &ours()).await?),
            Read::OwnStores => Answer::Objects(self.stores(&ours()).await?),
            // A node that can't be read stays named: the next pass tries again.
            Read::Node(name) => Answer::Node(self.has_node(name).await.unwrap_or_default()),
            Read::Jobs(release) => {
                let labels = format!("release_group={}", release.name);
                Answer::Objects(self.list::<Job>(Some(&release.namespace), &labels).await?)
            }
            Read::Claims(release) => Answer::Objects(self.claims(release).await?),
        })
    }

    async fn recorded(&self, key: &ReleaseKey, revision: i64, owner: bool) -> Result<Result<Recorded, String>, Error> {
        let (source, objects) = match self.recorded_source(key, revision).await? {
            Ok(found) => found,
            Err(problem) => return Ok(Err(problem)),
        };
        let owner = if owner { self.other_owner(key, &objects).await? } else { None };
        Ok(Ok(Recorded { source, owner }))
    }

    async fn stored(&self, reference: &Reference) -> Result<Stored, Error> {
        let Reference { kind, namespace, name } = reference;
        let what = || format!("reading {reference}");
        let found = match kind {
            ValuesKind::Secret => {
                let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
                api.get_opt(name).await.because(what)?.map(|secret| Stored::Secret(Box::new(secret)))
            }
            ValuesKind::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
                api.get_opt(name).await.because(what)?.map(|map| Stored::Map(Box::new(map)))
            }
        };
        Ok(found.unwrap_or(Stored::Nothing))
    }

    async fn published(&self, key: &ReleaseKey) -> Result<Published, Error> {
        let what = || format!("publishing external service {key}");
        let services: Api<Service> = Api::namespaced(self.client.clone(), &key.namespace);
        let service = services.get_opt(&key.name).await.because(what)?;
        let endpoints: Api<Endpoints> = Api::namespaced(self.client.clone(), &key.namespace);
        let endpoints = endpoints.get_opt(&key.name).await.because(what)?;
        Ok(Published { service, endpoints })
    }

    async fn rook(
        &self,
        kind: &'static str,
        key: &ReleaseKey,
    ) -> Result<Result<Option<Arc<serde_json::Value>>, String>, Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &key.namespace, &resource(kind));
        match api.get_opt(&key.name).await {
            Ok(found) => Ok(Ok(found.and_then(|found| serde_json::to_value(found).ok()).map(Arc::new))),
            Err(kube::Error::Api(status)) => Ok(Err(refusal(&format!("{kind} {key}"), &status))),
            error @ Err(_) => error.map(|_| Ok(None)).because(|| format!("asking Rook for {kind} {key}")),
        }
    }

    async fn stores(&self, labels: &str) -> Result<Vec<(ReleaseKey, Option<String>)>, Error> {
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource(STORE));
        match all.list_metadata(&ListParams::default().labels(labels)).await {
            // No Rook, no object store.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            found => Ok(found.because(|| format!("listing {STORE}s"))?.into_iter().map(|one| named(&one)).collect()),
        }
    }

    async fn list<K>(&self, namespace: Option<&str>, labels: &str) -> Result<Vec<(ReleaseKey, Option<String>)>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let found = api.list_metadata(&ListParams::default().labels(labels)).await;
        let found = found.because(|| format!("listing {}s with {labels}", K::kind(&())))?;
        // Finalizers of others may keep deleted objects for long.
        let left = found.items.iter().filter(|object| object.metadata.deletion_timestamp.is_none());
        Ok(left.map(named).collect())
    }

    /// The volume claims of a release: those of `StatefulSets` have upstream's labels, those out of a chart often only helm's annotations.
    async fn claims(&self, release: &ReleaseKey) -> Result<Vec<(ReleaseKey, Option<String>)>, Error> {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &release.namespace);
        let all = api.list_metadata(&ListParams::default()).await;
        let all = all.because(|| format!("listing claims in {}", release.namespace))?;
        let belongs = |claim: &&kube::core::PartialObjectMeta<PersistentVolumeClaim>| {
            let labelled = claim.labels().get("release_group").is_some_and(|group| *group == release.name);
            let is_left = claim.metadata.deletion_timestamp.is_none();
            is_left && (labelled || release::helm_owner(&claim.metadata).as_ref() == Some(release))
        };
        let keys: BTreeSet<(ReleaseKey, Option<String>)> = all.items.iter().filter(belongs).map(named).collect();
        Ok(keys.into_iter().collect())
    }
}

fn named(object: &impl ResourceExt) -> (ReleaseKey, Option<String>) {
    (ReleaseKey::new(object.namespace().unwrap_or_default(), object.name_any()), object.uid())
}
