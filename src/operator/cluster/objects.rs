//! Writes and deletes namespaced objects: Secrets with credentials, objects with Ceph's settings and keys, and Jobs.

use std::collections::BTreeMap;
use std::fmt::Debug;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ByteString, NamespaceResourceScope};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, DynamicObject};
use osdpl_values::CollectSorted;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{Cluster, Error, ErrorContext, MANAGER, ObjectWatches};
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::ceph;
use osdpl_core::credentials;
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release;
use osdpl_decide::{CEPH_COMPONENT, Kind, SecretWrite};

/// The type of Secrets that contain Ceph keys. Jobs of the charts set this type on the Secrets that they create.
const CEPH_SECRET_TYPE: &str = "kubernetes.io/rbd";

/// The annotation that kubectl sets on a Job that it creates from a `CronJob` (`kubectl create job --from`).
const INSTANTIATE: &str = "cronjob.kubernetes.io/instantiate";

/// The result of [`Cluster::run_cron_job`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobCreation {
    /// osdpl created the Job.
    Created,
    /// A Job of this name already exists, and osdpl did not change it.
    Exists,
    /// osdpl created no Job, because the `CronJob` does not exist.
    NoCronJob,
}

impl Cluster {
    /// Creates or replaces a Secret with credentials. Before the write, generates the credentials that have no value
    /// yet.
    ///
    /// # Errors
    /// Returns an error if the request to the API server fails, for example because someone else changed the Secret
    /// concurrently.
    pub(crate) async fn store_credentials(&self, write: &SecretWrite, inputs: &ObjectWatches) -> Result<(), Error> {
        let (namespace, name) = (write.namespace(), write.name());
        let mut secret = write.secret.clone();
        for (key, recipe) in &write.generated {
            let value = credentials::generate_credential(recipe, random)?;
            secret.data.get_or_insert_default().insert(key.clone(), ByteString(value.into_bytes()));
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        // If someone else has written the Secret since osdpl read it, the request fails: `create` because the Secret
        // exists, `replace` because the Secret has another resourceVersion.
        let written =
            if write.exists { api.replace(name, &params, &secret).await } else { api.create(&params, &secret).await };
        if written.is_err() {
            inputs.own_secrets.forget(namespace, name);
        }
        inputs.own_secrets.put(written.with_context(|| format!("storing credentials in Secret {name}"))?);
        Ok(())
    }

    /// Applies a `ConfigMap` or Secret that contains settings or keys of Ceph, and that pods of the charts mount.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn apply_ceph_object(
        &self,
        owner: &str,
        object: &ceph::Object,
        inputs: &ObjectWatches,
    ) -> Result<(), Error> {
        match object.kind {
            ceph::Kind::ConfigMap => {
                let body = json!({"data": object.data});
                inputs.own_maps.put(self.apply::<ConfigMap>(object, owner, body).await?);
            }
            ceph::Kind::Secret | ceph::Kind::Opaque => {
                let encoded = |text: &String| STANDARD.encode(text);
                let data = object.data.iter().map(|(key, text)| (key.clone(), encoded(text)));
                let data: BTreeMap<String, String> = data.collect_map();
                let type_ = if object.kind == ceph::Kind::Secret { CEPH_SECRET_TYPE } else { "Opaque" };
                let body = json!({"data": data, "type": type_});
                inputs.own_secrets.put(self.apply::<Secret>(object, owner, body).await?);
            }
        }
        Ok(())
    }

    async fn apply<K>(&self, object: &ceph::Object, owner: &str, mut body: serde_json::Value) -> Result<K, Error>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &object.namespace);
        let labels = json!({
            DEPLOYMENT_LABEL: owner, "app.kubernetes.io/managed-by": MANAGER, CEPH_COMPONENT.0: CEPH_COMPONENT.1,
        });
        body["apiVersion"] = "v1".into();
        body["kind"] = object.kind.name().into();
        body["metadata"] = json!({"name": object.name, "namespace": object.namespace, "labels": labels});
        let params = PatchParams::apply(MANAGER).force();
        api.patch(&object.name, &params, &Patch::Apply(body)).await.with_context(|| format!("writing {object}"))
    }

    /// Creates a Job from a `CronJob`, as `kubectl create job --from` does. If a Job of this name exists, osdpl does
    /// not change it.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn run_cron_job(&self, cron_job: &ReleaseKey, job: &str) -> Result<JobCreation, Error> {
        let namespace = &cron_job.namespace;
        let resource = ApiResource::erase::<CronJob>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let Some(mut found) =
            api.get_opt(&cron_job.name).await.with_context(|| format!("reading CronJob {cron_job}"))?
        else {
            return Ok(JobCreation::NoCronJob);
        };
        let what = || format!("creating Job {namespace}/{job} from CronJob {}", cron_job.name);
        let mut template = found.data["spec"]["jobTemplate"].take();
        let metadata: Option<ObjectMeta> = serde_json::from_value(template["metadata"].take()).ok();
        let mut metadata = metadata.unwrap_or_default();
        metadata.name = Some(job.to_owned());
        metadata.annotations.get_or_insert_default().insert(INSTANTIATE.into(), "manual".into());
        // Make the CronJob the owner of the Job, so that Kubernetes deletes old Jobs by the CronJob's history limits.
        let owner = json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "name": cron_job.name, "uid": found.metadata.uid,
            "controller": true,
        });
        metadata.owner_references = serde_json::from_value(json!([owner])).ok();
        let resource = ApiResource::erase::<Job>(&());
        let spec = template["spec"].take();
        let job = DynamicObject { metadata, ..DynamicObject::new(job, &resource).data(json!({ "spec": spec })) };
        let jobs: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        match jobs.create(&PostParams::default(), &job).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(JobCreation::Exists),
            other => other.map(|_| JobCreation::Created).with_context(what),
        }
    }

    /// Deletes Jobs of a release, and the pods of these Jobs. Skips Jobs that do not exist, and Jobs of another
    /// release.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn delete_jobs(&self, release: &ReleaseKey, names: &[String]) -> Result<(), Error> {
        let resource = ApiResource::erase::<Job>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &release.namespace, &resource);
        for name in names {
            let found = api.get_metadata_opt(name).await.with_context(|| format!("reading Job {name} of {release}"))?;
            let Some(found) = found.filter(|job| may_belong_to(&job.metadata, release)) else { continue };
            let params = with_uid(DeleteParams::background(), &found.metadata.uid.unwrap_or_default());
            self.delete_one(&resource, &ReleaseKey::new(&release.namespace, name), &params).await?;
        }
        Ok(())
    }

    /// Deletes the object `key` of the kind `kind`, but only if the object has the uid `uid`.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn delete(
        &self,
        kind: Kind,
        key: &ReleaseKey,
        uid: &str,
        inputs: &ObjectWatches,
    ) -> Result<(), Error> {
        let resource = match kind {
            Kind::Job => ApiResource::erase::<Job>(&()),
            Kind::Service => ApiResource::erase::<Service>(&()),
            Kind::Claim => ApiResource::erase::<PersistentVolumeClaim>(&()),
            Kind::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
            Kind::Secret => ApiResource::erase::<Secret>(&()),
        };
        let params = if kind == Kind::Job { DeleteParams::background() } else { DeleteParams::default() };
        if self.delete_one(&resource, key, &with_uid(params, uid)).await? {
            match kind {
                Kind::ConfigMap => inputs.own_maps.forget(&key.namespace, &key.name),
                Kind::Secret => inputs.own_secrets.forget(&key.namespace, &key.name),
                Kind::Job | Kind::Service | Kind::Claim => {}
            }
        }
        Ok(())
    }

    /// Deletes an object. Returns `false`, and deletes nothing, if the name now belongs to a newer object.
    async fn delete_one(&self, resource: &ApiResource, key: &ReleaseKey, params: &DeleteParams) -> Result<bool, Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &key.namespace, resource);
        let deleted = match api.delete(&key.name, params).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => return Ok(false),
            deleted => deleted,
        };
        ignore_missing(deleted, || {
            let kind = if resource.kind == "PersistentVolumeClaim" { "claim" } else { &resource.kind };
            format!("deleting {kind} {key}")
        })?;
        Ok(true)
    }
}

/// Adds the uid to the parameters of a deletion, so that the API server does not delete a newer object of the same
/// name. With an empty uid, the API server deletes nothing.
pub(super) fn with_uid(params: DeleteParams, uid: &str) -> DeleteParams {
    let preconditions = Some(Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() });
    DeleteParams { preconditions, ..params }
}

/// Whether an object may belong to a release: it names the release as its owner, or it names no owner.
///
/// An object that names no release may be a hook of this release: helm does not annotate hooks, and not every chart
/// labels them.
fn may_belong_to(metadata: &ObjectMeta, release: &ReleaseKey) -> bool {
    let group = metadata.labels.as_ref().and_then(|labels| labels.get("release_group"));
    let owner = release::helm_owner(metadata);
    group.is_none_or(|group| *group == release.name) && owner.is_none_or(|owner| owner == *release)
}

/// Treats the response "not found" as success: a missing object needs neither a change nor a deletion.
pub(super) fn ignore_missing<T>(response: Result<T, kube::Error>, what: impl FnOnce() -> String) -> Result<(), Error> {
    match response {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other.map(drop).with_context(what),
    }
}

fn random(mut buffer: &mut [u8]) -> Result<(), Error> {
    while !buffer.is_empty() {
        let filled = rustix::rand::getrandom(&mut *buffer, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Error::Object(format!("the kernel returns no random bytes: {error}")))?;
        buffer = &mut buffer[filled..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kube::Client;

    use super::super::testing::RefusingServer;
    use super::*;

    #[tokio::test]
    async fn deletes_only_the_object_that_the_decision_saw() {
        let job = |group: &str| {
            json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": {"name": "x", "uid": "seen", "labels": {"release_group": group}},
            })
        };
        let server = RefusingServer::new(move |name| job(if name == "theirs" { "heat" } else { "nova" }));
        let cluster = server.cluster();
        let inputs = ObjectWatches::new(
            Client::new(axum::Router::new(), "openstack"),
            &osdpl_client::Scope::All,
            std::sync::Arc::default(),
        );
        let key = |name: &str| ReleaseKey::new("openstack", name);
        for kind in [Kind::Job, Kind::Service, Kind::Claim, Kind::ConfigMap, Kind::Secret] {
            cluster.delete(kind, &key("x"), "seen", &inputs).await.unwrap();
        }
        cluster.delete_jobs(&key("nova"), &["nova-db-sync".to_owned(), "theirs".to_owned()]).await.unwrap();
        assert_eq!(server.preconditions(), vec![json!({"uid": "seen"}); 6], "the Job of heat stays");
    }
}
