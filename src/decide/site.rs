//! The cluster that a cloud runs in, as far as rules ask about it.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::requests::{Answer, Answered, Read};
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;
use osdpl_core::nodes::{self, Inventory, LabelChange};
use osdpl_core::observed::{Class, ClusterInfo, Range};
use osdpl_lint::rule;

/// The cluster as a spec sees it: nodes with the labels that they are about to have, classes, and the networks of Services and pods.
pub fn site(
    (spec, catalog): (&OpenStackDeploymentSpec, &Catalog),
    (nodes, classes): (Option<&Inventory>, Option<&[Class]>),
    changes: &BTreeMap<String, LabelChange>,
    services: Vec<Range>,
) -> ClusterInfo {
    let mut networks = services;
    if rule::names_networks(spec) {
        let range = |name: &String, cidr: &String| {
            let description = format!("the pods of node {name}");
            Range { description, is_of_pods: true, cidr: cidr.clone() }
        };
        let nodes = nodes.into_iter().flatten();
        networks.extend(nodes.flat_map(|(name, node)| node.pod_networks.iter().map(move |cidr| range(name, cidr))));
    }
    let census = |all| nodes::count_labelled_nodes(all, changes, rule::node_labels(spec, catalog));
    ClusterInfo { nodes: nodes.map(census), classes: classes.map(<[_]>::to_vec), networks }
}

/// The same for a decision. The networks of Services hardly ever change: they are read when a spec that names networks is new.
pub fn decided(
    draft: &mut Draft<'_>,
    (spec, catalog): (&OpenStackDeploymentSpec, &Catalog),
    changes: &BTreeMap<String, LabelChange>,
) -> ClusterInfo {
    let mut services = Vec::new();
    if rule::names_networks(spec) {
        let generation = draft.snapshot.deployment.metadata.generation.unwrap_or_default();
        let answered = draft.read(Read::ServiceNetworks(generation));
        if let Some(Answer::Networks(Ok(read))) = answered.map(|answered| &answered.answer) {
            services.clone_from(read);
        }
        draft.wake(answered.and_then(Answered::until));
    }
    let snapshot = draft.snapshot;
    site((spec, catalog), (snapshot.nodes.as_deref(), snapshot.classes.as_deref()), changes, services)
}
