//! Plans the labels of nodes, and describes the cluster for validation rules.

use std::collections::BTreeMap;

use super::action::{Action, Planned};
use super::draft::Draft;
use super::requests::{Read, Received, Response};
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;
use osdpl_core::nodes::{Inventory, LabelChange, count_labelled_nodes};
use osdpl_core::observed::{Class, ClusterInfo, Range};
use osdpl_lint::rule;

/// Plans to change the labels of nodes; returns the messages of the API server about changes that it refused.
pub(crate) fn label(draft: &mut Draft<'_>, changes: &BTreeMap<String, LabelChange>, reason: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, change) in changes {
        let action = Action::LabelNode { name: name.clone(), change: change.clone() };
        let refusal = draft.attempt(Planned::new(action, reason));
        problems.extend(refusal.map(|refusal| refusal.message.clone()));
    }
    problems
}

/// Returns the properties of the cluster that validation rules use: the number of nodes with each label after
/// `changes`, the storage classes, and the networks of pods and Services.
pub fn cluster_info(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    nodes: Option<&Inventory>,
    classes: Option<&[Class]>,
    changes: &BTreeMap<String, LabelChange>,
    service_networks: Vec<Range>,
) -> ClusterInfo {
    let mut networks = service_networks;
    if rule::names_networks(spec) {
        let range = |name: &String, cidr: &String| {
            let description = format!("the pods of node {name}");
            Range { description, is_of_pods: true, cidr: cidr.clone() }
        };
        let nodes = nodes.into_iter().flatten();
        networks.extend(nodes.flat_map(|(name, node)| node.pod_networks.iter().map(move |cidr| range(name, cidr))));
    }
    let count = |all| count_labelled_nodes(all, changes, rule::node_labels(spec, catalog));
    ClusterInfo { nodes: nodes.map(count), classes: classes.map(<[_]>::to_vec), networks }
}

/// Returns the properties of the cluster in the snapshot that validation rules use; see [`cluster_info`].
///
/// The networks of Services hardly ever change. osdpl reads these networks only if the spec names networks, and only
/// once per generation of the spec.
pub(crate) fn read_cluster_info(
    draft: &mut Draft<'_>,
    spec: &OpenStackDeploymentSpec,
    changes: &BTreeMap<String, LabelChange>,
) -> ClusterInfo {
    let mut service_networks = Vec::new();
    if rule::names_networks(spec) {
        let generation = draft.snapshot.deployment.metadata.generation.unwrap_or_default();
        let received = draft.read(Read::ServiceNetworks(generation));
        if let Some(Response::Networks(Ok(read))) = received.map(|received| &received.response) {
            service_networks.clone_from(read);
        }
        draft.requeue(received.and_then(Received::until));
    }
    let (nodes, classes) = (draft.snapshot.nodes.as_deref(), draft.snapshot.classes.as_deref());
    cluster_info(spec, draft.catalog(), nodes, classes, changes, service_networks)
}
