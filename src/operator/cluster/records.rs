//! Reads helm's release records, which are Secrets of the type `helm.sh/release.v1`.
//!
//! osdpl reads these records from the API server and not from a watch, because watches may lag.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use kube::core::PartialObjectMeta;
use osdpl_client::list_metadata;

use super::{Error, ErrorContext, Reader};
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release::{self, DecodeError, MalformedRecord, Objects, RecordMeta, RevisionSource, Status};
use osdpl_values::Values;

/// The decoded content of a record, or the reason why osdpl can't decode the record.
pub(crate) type Decoded<T> = Result<T, String>;

/// The newest revision of a release, according to the labels of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewestRecord {
    /// The number of the revision.
    pub(crate) revision: i64,
    /// helm's status of the revision; `Unknown` if no helm writes the status in the label.
    pub(crate) status: Status,
}

/// Returns the name of the Secret in which helm stores the record of a revision.
pub(super) fn record_name(key: &ReleaseKey, revision: i64) -> String {
    format!("sh.helm.release.v1.{}.v{revision}", key.name)
}

impl Reader {
    /// Returns the metadata of each release's newest record: in one namespace, or in all if `namespace` is `None`.
    ///
    /// Skips malformed records, because anyone who may write Secrets in one of the namespaces can create such a record.
    /// Also returns the problem of each skipped record.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub async fn newest_records(
        &self,
        namespace: Option<&str>,
    ) -> Result<(Vec<RecordMeta>, Vec<MalformedRecord>), Error> {
        let api: Api<Secret> = match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let all = ListParams::default().labels("owner=helm").fields(&format!("type={}", release::SECRET_TYPE));
        let records = api.list_metadata(&all).await.with_context(|| "listing helm's release records".to_owned())?;
        let (mut newest, mut malformed) = (BTreeMap::<ReleaseKey, RecordMeta>::new(), Vec::new());
        for record in records.items {
            let meta = match RecordMeta::read(&record.metadata) {
                Ok(meta) => meta,
                Err(problem) => {
                    malformed.push(problem);
                    continue;
                }
            };
            let is_older = newest.get(&meta.release).is_some_and(|known| known.revision > meta.revision);
            if !is_older {
                newest.insert(meta.release.clone(), meta);
            }
        }
        Ok((newest.into_values().collect(), malformed))
    }

    /// Returns the newest revision of a release and its status; `None` if the release has no record.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn newest_record(&self, key: &ReleaseKey) -> Result<Option<NewestRecord>, Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let selector = ListParams::default().labels(&format!("owner=helm,name={}", key.name));
        let read = |record: &PartialObjectMeta<Secret>| {
            let labels = record.labels();
            let revision = labels.get("version")?.parse().ok()?;
            // Do not skip a revision with an unknown status, because an older revision would then count as the newest.
            Some(NewestRecord { revision, status: labels.get("status")?.parse().unwrap_or_default() })
        };
        let records = list_metadata(&api, &selector, read).await;
        let records = records.with_context(|| format!("listing the release records of {key}"))?;
        Ok(records.into_iter().max_by_key(|record| record.revision))
    }

    /// Returns the values in the record of a revision.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn recorded_values(&self, key: &ReleaseKey, revision: i64) -> Result<Decoded<Values>, Error> {
        self.read_existing_record(key, revision, release::decode_values).await
    }

    /// Returns the values, the chart and the objects in the record of a revision.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub async fn recorded_source(
        &self,
        key: &ReleaseKey,
        revision: i64,
    ) -> Result<Decoded<(RevisionSource, Objects)>, Error> {
        let source = |payload: &[u8]| Ok((release::decode_source(payload)?, release::decode_objects(payload)?));
        self.read_existing_record(key, revision, source).await
    }

    /// Returns the values and the chart in the record of a revision, and the complete manifests of the revision's
    /// objects. The manifests may contain secrets.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub async fn recorded_contents(
        &self,
        key: &ReleaseKey,
        revision: i64,
    ) -> Result<Decoded<(RevisionSource, Vec<Values>)>, Error> {
        let contents = |payload: &[u8]| Ok((release::decode_source(payload)?, release::decode_contents(payload)?));
        self.read_existing_record(key, revision, contents).await
    }

    /// Returns the objects in the record of a revision; `None` if the revision has no record.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(super) async fn recorded_objects(
        &self,
        key: &ReleaseKey,
        revision: u32,
    ) -> Result<Option<Decoded<Objects>>, Error> {
        self.read_record(key, revision.into(), release::decode_objects).await
    }

    async fn read_existing_record<T: Send + 'static>(
        &self,
        key: &ReleaseKey,
        revision: i64,
        decode: impl FnOnce(&[u8]) -> Result<T, DecodeError> + Send + 'static,
    ) -> Result<Decoded<T>, Error> {
        let missing = || Err(format!("release record {}/{} does not exist", key.namespace, record_name(key, revision)));
        Ok(self.read_record(key, revision, decode).await?.unwrap_or_else(missing))
    }

    async fn read_record<T: Send + 'static>(
        &self,
        key: &ReleaseKey,
        revision: i64,
        decode: impl FnOnce(&[u8]) -> Result<T, DecodeError> + Send + 'static,
    ) -> Result<Option<Decoded<T>>, Error> {
        let name = record_name(key, revision);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let secret =
            api.get_opt(&name).await.with_context(|| format!("reading release record {}/{name}", key.namespace))?;
        let Some(secret) = secret else { return Ok(None) };
        let payload = secret.data.and_then(|mut data| data.remove(release::SECRET_KEY)).unwrap_or_default();
        // Decoding a large record takes tens of milliseconds, which would delay other tasks on this thread.
        let decoded = tokio::task::spawn_blocking(move || decode(&payload.0)).await;
        let decoded = decoded.map_err(|error| Error::Object(format!("reading release record {name}: {error}")))?;
        Ok(Some(decoded.map_err(|error| format!("release record {}/{name}: {error}", key.namespace))))
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_revision_with_an_unknown_status_is_the_newest() {
        let record = |revision: u32, status: &str| {
            let labels = json!({"version": revision.to_string(), "status": status});
            json!({"metadata": {"name": format!("sh.helm.release.v1.keystone.v{revision}"), "labels": labels}})
        };
        let items = json!([record(10, "paused"), record(9, "deployed")]);
        let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}).to_string();
        let reader = Reader::new(kube::Client::new(Router::new().fallback(async move || list), "site"));
        let newest = reader.newest_record(&ReleaseKey::new("site", "keystone")).await.unwrap();
        assert_eq!(newest, Some(NewestRecord { revision: 10, status: Status::Unknown }));
    }

    #[tokio::test]
    async fn skips_malformed_records_and_returns_the_reasons() {
        let record = |release: &str, revision: u32, version: &str| {
            json!({"metadata": {
                "namespace": "site", "name": format!("sh.helm.release.v1.{release}.v{revision}"),
                "labels": {"owner": "helm", "name": release, "version": version, "status": "deployed"},
            }})
        };
        let items = json!([record("blog", 3, "three"), record("keystone", 1, "1"), record("keystone", 2, "2")]);
        let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}).to_string();
        let reader = Reader::new(kube::Client::new(Router::new().fallback(async move || list), "site"));
        let (newest, malformed) = reader.newest_records(None).await.unwrap();
        let newest: Vec<_> = newest.iter().map(|meta| (meta.release.to_string(), meta.revision)).collect();
        assert_eq!(newest, [("site/keystone".to_owned(), 2)]);
        let secrets: Vec<_> = malformed.iter().map(|problem| problem.secret.as_str()).collect();
        assert_eq!(secrets, ["site/sh.helm.release.v1.blog.v3"]);
    }
}
