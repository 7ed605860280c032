//! Cleans up after failed revisions of a release: deletes the objects that only these revisions contain.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{self, Scope};
use serde_json::json;

use super::objects::{ignore_missing, with_uid};
use super::records::record_name;
use super::{Cluster, Error, ErrorContext};
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release::{self, CLEANED_UP_LABEL, Cleanup, Object, Objects};

/// An object in the cluster that helm created for a failed revision, and that no revision in [`Cleanup::kept`]
/// contains.
struct Leftover {
    api: Api<DynamicObject>,
    object: Object,
    is_namespaced: bool,
    uid: String,
}

impl Cluster {
    /// Deletes the objects that only failed revisions of a release contain, and labels the records of these revisions
    /// as cleaned up. Returns the deleted objects.
    ///
    /// `others` names revisions of the other releases that osdpl manages. This function keeps each object that one of
    /// these revisions contains. It does nothing if helm has made a newer revision since osdpl planned the cleanup.
    ///
    /// # Errors
    /// Returns an error if a record that names objects to keep can't be read, or a request to the API server fails. The
    /// function may have deleted some objects before the error. At least one record is then not labelled as cleaned up,
    /// so a later pass retries the cleanup.
    pub(crate) async fn clean_up(
        &self,
        key: &ReleaseKey,
        cleanup: &Cleanup,
        others: &[(ReleaseKey, u32)],
    ) -> Result<Vec<String>, Error> {
        let newest = self.newest_record(key).await?;
        let is_expected = |(revision, status): (i64, String)| {
            revision == i64::from(cleanup.newest) && matches!(status.as_str(), "deployed" | "failed")
        };
        if !newest.is_some_and(is_expected) {
            return Ok(Vec::new());
        }
        let mut kept = Vec::new();
        for revision in &cleanup.kept {
            kept.push(self.objects_to_keep(key, *revision).await?);
        }
        let mut leftovers = Vec::new();
        for revision in &cleanup.revisions {
            let failed = match self.recorded_objects(key, *revision).await? {
                None => continue,
                Some(Ok(objects)) => objects,
                // Skip a record that can't be decoded. The code below still labels the record as cleaned up, because a
                // later attempt could not decode the record either.
                Some(Err(problem)) => {
                    tracing::warn!(release = %key, problem, "can't clean up after a revision: can't decode its record");
                    continue;
                }
            };
            for object in release::find_orphans(&failed, &kept, key) {
                leftovers.extend(self.find_leftover(key, object, &kept).await?);
            }
        }
        let deleted = self.delete_leftovers(key, leftovers, others).await?;
        for revision in &cleanup.revisions {
            self.mark_cleaned_up(key, *revision).await?;
        }
        Ok(deleted)
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
        let api: Api<DynamicObject> = if is_namespaced {
            let namespace = object.namespace.as_deref().unwrap_or(&key.namespace);
            // The operator has no rights in this namespace. It runs helm with the same rights, so helm created no
            // object there.
            if !self.scope().contains(namespace) {
                return Ok(None);
            }
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        };
        let found = api.get_metadata_opt(&object.name).await.with_context(what)?;
        let found = found.filter(|found| release::is_leftover(&found.metadata, key));
        Ok(found.map(|found| {
            let uid = found.metadata.uid.unwrap_or_default();
            Leftover { api, object: object.clone(), is_namespaced, uid }
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

    /// Deletes those leftovers of a release that no revision in `others` contains, and returns the deleted objects.
    /// `others` names revisions of other releases.
    ///
    /// A failed deletion does not stop the deletion of the remaining leftovers; the function returns the last error.
    async fn delete_leftovers(
        &self,
        key: &ReleaseKey,
        leftovers: Vec<Leftover>,
        others: &[(ReleaseKey, u32)],
    ) -> Result<Vec<String>, Error> {
        let mut deleted = Vec::new();
        let mut failed = None;
        let mut of_others = Vec::new();
        // Read the records of other releases only if there are leftovers to delete, which is rare.
        for (other, revision) in others.iter().filter(|_| !leftovers.is_empty()) {
            match self.recorded_objects(other, *revision).await? {
                Some(Ok(objects)) => of_others.push((other, objects)),
                Some(Err(problem)) => return Err(Error::Object(problem)),
                None => {}
            }
        }
        for Leftover { api, object, is_namespaced, uid } in leftovers {
            let is_used = of_others
                .iter()
                .any(|(other, objects)| release::has_object(objects, other, &object, key, is_namespaced));
            if is_used {
                continue;
            }
            let params = with_uid(DeleteParams::background(), &uid);
            let what = format!("{} {}", object.kind, object.name);
            match ignore_missing(api.delete(&object.name, &params).await, || format!("deleting {what}")) {
                Ok(()) => deleted.push(what),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(deleted), Err)
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
    async fn deletes_only_the_leftover_that_it_has_read() {
        let server = RefusingServer::new(|_| json!({}));
        let cluster = server.cluster();
        let resource = ApiResource::erase::<ConfigMap>(&());
        let object = Object {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: None,
            name: "leftover".into(),
            keep: false,
            replicas: None,
            expires: false,
            fields: Vec::new(),
        };
        let api = Api::namespaced_with(cluster.client.clone(), "openstack", &resource);
        let leftover = Leftover { api, object, is_namespaced: true, uid: "seen".into() };
        let key = ReleaseKey::new("openstack", "nova");
        let error = cluster.delete_leftovers(&key, vec![leftover], &[]).await.unwrap_err();
        assert!(error.to_string().contains("deleting ConfigMap leftover"), "{error}");
        assert_eq!(server.preconditions(), [json!({"uid": "seen"})]);
    }
}
