//! The cluster that a cloud runs in, for whoever evaluates a spec beside the passes.

use futures::FutureExt as _;

use super::Context;
use crate::cluster::Reader;
use crate::tasks::Observation;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;
use osdpl_core::nodes;
use osdpl_core::observed::ClusterInfo;
use osdpl_lint::rule;

/// The cluster as it is now, with the labels that the spec means for its nodes.
async fn read(
    reader: &Reader,
    (spec, catalog): (&OpenStackDeploymentSpec, &Catalog),
    seen: &Observation,
    unknown: &mut Vec<String>,
) -> ClusterInfo {
    let changes = seen.nodes().map(|all| nodes::build_inventory(spec, catalog, all).changes).unwrap_or_default();
    let mut services = Vec::new();
    if rule::names_networks(spec) {
        match reader.service_networks().await {
            Ok(read) => services = read,
            Err(error) => unknown.push(format!("whether networks overlap those of Services: {error}")),
        }
    }
    osdpl_decide::site((spec, catalog), (seen.nodes(), seen.storage_classes()), &changes, services)
}

impl Context {
    /// The cluster for a spec that is not applied yet, by what the operator watches and, where the spec names networks, one read of those of Services;
    /// what is not known yet is left out.
    pub async fn site_for(&self, spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> ClusterInfo {
        // Half a list of nodes is none.
        if self.tasks.ready().now_or_never().is_none() {
            return ClusterInfo::default();
        }
        let mut unknown = Vec::new();
        let site = read(self.cluster.reader(), (spec, catalog), &self.tasks.observe(), &mut unknown).await;
        for unknown in unknown {
            tracing::info!(unknown, "the webhook evaluates without it");
        }
        site
    }
}
