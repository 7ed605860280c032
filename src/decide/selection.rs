//! Selects the releases of a spec, and stores the selection for later passes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;

use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::Selection;
use osdpl_core::observed::ReleaseKey;
use osdpl_lint::Input;
use osdpl_values::CollectSorted;
use osdpl_values::expr::Work;

/// Returns the services and releases that `spec` selects for `deployment`, with findings about the spec.
pub fn selection(deployment: &OpenStackDeployment, spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> Selection {
    Input::of_resource(deployment, spec, catalog).select()
}

/// A selection of services and releases, with the data from which osdpl made it.
pub(crate) struct Selected {
    annotations: BTreeMap<String, String>,
    spec: OpenStackDeploymentSpec,
    deployed: Option<String>,
    catalog: Arc<Catalog>,
    pub(crate) selection: Arc<Selection>,
    /// The work that osdpl spent on the expressions of the catalogue to make `selection`. The work of each pass is
    /// limited.
    pub(crate) used: Work,
}

impl Selected {
    pub(crate) fn new(deployment: &OpenStackDeployment, catalog: &Arc<Catalog>) -> Self {
        let selection = selection(deployment, &deployment.spec, catalog);
        Self {
            annotations: deployment.annotations().clone(),
            spec: deployment.spec.clone(),
            deployed: deployed(deployment).cloned(),
            catalog: Arc::clone(catalog),
            used: selection.scope.used(),
            selection: Arc::new(selection),
        }
    }

    /// Whether a new selection from `deployment` and `catalog` would equal this selection.
    ///
    /// The function compares all data that [`Input::of_resource`] reads.
    pub(crate) fn is_of(&self, deployment: &OpenStackDeployment, catalog: &Arc<Catalog>) -> bool {
        Arc::ptr_eq(&self.catalog, catalog)
            && self.selection.name == deployment.name_any()
            && self.selection.namespace == deployment.namespace().unwrap_or_default()
            && self.annotations == *deployment.annotations()
            && self.deployed.as_ref() == deployed(deployment)
            && self.spec == deployment.spec
    }
}

fn deployed(deployment: &OpenStackDeployment) -> Option<&String> {
    deployment.status.as_ref()?.openstack_release.deployed.as_ref()
}

/// Returns the catalogue name of each release in the catalogue, even if the spec does not select the release. Each key
/// contains the namespace and name that the helm release has or would have.
pub fn release_names(selection: &Selection) -> BTreeMap<ReleaseKey, String> {
    let all = selection.scope.variable("releases").and_then(|releases| releases.as_object()).into_iter().flatten();
    all.map(|(name, release)| {
        let text = |field: &str| release[field].as_str().unwrap_or_default().to_owned();
        (ReleaseKey::new(text("namespace"), text("name")), name.clone())
    })
    .collect_map()
}

/// Returns the catalogue names of the releases whose own field `paused` in the spec is `true`.
pub(crate) fn paused_releases(spec: &OpenStackDeploymentSpec) -> BTreeSet<String> {
    let releases = spec.services.values().flat_map(|service| &service.releases);
    releases.filter(|(_, release)| release.paused).map(|(name, _)| name.clone()).collect_set()
}
