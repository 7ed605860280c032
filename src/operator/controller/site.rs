//! The cluster that a cloud runs in, as far as rules ask about it.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::Context;
use super::memory::Memory;
use crate::cluster::Cluster;
use crate::tasks::Observation;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;
use osdpl_core::nodes::{self, LabelChange};
use osdpl_core::observed::{ClusterInfo, Range};
use osdpl_lint::rule;

/// How long it takes until networks that could not be read are asked for again.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// What is seen of it, and the networks of Services.
pub fn site(
    (spec, catalog): (&OpenStackDeploymentSpec, &Catalog),
    seen: &Observation,
    changes: &BTreeMap<String, LabelChange>,
    services: Vec<Range>,
) -> ClusterInfo {
    let mut networks = services;
    if rule::names_networks(spec) {
        let nodes = seen.nodes().into_iter().flatten();
        let range = |name: &String, cidr: &String| {
            let what = format!("the pods of node {name}");
            Range { description: what, is_of_pods: true, cidr: cidr.clone() }
        };
        networks.extend(nodes.flat_map(|(name, node)| node.pod_networks.iter().map(move |cidr| range(name, cidr))));
    }
    let census = |all| nodes::count_labelled_nodes(all, changes, rule::node_labels(spec, catalog));
    ClusterInfo { nodes: seen.nodes().map(census), classes: seen.storage_classes().map(<[_]>::to_vec), networks }
}

/// The cluster as it is now beside the operator, with the labels that the spec means for its nodes.
pub async fn looked(
    cluster: &Cluster,
    (spec, catalog): (&OpenStackDeploymentSpec, &Catalog),
    seen: &Observation,
    unknown: &mut Vec<String>,
) -> ClusterInfo {
    let changes = seen.nodes().map(|all| nodes::build_inventory(spec, catalog, all).changes).unwrap_or_default();
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
    pub async fn site_for(&self, spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> ClusterInfo {
        // Half a list of nodes is none.
        if self.tasks.ready().now_or_never().is_none() {
            return ClusterInfo::default();
        }
        let mut unknown = Vec::new();
        let site = looked(&self.cluster, (spec, catalog), &self.tasks.observe(), &mut unknown).await;
        for unknown in unknown {
            tracing::info!(unknown, "the webhook judges without it");
        }
        site
    }

    /// The cluster as it is now, and when to look again. The networks of Services hardly ever change: they are read when a spec is new, and only
    /// where it names networks; what could not be read is no answer.
    pub(super) async fn site(
        &self,
        (spec, generation): (&OpenStackDeploymentSpec, i64),
        changes: &BTreeMap<String, LabelChange>,
        memory: &mut Memory,
    ) -> (ClusterInfo, Option<Timestamp>) {
        if rule::names_networks(spec) && memory.networks.is_due(generation, super::now()) {
            match self.cluster.service_networks().await {
                Ok(read) => memory.networks = Networks { generation: Some(generation), read, again: None },
                Err(error) => {
                    tracing::info!(%error, "whether networks overlap those of Services is not known yet");
                    memory.networks.again = super::now().checked_add(AGAIN).ok();
                }
            }
        }
        let again = memory.networks.again.filter(|_| rule::names_networks(spec));
        (site((spec, &self.catalog()), &self.tasks.observe(), changes, memory.networks.read.clone()), again)
    }
}

/// The networks of Services, as they were read.
#[derive(Default)]
pub struct Networks {
    /// The generation of the spec for which they were read last.
    generation: Option<i64>,
    read: Vec<Range>,
    /// When to try again what could not be read.
    again: Option<Timestamp>,
}

impl Networks {
    fn is_due(&self, generation: i64, now: Timestamp) -> bool {
        self.generation != Some(generation) && self.again.is_none_or(|again| again <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_that_could_not_be_read_are_asked_for_again_and_those_that_were_are_not() {
        let now = Timestamp::UNIX_EPOCH;
        let mut networks = Networks::default();
        assert!(networks.is_due(1, now));
        networks.again = Some(now.checked_add(AGAIN).unwrap());
        assert!(!networks.is_due(1, now), "not in each pass");
        assert!(networks.is_due(1, now.checked_add(AGAIN).unwrap()));
        networks = Networks { generation: Some(1), ..Networks::default() };
        assert!(!networks.is_due(1, now));
        assert!(networks.is_due(2, now), "another spec");
    }
}
