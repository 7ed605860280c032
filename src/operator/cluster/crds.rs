//! `CustomResourceDefinition`s of charts.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;

use super::{Cluster, Error, ErrorContext, MANAGER};
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release;
use osdpl_values::yaml;

impl Cluster {
    /// Applies a CRD of a chart's `crds/` folder, which helm installs once and never upgrades. It is never deleted.
    ///
    /// # Errors
    /// When the manifest is no CRD, or the API server refuses.
    pub(crate) async fn apply_crd(&self, manifest: &str) -> Result<(), Error> {
        let crd: CustomResourceDefinition =
            yaml::parse("crds/", manifest).map_err(|error| Error::Object(error.to_string()))?;
        let name = crd.name_any();
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let known = api.get_opt(&name).await.with_context(|| format!("reading CRD {name}"))?;
        if known.is_some_and(|known| known.spec == crd.spec) {
            return Ok(());
        }
        let params = PatchParams::apply(MANAGER).force();
        api.patch(&name, &params, &Patch::Apply(&crd)).await.map(drop).with_context(|| format!("applying CRD {name}"))
    }

    /// Transfers CRDs to a release from an uninstalled release of the same name in another namespace.
    ///
    /// helm refuses to install over objects that another release owns (helm: `action.checkOwnership`), and upstream's
    /// mariadb chart keeps the CRDs of its templates at an uninstall.
    ///
    /// # Errors
    /// When the API server refuses.
    pub(crate) async fn inherit_crds(&self, key: &ReleaseKey) -> Result<(), Error> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let selector = ListParams::default().labels("app.kubernetes.io/managed-by=Helm");
        for crd in api.list_metadata(&selector).await.with_context(|| "listing CRDs".into())?.items {
            let Some(owner) = release::helm_owner(&crd.metadata).filter(|owner| owner.name == key.name && owner != key)
            else {
                continue;
            };
            if self.newest_record(&owner).await?.is_some() {
                continue;
            }
            let name = crd.name_any();
            let patch = json!({"metadata": {
                "annotations": {release::RELEASE_NAMESPACE_ANNOTATION: key.namespace},
                "resourceVersion": crd.resource_version(),
            }});
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            api.patch_metadata(&name, &params, &Patch::Merge(patch))
                .await
                .with_context(|| format!("transferring CRD {name} from the uninstalled release {owner} to {key}"))?;
            tracing::info!(crd = name, from = %owner, to = %key, "transferred a CRD of an uninstalled release");
        }
        Ok(())
    }
}
