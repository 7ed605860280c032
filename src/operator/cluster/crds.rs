//! CRDs that a chart's templates carry and helm keeps: when their release is gone, the next one of its name may take them over.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;

use super::{Cluster, Error, Explain, MANAGER};
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release;

impl Cluster {
    /// Hands the CRDs to `key` that a release of the same name left in another namespace, once helm has no record of that one: helm refuses to
    /// install over what another release owns (helm: `action.checkOwnership`), and upstream's mariadb keeps its CRDs for ever.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn inherit_crds(&self, key: &ReleaseKey) -> Result<(), Error> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let selector = ListParams::default().labels("app.kubernetes.io/managed-by=Helm");
        for crd in api.list_metadata(&selector).await.because(|| "listing CRDs".into())?.items {
            let Some(owner) = release::helm_owner(&crd.metadata).filter(|owner| owner.name == key.name && owner != key)
            else {
                continue;
            };
            if self.newest_record(&owner).await?.is_some() {
                continue;
            }
            let name = crd.name_any();
            let patch = json!({"metadata": {
                "annotations": {release::RELEASE_NAMESPACE_ANNOTATION: key.namespace}, "resourceVersion": crd.resource_version(),
            }});
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            api.patch_metadata(&name, &params, &Patch::Merge(patch))
                .await
                .because(|| format!("handing CRD {name} of release {owner}, which is gone, to {key}"))?;
            tracing::info!(crd = name, from = %owner, to = %key, "CRD handed over");
        }
        Ok(())
    }
}
