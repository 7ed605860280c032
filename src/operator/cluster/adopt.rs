//! Records that others made: read whole, and labelled as ours.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::{Cluster, Error, Explain, MANAGER, Reader};
use osdpl_core::adopt;
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release::{self, Object, Objects, RecordMeta, RevisionSource};
use osdpl_values::Values;

/// How every label of ours begins.
const OURS: &str = "osdpl.dev/";

/// How many objects of a release are looked at for who drives it: who does marks all of them.
const LOOKS: usize = 4;

/// The kinds that are looked at: those that a release has of its own, the telling ones first.
const KINDS: [&str; 5] = ["Deployment", "StatefulSet", "DaemonSet", "Service", "ConfigMap"];

impl Reader {
    /// The newest record of each release, in one namespace or in all.
    ///
    /// # Errors
    /// When the API server refuses, or a record is malformed.
    pub async fn newest_records(&self, namespace: Option<&str>) -> Result<Vec<RecordMeta>, Error> {
        let api: Api<Secret> = match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let all = ListParams::default().labels("owner=helm").fields(&format!("type={}", release::SECRET_TYPE));
        let records = api.list_metadata(&all).await.because(|| "listing helm's release records".to_owned())?;
        let mut newest: BTreeMap<ReleaseKey, RecordMeta> = BTreeMap::new();
        for record in records.items {
            let meta = RecordMeta::read(&record.metadata).map_err(|malformed| Error::Object(malformed.to_string()))?;
            let known = newest.get(&meta.release).is_some_and(|known| known.revision > meta.revision);
            if !known {
                newest.insert(meta.release.clone(), meta);
            }
        }
        Ok(newest.into_values().collect())
    }

    /// What a revision was made from, and its objects; the inner error says why that can't be read.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn recorded_source(
        &self,
        key: &ReleaseKey,
        revision: i64,
    ) -> Result<Result<(RevisionSource, Objects), String>, Error> {
        let read = |payload: &[u8]| Ok((release::decode_source(payload)?, release::decode_objects(payload)?));
        self.read_record(key, revision, read).await
    }

    async fn read_record<T: Send + 'static>(
        &self,
        key: &ReleaseKey,
        revision: i64,
        read: impl FnOnce(&[u8]) -> Result<T, release::DecodeError> + Send + 'static,
    ) -> Result<Result<T, String>, Error> {
        let name = record(key, revision);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let secret = api.get_opt(&name).await.because(|| format!("reading release record {}/{name}", key.namespace))?;
        let payload = secret.and_then(|secret| secret.data?.remove(release::SECRET_KEY));
        let Some(payload) = payload else { return Ok(Err(format!("Secret {name} is gone or empty"))) };
        // A big record takes tens of milliseconds to unpack: not on a thread that others wait for.
        let read = tokio::task::spawn_blocking(move || read(&payload.0)).await;
        let read = read.map_err(|error| Error::Object(format!("reading release record {name}: {error}")))?;
        Ok(read.map_err(|error| format!("release record {}/{name}: {error}", key.namespace)))
    }

    /// What a revision was made from, and its objects whole; the inner error says why that can't be read. Secrets inside.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn recorded_contents(
        &self,
        key: &ReleaseKey,
        revision: i64,
    ) -> Result<Result<(RevisionSource, Vec<Values>), String>, Error> {
        let read = |payload: &[u8]| Ok((release::decode_source(payload)?, release::decode_contents(payload)?));
        self.read_record(key, revision, read).await
    }

    /// Who else drives a release of these objects, and what to do about it.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn other_owner(&self, key: &ReleaseKey, objects: &Objects) -> Result<Option<String>, Error> {
        other_owner(&self.client, key, objects).await
    }
}

impl Cluster {
    /// Takes our labels from all records of a release; returns of how many. helm hands labels on from revision to revision: what is left on one
    /// would come back with a rollback.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn unlabel_records(&self, key: &ReleaseKey) -> Result<usize, Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let selector = ListParams::default().labels(&format!("owner=helm,name={}", key.name));
        let records = api.list_metadata(&selector).await.because(|| format!("listing the release records of {key}"))?;
        let mut count = 0;
        for record in records.items {
            let ours = record.labels().keys().filter(|label| label.starts_with(OURS));
            let gone: BTreeMap<&String, Option<String>> = ours.map(|label| (label, None)).collect();
            if gone.is_empty() {
                continue;
            }
            let patch = json!({"metadata": {"labels": gone, "resourceVersion": record.resource_version()}});
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            let name = record.name_any();
            let answer = api.patch_metadata(&name, &params, &Patch::Merge(patch)).await;
            super::remove::gone(answer, || format!("taking labels from release record {}/{name}", key.namespace))?;
            count += 1;
        }
        Ok(count)
    }

    /// Labels a revision that helm has deployed; a label without a value goes. Nothing is done where the record has changed meanwhile: `false` then.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn label_record(
        &self,
        key: &ReleaseKey,
        revision: i64,
        labels: &BTreeMap<&str, Option<String>>,
    ) -> Result<bool, Error> {
        let name = record(key, revision);
        let what = || format!("labelling release record {}/{name}", key.namespace);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let Some(head) = api.get_metadata_opt(&name).await.because(what)? else { return Ok(false) };
        let newest = self.newest_record(key).await?;
        if newest != Some((revision, release::Status::Deployed.to_string())) {
            return Ok(false);
        }
        let patch = json!({"metadata": {"labels": labels, "resourceVersion": head.resource_version()}});
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        match api.patch_metadata(&name, &params, &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(false),
            other => other.map(|_| true).because(what),
        }
    }
}

fn record(key: &ReleaseKey, revision: i64) -> String {
    format!("sh.helm.release.v1.{}.v{revision}", key.name)
}

async fn other_owner(client: &Client, key: &ReleaseKey, objects: &Objects) -> Result<Option<String>, Error> {
    let rank = |object: &Object| KINDS.iter().position(|kind| *kind == object.kind);
    let mut telling: Vec<&Object> = objects.manifest.iter().filter(|object| rank(object).is_some()).collect();
    telling.sort_by_key(|object| (rank(object), &object.name));
    for object in telling.into_iter().take(LOOKS) {
        let (group, version) = object.api_version.split_once('/').unwrap_or(("", &object.api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &object.kind));
        let namespace = object.namespace.as_ref().unwrap_or(&key.namespace);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let what = format!("{} {namespace}/{}", object.kind, object.name);
        let found = api.get_metadata_opt(&object.name).await.because(|| format!("looking at {what}"))?;
        let owner = found.and_then(|found| adopt::find_other_controller(&what, found.labels(), found.annotations()));
        if owner.is_some() {
            return Ok(owner);
        }
    }
    Ok(None)
}
