//! Reads of what only the API server knows for certain, and the CRDs that charts carry.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};

use super::{Cluster, Error, Explain, MANAGER, Reader};
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release;
use osdpl_core::release::Objects;
use osdpl_values::Values;
use osdpl_values::yaml;

impl Reader {
    /// The newest revision of a release and its status, read from the API server itself: watches may lag.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn newest_record(&self, key: &ReleaseKey) -> Result<Option<(i64, String)>, Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let selector = ListParams::default().labels(&format!("owner=helm,name={}", key.name));
        let records = api.list_metadata(&selector).await.because(|| format!("listing the release records of {key}"))?;
        let read = |labels: &std::collections::BTreeMap<String, String>| {
            Some((labels.get("version")?.parse::<i64>().ok()?, labels.get("status")?.clone()))
        };
        Ok(records.items.iter().filter_map(|record| read(record.labels())).max())
    }

    /// The values that helm recorded for a revision; the inner error says why they can't be read.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn recorded_values(&self, key: &ReleaseKey, revision: i64) -> Result<Result<Values, String>, Error> {
        let name = format!("sh.helm.release.v1.{}.v{revision}", key.name);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let secret = api.get_opt(&name).await.because(|| format!("reading release record {name}"))?;
        let payload = secret.and_then(|mut secret| secret.data.as_mut()?.remove(release::SECRET_KEY));
        let Some(payload) = payload else { return Ok(Err(format!("Secret {name} is gone or empty"))) };
        // A big record takes tens of milliseconds to unpack: not on a thread that others wait for.
        let read = tokio::task::spawn_blocking(move || release::decode(&payload.0)).await;
        let read = read.map_err(|error| Error::Object(format!("reading release record {name}: {error}")))?;
        Ok(read.map(|record| record.config.as_object().cloned().unwrap_or_default()).map_err(|error| error.to_string()))
    }

    /// The objects of a revision; `None` where its record is gone. The inner error says why they can't be read.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn recorded_objects(
        &self,
        key: &ReleaseKey,
        revision: u32,
    ) -> Result<Option<Result<Objects, String>>, Error> {
        let name = format!("sh.helm.release.v1.{}.v{revision}", key.name);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let secret = api.get_opt(&name).await.because(|| format!("reading release record {}/{name}", key.namespace))?;
        let Some(secret) = secret else { return Ok(None) };
        let payload = secret.data.and_then(|mut data| data.remove(release::SECRET_KEY));
        let payload = payload.map(|payload| payload.0).unwrap_or_default();
        let read = tokio::task::spawn_blocking(move || release::decode_objects(&payload)).await;
        let read = read.map_err(|error| Error::Object(format!("reading release record {name}: {error}")))?;
        Ok(Some(read.map_err(|error| format!("release record {}/{name}: {error}", key.namespace))))
    }
}

impl Cluster {
    /// Applies a CRD that a chart carries in `crds/`: helm would install it once and never upgrade it. It is never deleted.
    ///
    /// # Errors
    /// When it is no CRD, or the API server refuses.
    pub async fn apply_crd(&self, manifest: &str) -> Result<(), Error> {
        let crd: CustomResourceDefinition =
            yaml::parse("crds/", manifest).map_err(|error| Error::Object(error.to_string()))?;
        let name = crd.name_any();
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let known = api.get_opt(&name).await.because(|| format!("reading CRD {name}"))?;
        if known.is_some_and(|known| known.spec == crd.spec) {
            return Ok(());
        }
        let params = PatchParams::apply(MANAGER).force();
        api.patch(&name, &params, &Patch::Apply(&crd)).await.because(|| format!("applying CRD {name}"))?;
        Ok(())
    }
}
