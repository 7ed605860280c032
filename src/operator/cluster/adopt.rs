//! Writes osdpl's labels on helm's release records: sets them when osdpl adopts a release, and removes them when osdpl
//! stops managing the release.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, PartialObjectMeta};
use osdpl_client::list_metadata;
use osdpl_values::CollectSorted;
use serde_json::json;

use super::objects::ignore_missing;
use super::records::{NewestRecord, record_name};
use super::{Cluster, Error, ErrorContext, MANAGER, Reader};
use osdpl_core::adopt;
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release::{self, Object, Objects};

/// The prefix of all labels of osdpl.
const LABEL_PREFIX: &str = "osdpl.dev/";

/// The maximum number of objects of a release that osdpl checks for labels and annotations of another controller. A few
/// objects suffice, because Flux and Argo CD mark every object.
const MAX_CHECKED: usize = 4;

/// The kinds of objects that osdpl checks for labels and annotations of another controller, in the order of the checks.
///
/// An object of these kinds never belongs to several releases. So a controller that has marked the object manages the
/// object's release.
const CHECKED_KINDS: [&str; 5] = ["Deployment", "StatefulSet", "DaemonSet", "Service", "ConfigMap"];

impl Reader {
    /// Checks whether another controller, such as Flux, manages the release `key`. `objects` are the release's objects.
    ///
    /// If so, returns a message that names the controller and the remedy.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub async fn other_owner(&self, key: &ReleaseKey, objects: &Objects) -> Result<Option<String>, Error> {
        let rank = |object: &Object| CHECKED_KINDS.iter().position(|kind| *kind == object.kind);
        let mut checked: Vec<&Object> = objects.manifest.iter().filter(|object| rank(object).is_some()).collect();
        checked.sort_by_key(|object| (rank(object), &object.name));
        for object in checked.into_iter().take(MAX_CHECKED) {
            let (group, version) = object.api_version.split_once('/').unwrap_or(("", &object.api_version));
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &object.kind));
            let namespace = object.namespace.as_ref().unwrap_or(&key.namespace);
            if !self.scope().contains(namespace) {
                continue;
            }
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
            let what = format!("{} {namespace}/{}", object.kind, object.name);
            let found = api.get_metadata_opt(&object.name).await.with_context(|| format!("reading {what}"))?;
            let owner =
                found.and_then(|found| adopt::find_other_controller(&what, found.labels(), found.annotations()));
            if owner.is_some() {
                return Ok(owner);
            }
        }
        Ok(None)
    }
}

impl Cluster {
    /// Removes osdpl's labels from all records of a release; returns the number of changed records.
    ///
    /// The function also changes the records of older revisions: if helm rolls back to an older revision, it copies the
    /// labels of that revision's record to the record of the new revision.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn unlabel_records(&self, key: &ReleaseKey) -> Result<usize, Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let selector = ListParams::default().labels(&format!("owner=helm,name={}", key.name));
        let labelled = |record: &PartialObjectMeta<Secret>| {
            let ours = record.labels().keys().filter(|label| label.starts_with(LABEL_PREFIX));
            let removed: BTreeMap<String, Option<String>> = ours.map(|label| (label.clone(), None)).collect_map();
            (!removed.is_empty()).then(|| (record.name_any(), record.resource_version(), removed))
        };
        let records = list_metadata(&api, &selector, labelled).await;
        let mut count = 0;
        for (name, version, removed) in records.with_context(|| format!("listing the release records of {key}"))? {
            let patch = json!({"metadata": {"labels": removed, "resourceVersion": version}});
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            let response = api.patch_metadata(&name, &params, &Patch::Merge(patch)).await;
            ignore_missing(response, || format!("removing labels from release record {}/{name}", key.namespace))?;
            count += 1;
        }
        Ok(count)
    }

    /// Sets labels on the record of a deployed revision; removes each label whose value is `None`.
    ///
    /// Writes nothing and returns `false` if the revision is no longer the newest one, if its status is not `deployed`,
    /// or if someone changed the record concurrently.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn label_record(
        &self,
        key: &ReleaseKey,
        revision: i64,
        labels: &BTreeMap<&str, Option<String>>,
    ) -> Result<bool, Error> {
        let name = record_name(key, revision);
        let what = || format!("labelling release record {}/{name}", key.namespace);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let Some(record) = api.get_metadata_opt(&name).await.with_context(what)? else { return Ok(false) };
        let newest = self.newest_record(key).await?;
        if newest != Some(NewestRecord { revision, status: release::Status::Deployed }) {
            return Ok(false);
        }
        let patch = json!({"metadata": {"labels": labels, "resourceVersion": record.resource_version()}});
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        match api.patch_metadata(&name, &params, &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(false),
            other => other.map(|_| true).with_context(what),
        }
    }
}
