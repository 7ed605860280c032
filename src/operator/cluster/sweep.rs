//! Removing what failed revisions of a release left behind (`helm.md` §3, `src/release/sweep.rs`).

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{self, Scope};
use serde_json::json;

use super::{Cluster, Error, Explain};
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release::{self, CLEANED_UP_LABEL, Cleanup, Object, Objects};

/// An object that is there, that helm made for the release, and that the release does not name any more.
struct Leftover {
    api: Api<DynamicObject>,
    object: Object,
    namespaced: bool,
    uid: Option<String>,
}

impl Cluster {
    /// Removes the leftovers of a release, says so on the failed records, and returns what was removed. What a revision in `others` names,
    /// of the other releases of ours, stays. Nothing is done where the newest revision is another one by now.
    ///
    /// # Errors
    /// When a record that says what must stay can't be read, or the API server refuses; what could be removed is, and nothing is said on
    /// the records.
    pub async fn sweep(
        &self,
        key: &ReleaseKey,
        sweep: &Cleanup,
        others: &[(ReleaseKey, u32)],
    ) -> Result<Vec<String>, Error> {
        let newest = self.newest_record(key).await?;
        let settled = |(revision, status): (i64, String)| {
            revision == i64::from(sweep.newest) && matches!(status.as_str(), "deployed" | "failed")
        };
        if !newest.is_some_and(settled) {
            return Ok(Vec::new());
        }
        let mut kept = Vec::new();
        for revision in &sweep.kept {
            kept.push(self.objects_to_keep(key, *revision).await?);
        }
        let mut leftovers = Vec::new();
        for revision in &sweep.of {
            let left = match self.recorded_objects(key, *revision).await? {
                None => continue,
                Some(Ok(left)) => left,
                // What it left is for ever unknown; whoever mends the record finds its label.
                Some(Err(problem)) => {
                    tracing::warn!(release = %key, problem, "what this failed revision left behind is not known");
                    continue;
                }
            };
            for object in release::find_orphans(&left, &kept, key) {
                leftovers.extend(self.leftover(key, object, &kept).await?);
            }
        }
        let removed = self.remove_leftovers(key, leftovers, others).await?;
        for revision in &sweep.of {
            self.mark_swept(key, *revision).await?;
        }
        Ok(removed)
    }

    async fn objects_to_keep(&self, key: &ReleaseKey, revision: u32) -> Result<Objects, Error> {
        match self.recorded_objects(key, revision).await? {
            Some(Ok(objects)) => Ok(objects),
            Some(Err(problem)) => Err(Error::Object(problem)),
            None => Err(Error::Object(format!("revision {revision} of {key} has no record any more"))),
        }
    }

    /// The object as it is in the cluster, where it is a leftover.
    async fn leftover(&self, key: &ReleaseKey, object: &Object, kept: &[Objects]) -> Result<Option<Leftover>, Error> {
        let what = || format!("looking for {} {}", object.kind, object.name);
        let Some((resource, scope)) = self.kind(object).await.because(what)? else { return Ok(None) };
        let namespaced = scope == Scope::Namespaced;
        if !namespaced && kept.iter().any(|kept| release::has_object(kept, key, object, key, false)) {
            return Ok(None);
        }
        let api: Api<DynamicObject> = if namespaced {
            let namespace = object.namespace.as_deref().unwrap_or(&key.namespace);
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        };
        let found = api.get_metadata_opt(&object.name).await.because(what)?;
        let found = found.filter(|found| release::is_leftover(&found.metadata, key));
        Ok(found.map(|found| Leftover { api, object: object.clone(), namespaced, uid: found.metadata.uid }))
    }

    /// How the API server calls a kind; `None` for one that it does not know (any more): then there is no such object either.
    async fn kind(&self, object: &Object) -> Result<Option<(ApiResource, Scope)>, kube::Error> {
        let (group, version) = object.api_version.split_once('/').unwrap_or(("", &object.api_version));
        let kind = GroupVersionKind::gvk(group, version, &object.kind);
        match discovery::pinned_kind(&self.client, &kind).await {
            Ok((resource, capabilities)) => Ok(Some((resource, capabilities.scope))),
            Err(kube::Error::Discovery(_)) => Ok(None),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes what no other release names. One that can't be removed does not keep the rest.
    async fn remove_leftovers(
        &self,
        key: &ReleaseKey,
        leftovers: Vec<Leftover>,
        others: &[(ReleaseKey, u32)],
    ) -> Result<Vec<String>, Error> {
        let mut removed = Vec::new();
        let mut failed = None;
        let mut theirs = Vec::new();
        // Read only where there is something to remove, which is as good as never.
        for (other, revision) in others.iter().filter(|_| !leftovers.is_empty()) {
            match self.recorded_objects(other, *revision).await? {
                Some(Ok(objects)) => theirs.push((other, objects)),
                Some(Err(problem)) => return Err(Error::Object(problem)),
                None => {}
            }
        }
        for Leftover { api, object, namespaced, uid } in leftovers {
            let named =
                theirs.iter().any(|(other, objects)| release::has_object(objects, other, &object, key, namespaced));
            if named {
                continue;
            }
            let preconditions = Some(Preconditions { uid, ..Preconditions::default() });
            let params = DeleteParams { preconditions, ..DeleteParams::background() };
            let what = format!("{} {}", object.kind, object.name);
            match super::remove::gone(api.delete(&object.name, &params).await, || format!("removing {what}")) {
                Ok(()) => removed.push(what),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(removed), Err)
    }

    /// Says on a failed record that what it left behind is dealt with.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn mark_swept(&self, key: &ReleaseKey, revision: u32) -> Result<(), Error> {
        let name = format!("sh.helm.release.v1.{}.v{revision}", key.name);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let label = Patch::Merge(json!({"metadata": {"labels": {CLEANED_UP_LABEL: revision.to_string()}}}));
        let patched = api.patch_metadata(&name, &PatchParams::default(), &label).await;
        super::remove::gone(patched, || format!("marking release record {name} as swept"))
    }
}
