//! Reads and writes the `CustomResourceDefinition`s (CRDs) of charts.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;

use super::{Cluster, Error, ErrorContext, MANAGER, Reader};
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release;
use osdpl_decide::AbandonedCrd;

impl Reader {
    /// Returns a CRD; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(super) async fn crd(&self, name: &str) -> Result<Option<CustomResourceDefinition>, Error> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        api.get_opt(name).await.with_context(|| format!("reading CRD {name}"))
    }

    /// Returns the CRDs that uninstalled releases of the same name as `key` left behind, whatever the namespace of
    /// these releases was.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(super) async fn abandoned_crds(&self, key: &ReleaseKey) -> Result<Vec<AbandonedCrd>, Error> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let selector = ListParams::default().labels("app.kubernetes.io/managed-by=Helm");
        let mut abandoned = Vec::new();
        for crd in api.list_metadata(&selector).await.with_context(|| "listing CRDs".into())?.items {
            let owner = release::helm_owner(&crd.metadata).filter(|owner| owner.name == key.name);
            let Some(owner) = owner else { continue };
            if self.is_uninstalled(&owner).await? {
                abandoned.push(AbandonedCrd { name: crd.name_any(), resource_version: crd.resource_version(), owner });
            }
        }
        Ok(abandoned)
    }

    /// Whether a release is uninstalled, which means that helm has no record of it.
    ///
    /// Without rights in the release's namespace, the operator can't read the records. Then the release counts as
    /// installed as long as the namespace exists.
    async fn is_uninstalled(&self, release: &ReleaseKey) -> Result<bool, Error> {
        if self.scope().contains(&release.namespace) {
            return Ok(self.newest_record(release).await?.is_none());
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let found = namespaces.get_metadata_opt(&release.namespace).await;
        Ok(found.with_context(|| format!("reading namespace {}", release.namespace))?.is_none())
    }
}

impl Cluster {
    /// Applies a CRD of a chart. osdpl never deletes a CRD.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails, for example because another field manager owns a field
    /// that the chart changes.
    pub(crate) async fn apply_crd(&self, definition: &CustomResourceDefinition) -> Result<(), Error> {
        let name = definition.name_any();
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let params = PatchParams::apply(MANAGER);
        let applied = api.patch(&name, &params, &Patch::Apply(definition)).await;
        applied.map(drop).with_context(|| format!("applying CRD {name}"))
    }

    /// Makes `release` the owner of a CRD that an uninstalled release of the same name left behind.
    ///
    /// helm reads the owner from two annotations: the name and the namespace of the release. Only the namespace must
    /// change.
    ///
    /// # Errors
    /// Returns an error if the request to the API server fails, for example because someone changed the CRD since osdpl
    /// read it.
    pub(crate) async fn transfer_crd(&self, definition: &AbandonedCrd, release: &ReleaseKey) -> Result<(), Error> {
        let AbandonedCrd { name, resource_version, owner } = definition;
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let patch = json!({"metadata": {
            "annotations": {release::RELEASE_NAMESPACE_ANNOTATION: release.namespace},
            "resourceVersion": resource_version,
        }});
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let patched = api.patch_metadata(name, &params, &Patch::Merge(patch)).await;
        patched
            .map(drop)
            .with_context(|| format!("transferring CRD {name} from the uninstalled release {owner} to {release}"))
    }
}
