//! Provides the catalogue and the cluster's data to the webhook, which validates a spec before it is stored.

use futures::FutureExt as _;

use super::{CatalogWithFindings, Context};
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;
use osdpl_core::nodes;
use osdpl_core::observed::ClusterInfo;
use osdpl_lint::rule;

impl Context {
    /// Returns the catalogue with the additions that a spec in this namespace names, and the findings about these
    /// additions.
    ///
    /// The function reads the additions from the API server. It does not change the catalogue that passes use.
    pub async fn catalog_for(&self, namespace: &str, spec: &OpenStackDeploymentSpec) -> CatalogWithFindings {
        self.catalog.extended_with(&self.cluster.read_additions(namespace, &spec.catalog, |_| None).await).await
    }

    /// Returns the properties of the cluster that the webhook's checks of a spec use.
    ///
    /// The result contains the nodes and storage classes from the watches. If the spec names networks, this function
    /// reads the networks of Services from the API server. If the watches have not completed their first lists, the
    /// result is empty.
    pub async fn cluster_info_for(&self, spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> ClusterInfo {
        // Return nothing before the first lists are complete: an incomplete list of nodes would cause wrong findings.
        if self.tasks.ready().now_or_never().is_none() {
            return ClusterInfo::default();
        }
        let observed = self.tasks.observe();
        let changes =
            observed.nodes().map(|all| nodes::build_inventory(spec, catalog, all).changes).unwrap_or_default();
        let mut services = Vec::new();
        if rule::names_networks(spec) {
            match self.cluster.service_networks().await {
                Ok(networks) => services = networks,
                Err(error) => tracing::info!(%error, "the webhook can't check for overlaps with networks of Services"),
            }
        }
        osdpl_decide::cluster_info(spec, catalog, observed.nodes(), observed.storage_classes(), &changes, services)
    }
}
