//! The catalogue and the cluster for the webhook, which validates a spec before it is stored.

use std::sync::Arc;

use futures::FutureExt as _;

use super::Context;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;
use osdpl_core::finding::Finding;
use osdpl_core::nodes;
use osdpl_core::observed::ClusterInfo;
use osdpl_lint::rule;

impl Context {
    /// Returns the catalogue for a resource in any namespace, with the additions there, and the findings about them.
    ///
    /// It waits until additions are listed. The catalogue of passes does not change.
    pub async fn catalog_for(&self, namespace: &str) -> (Arc<Catalog>, Vec<Finding>) {
        self.inputs.wait_for_additions().await;
        let additions = self.inputs.additions(namespace).unwrap_or_default();
        self.catalog.extended_with(additions, self.inputs.additions_forbidden().as_deref()).await
    }

    /// Returns the cluster for a spec that is not stored yet.
    ///
    /// It consists of cached nodes and storage classes and, if the spec names networks, one read of the networks of
    /// Services. Facts that are not known yet are left out.
    pub async fn cluster_info_for(&self, spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> ClusterInfo {
        // An incomplete list of nodes would cause wrong findings.
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
