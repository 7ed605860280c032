//! Cleans up after failed revisions of a release: finds the objects that only these revisions contain, and deletes
//! them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{self, Scope};
use serde_json::json;

use super::objects::{ignore_missing, with_uid};
use super::records::record_name;
use super::{Cluster, Error, ErrorContext, Reader};
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release::{self, CLEANED_UP_LABEL, Cleanup, Object, Objects, Status};
use osdpl_decide::Leftover;

impl Reader {
    /// Returns the objects that a cleanup of a release must delete, or why they can't be determined; `None` if helm has
    /// made or begun a newer revision since osdpl decided about the cleanup.
    ///
    /// `others` names revisions of the other releases that osdpl manages. The result contains no object that one of
    /// these revisions contains.
    pub(super) async fn leftovers(
        &self,
        key: &ReleaseKey,
        cleanup: &Cleanup,
        others: &[(ReleaseKey, u32)],
    ) -> Result<Option<Vec<Leftover>>, String> {
        let found = match self.is_current(key, cleanup).await {
            Ok(true) => self.find_leftovers(key, cleanup, others).await.map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        found.map_err(|error| error.to_string())
    }

    /// Whether the newest revision of a release is still the one for which osdpl decided about the cleanup, and helm is
    /// not changing this revision.
    async fn is_current(&self, key: &ReleaseKey, cleanup: &Cleanup) -> Result<bool, Error> {
        let newest = self.newest_record(key).await?;
        Ok(newest.is_some_and(|newest| {
            newest.revision == i64::from(cleanup.newest) && matches!(newest.status, Status::Deployed | Status::Failed)
        }))
    }

    /// Returns the objects that a cleanup of a release must delete.
    ///
    /// # Errors
    /// Returns an error if a record that names objects to keep can't be read, or a request to the API server fails.
    async fn find_leftovers(
        &self,
        key: &ReleaseKey,
        cleanup: &Cleanup,
        others: &[(ReleaseKey, u32)],
    ) -> Result<Vec<Leftover>, Error> {
        let mut kept = Vec::new();
        for revision in &cleanup.kept {
            kept.push(self.objects_to_keep(key, *revision).await?);
        }
        // List an object only once, even if several failed revisions contain it.
        let (mut uids, mut found) = (BTreeSet::new(), Vec::new());
        for revision in &cleanup.revisions {
            let failed = match self.recorded_objects(key, *revision).await? {
                None => continue,
                Some(Ok(objects)) => objects,
                // Skip a record that can't be decoded. The cleanup still labels the record as cleaned up, because no
                // later cleanup could decode the record either.
                Some(Err(problem)) => {
                    tracing::warn!(release = %key, problem, "osdpl can't decode the record of a failed revision, so osdpl does not delete the objects that this revision left behind");
                    continue;
                }
            };
            for object in release::find_orphans(&failed, &kept, key) {
                let leftover = self.find_leftover(key, object, &kept).await?;
                let leftover = leftover.filter(|leftover| uids.insert(leftover.uid.clone()));
                found.extend(leftover.map(|leftover| (object.clone(), leftover)));
            }
        }
        let mut of_others = Vec::new();
        // Read the records of other releases only if there are leftovers to delete, which is rare.
        for (other, revision) in others.iter().filter(|_| !found.is_empty()) {
            match self.recorded_objects(other, *revision).await? {
                Some(Ok(objects)) => of_others.push((other, objects)),
                Some(Err(problem)) => return Err(Error::Object(problem)),
                None => {}
            }
        }
        found.retain(|(object, leftover)| {
            let is_namespaced = leftover.namespace.is_some();
            !of_others.iter().any(|(other, objects)| release::has_object(objects, other, object, key, is_namespaced))
        });
        Ok(found.into_iter().map(|(_, leftover)| leftover).collect())
    }

    async fn objects_to_keep(&self, key: &ReleaseKey, revision: u32) -> Result<Objects, Error> {
        match self.recorded_objects(key, revision).await? {
            Some(Ok(objects)) => Ok(objects),
            Some(Err(problem)) => Err(Error::Object(problem)),
            None => Err(Error::Object(format!("revision {revision} of {key} no longer has a record"))),
        }
    }

    /// Looks up an object of a failed revision in the cluster. Returns `None` if the cluster does not contain the
    /// object, or if osdpl must keep it, for example because helm created it for another release.
    async fn find_leftover(
        &self,
        key: &ReleaseKey,
        object: &Object,
        kept: &[Objects],
    ) -> Result<Option<Leftover>, Error> {
        let what = || format!("reading {} {}", object.kind, object.name);
        let Some((resource, scope)) = self.resource_of(object).await.with_context(what)? else { return Ok(None) };
        let is_namespaced = scope == Scope::Namespaced;
        if !is_namespaced && kept.iter().any(|kept| release::has_object(kept, key, object, key, false)) {
            return Ok(None);
        }
        let namespace = is_namespaced.then(|| object.namespace.as_deref().unwrap_or(&key.namespace));
        // If the operator has no rights in the namespace, helm, which runs with the operator's rights, can't have
        // created the object there.
        if namespace.is_some_and(|namespace| !self.scope().contains(namespace)) {
            return Ok(None);
        }
        let found = self.api_of(&resource, namespace).get_metadata_opt(&object.name).await.with_context(what)?;
        let found = found.filter(|found| release::is_leftover(&found.metadata, key));
        Ok(found.map(|found| Leftover {
            namespace: namespace.map(str::to_owned),
            resource,
            name: object.name.clone(),
            uid: found.metadata.uid.unwrap_or_default(),
            resource_version: found.metadata.resource_version,
        }))
    }

    /// Returns the API resource for an object's kind; `None` if the API server does not serve the kind, so that no such
    /// object can exist.
    async fn resource_of(&self, object: &Object) -> Result<Option<(ApiResource, Scope)>, kube::Error> {
        let (group, version) = object.api_version.split_once('/').unwrap_or(("", &object.api_version));
        let kind = GroupVersionKind::gvk(group, version, &object.kind);
        match discovery::pinned_kind(&self.client, &kind).await {
            Ok((resource, capabilities)) => Ok(Some((resource, capabilities.scope))),
            Err(kube::Error::Discovery(_)) => Ok(None),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the API for the objects of a kind in a namespace. `namespace` is `None` for a cluster-scoped kind.
    fn api_of(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }
}

impl Cluster {
    /// Deletes the objects that failed revisions of a release left behind, and labels the records of these revisions as
    /// cleaned up.
    ///
    /// Returns `false`, and does nothing, if helm has made or begun a newer revision since osdpl planned the cleanup.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails. The function may have deleted some objects before the
    /// error. At least one record is then not labelled as cleaned up, so a later pass retries the cleanup.
    pub(crate) async fn clean_up(
        &self,
        key: &ReleaseKey,
        cleanup: &Cleanup,
        leftovers: &[Leftover],
    ) -> Result<bool, Error> {
        if !self.is_current(key, cleanup).await? {
            return Ok(false);
        }
        self.delete_leftovers(leftovers).await?;
        for revision in &cleanup.revisions {
            self.mark_cleaned_up(key, *revision).await?;
        }
        Ok(true)
    }

    /// Deletes the leftovers. A newer object of the same name stays, and so does a leftover that someone has changed
    /// since osdpl read it.
    ///
    /// A failed deletion does not stop the deletion of the remaining objects; the function returns the last error. An
    /// object that stays counts as a failed deletion, so a later pass searches for the leftovers again.
    async fn delete_leftovers(&self, leftovers: &[Leftover]) -> Result<(), Error> {
        let mut result = Ok(());
        for leftover in leftovers {
            let api = self.api_of(&leftover.resource, leftover.namespace.as_deref());
            let mut params = with_uid(DeleteParams::background(), &leftover.uid);
            if let Some(preconditions) = &mut params.preconditions {
                preconditions.resource_version.clone_from(&leftover.resource_version);
            }
            let deleted = api.delete(&leftover.name, &params).await;
            result = ignore_missing(deleted, || format!("deleting {leftover}")).and(result);
        }
        result
    }

    /// Labels the record of a failed revision as cleaned up, so that no later pass deletes objects because of that
    /// revision.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn mark_cleaned_up(&self, key: &ReleaseKey, revision: u32) -> Result<(), Error> {
        let name = record_name(key, revision.into());
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let label = Patch::Merge(json!({"metadata": {"labels": {CLEANED_UP_LABEL: revision.to_string()}}}));
        let patched = api.patch_metadata(&name, &PatchParams::default(), &label).await;
        ignore_missing(patched, || format!("labelling release record {name} as cleaned up"))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::super::testing::RefusingServer;
    use super::*;

    #[tokio::test]
    async fn deletes_only_the_planned_leftovers() {
        let server = RefusingServer::new(|_| json!({}));
        let resource = ApiResource::erase::<ConfigMap>(&());
        let leftover = |name: &str, uid: &str| {
            let (resource, namespace) = (resource.clone(), Some("openstack".to_owned()));
            let resource_version = Some("5".to_owned());
            Leftover { resource, namespace, name: name.into(), uid: uid.into(), resource_version }
        };
        let leftovers = [leftover("first", "seen"), leftover("second", "seen too")];
        let error = server.cluster().delete_leftovers(&leftovers).await.unwrap_err();
        assert!(error.to_string().contains("deleting ConfigMap openstack/second"), "{error}");
        let expected = ["seen", "seen too"].map(|uid| json!({"uid": uid, "resourceVersion": "5"}));
        assert_eq!(server.preconditions(), expected);
    }
}
