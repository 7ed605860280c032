//! The cluster that a cloud runs in, as far as rules ask about it.

use std::collections::BTreeMap;

use futures::FutureExt as _;

use super::Context;
use super::memory::Memory;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::Catalog;
use crate::cluster::Cluster;
use crate::nodes::{self, Change};
use crate::observed::{Range, Site};
use crate::rule;
use crate::tasks::Seen;

/// What is seen of it, and the networks of Services.
pub fn site(
    (spec, catalog): (&OpenStackDeploymentSpec, &Catalog),
    seen: &Seen,
    changes: &BTreeMap<String, Change>,
    services: Vec<Range>,
) -> Site {
    let mut networks = services;
    if rule::names_networks(spec) {
        let nodes = seen.nodes().into_iter().flatten();
        let range =
            |name: &String, cidr: &String| Range { what: format!("the pods of node {name}"), cidr: cidr.clone() };
        networks.extend(nodes.flat_map(|(name, node)| node.pod_networks.iter().map(move |cidr| range(name, cidr))));
    }
    let census = |all| nodes::census(all, changes, rule::node_labels(spec, catalog));
    Site { nodes: seen.nodes().map(census), classes: seen.classes().map(<[_]>::to_vec), networks }
}

/// The cluster as it is now beside the operator, with the labels that the spec means for its nodes.
pub async fn looked(
    cluster: &Cluster,
    (spec, catalog): (&OpenStackDeploymentSpec, &Catalog),
    seen: &Seen,
    unknown: &mut Vec<String>,
) -> Site {
    let changes = seen.nodes().map(|all| nodes::survey(spec, catalog, all).changes).unwrap_or_default();
    let mut services = Vec::new();
    if rule::names_networks(spec) {
        match cluster.service_networks().await {
            Ok(read) => services = read,
            Err(error) => unknown.push(format!("whether networks overlap those of Services: {error}")),
        }
    }
    site((spec, catalog), seen, &changes, services)
}

impl Context {
    /// The cluster for a spec that nobody has applied yet, by what the operator watches and, where the spec names networks, one look at those of
    /// Services; what is not known yet is left out.
    pub async fn site_for(&self, spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> Site {
        // Half a list of nodes is none.
        if self.tasks.ready().now_or_never().is_none() {
            return Site::default();
        }
        let mut unknown = Vec::new();
        let site = looked(&self.cluster, (spec, catalog), &self.tasks.observe(), &mut unknown).await;
        for unknown in unknown {
            tracing::info!(unknown, "the webhook judges without it");
        }
        site
    }

    /// The cluster as it is now. The networks of Services hardly ever change: they are read when a spec is new, and only where it names networks.
    pub(super) async fn site(
        &self,
        (spec, generation): (&OpenStackDeploymentSpec, i64),
        changes: &BTreeMap<String, Change>,
        memory: &mut Memory,
    ) -> Site {
        if rule::names_networks(spec) && memory.services.as_ref().is_none_or(|(known, _)| *known != generation) {
            let read = self.cluster.service_networks().await;
            let read = read.unwrap_or_else(|error| {
                tracing::info!(%error, "whether networks overlap those of Services is not known");
                Vec::new()
            });
            memory.services = Some((generation, read));
        }
        let services = memory.services.as_ref().map(|(_, ranges)| ranges.clone()).unwrap_or_default();
        site((spec, &self.catalog()), &self.tasks.observe(), changes, services)
    }
}
