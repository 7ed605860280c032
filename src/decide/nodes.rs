//! Plans changes of node labels, and collects the properties of the cluster that validation rules use.

use std::collections::BTreeMap;

use kube::ResourceExt;
use osdpl_values::CollectSorted;

use super::action::{Action, Approval, Planned};
use super::draft::Draft;
use super::kept::Refusal;
use super::requests::{Read, Received, Response};
use osdpl_core::api::{self, LabelRemovalStatus, OpenStackDeploymentSpec};
use osdpl_core::catalog::Catalog;
use osdpl_core::nodes::{
    Inventory, LabelApproval, LabelBatch, LabelChange, LabelRemoval, after_batch, count_labelled_nodes, losses,
    next_batch, removal_target, unfinished,
};
use osdpl_core::observed::{Class, ClusterInfo, LabelLosses, Range};
use osdpl_lint::rule;

/// The reason for the removal of labels from a node.
const REMOVAL_REASON: &str = "the spec no longer assigns the roles of these labels to the node";

/// The reason for a change that only updates the annotation of a node.
const ANNOTATION_REASON: &str = "the annotation does not list exactly the labels that osdpl has set on the node";

/// The role labels that nodes lose, because the spec no longer assigns the roles to them. osdpl removes the labels in
/// batches: in this pass, only from the nodes in `batch`.
#[derive(Default)]
pub(crate) struct LabelRemovals {
    /// The label changes of each node that loses labels, by the name of the node.
    changes: BTreeMap<String, LabelChange>,
    pending: LabelLosses,
    /// The approved label removal that the status stores; `None` if the status stores no removal, or if the removal is
    /// finished.
    stored: Option<LabelRemovalStatus>,
    batch: LabelBatch,
}

/// Plans the changes of role labels on nodes. Adds labels at once, unless the spec sets `approval: Always`. Removes
/// labels only if an earlier pass stored their approval in the status, and only from the nodes of the next batch.
///
/// [`approve_removals`] decides later in this pass whether further removals are approved: an approval names the target
/// hash, and the hash depends on the result of this function.
pub(crate) fn plan_role_labels(draft: &mut Draft<'_>, changes: BTreeMap<String, LabelChange>) -> LabelRemovals {
    let pending = losses(&changes);
    let stored = stored_removal(draft, &pending, &changes);
    let settings = &draft.snapshot.deployment.spec.nodes.rollout;
    let batch = if draft.paused {
        LabelBatch::default()
    } else {
        next_batch(&pending, stored.as_ref(), settings, draft.snapshot.now)
    };
    draft.requeue(batch.requeue_at);
    let (losing, adding): (BTreeMap<_, _>, BTreeMap<_, _>) =
        changes.into_iter().partition(|(name, _)| pending.contains_key(name));
    let additions = losing.iter().filter(|(name, _)| !batch.nodes.contains(*name));
    let additions = additions.filter_map(|(name, change)| Some((name.clone(), change.without_losses()?)));
    let adding = adding.into_iter().chain(additions).collect_map();
    let removing = losing.iter().filter(|(name, _)| batch.nodes.contains(*name));
    let removing = removing.map(|(name, change)| (name.clone(), change.clone())).collect_map();
    let problems =
        attempt_labels(&adding, "the spec assigns these roles to the node", |planned| draft.attempt_for_spec(planned));
    draft.problems.extend(problems);
    let problems = label(draft, &removing, REMOVAL_REASON);
    draft.problems.extend(problems);
    LabelRemovals { changes: losing, pending, stored, batch }
}

/// Returns the labels that nodes lose when the cloud reaches the desired state. The target hash includes these labels,
/// so that a person approves their removal with the hash.
pub(crate) fn label_losses(removals: &LabelRemovals) -> LabelLosses {
    removal_target(&removals.pending, removals.stored.as_ref())
}

/// Decides which removals of labels are approved. Plans each removal that is not approved as an action that waits for
/// approval.
///
/// `agreed` is the target hash of this pass if a person approved it; otherwise `None`.
///
/// An approval takes effect in a later pass: osdpl removes the labels only after the status contains the approval.
pub(crate) fn approve_removals(draft: &mut Draft<'_>, removals: &LabelRemovals, agreed: Option<&str>) -> LabelRemoval {
    let LabelRemovals { changes, pending, stored, batch } = removals;
    let snapshot = draft.snapshot;
    let in_status = snapshot.deployment.status.as_ref().and_then(|status| status.label_removal.as_ref());
    let is_automatic = snapshot.deployment.spec.nodes.rollout.approval == Some(api::Approval::Automatic);
    let by_spec = if is_automatic { LabelApproval::Spec } else { LabelApproval::Missing };
    let approval = agreed.map_or(by_spec, LabelApproval::Person);
    let removal = after_batch(pending, stored.as_ref(), batch, approval, snapshot.now);
    for (name, change) in changes.iter().filter(|(name, _)| removal.awaiting.contains_key(*name)) {
        draft.add(Planned { approval: Approval::Missing, ..label_node(name, change, REMOVAL_REASON) });
    }
    if snapshot.assumed.is_some() {
        // `osdpl plan` also lists the later batches of an approved removal, which the operator plans only in later
        // passes.
        let later = |name: &String| !removal.awaiting.contains_key(name) && !batch.nodes.contains(name);
        for (name, change) in changes.iter().filter(|(name, _)| later(name)) {
            draft.add(label_node(name, change, REMOVAL_REASON));
        }
    }
    if !is_stored(&removal, in_status) && !draft.paused {
        draft.requeue([snapshot.now]);
    }
    draft.kept.label_removal.clone_from(&removal.status);
    removal
}

/// Whether the status contains the approved label removal, so that osdpl no longer needs the annotation with the
/// approval.
pub(crate) fn is_stored(removal: &LabelRemoval, stored: Option<&LabelRemovalStatus>) -> bool {
    let is_same = |stored: &LabelRemovalStatus, status: &LabelRemovalStatus| {
        (&stored.nodes, &stored.hash) == (&status.nodes, &status.hash)
    };
    removal.status.as_ref().is_none_or(|status| stored.is_some_and(|stored| is_same(stored, status)))
}

/// Returns the approved label removal that the status stores; `None` if the status stores no removal, or if the removal
/// is finished.
///
/// If osdpl has already removed labels from a further batch of nodes, but the status does not show this batch yet, the
/// result includes the batch.
fn stored_removal(
    draft: &Draft<'_>,
    pending: &LabelLosses,
    changes: &BTreeMap<String, LabelChange>,
) -> Option<LabelRemovalStatus> {
    let deployment = &draft.snapshot.deployment;
    let stored = deployment.status.as_ref().and_then(|status| status.label_removal.as_ref());
    let newer = draft.snapshot.kept.label_removal.as_ref();
    let newer = newer.filter(|newer| stored.is_some_and(|stored| stored.nodes == newer.nodes));
    let approval = deployment.annotations().get(api::APPROVE).map(String::as_str);
    let nodes = draft.snapshot.nodes.as_deref().unwrap_or(const { &Inventory::new() });
    unfinished(pending, newer.or(stored), nodes, changes, approval)
}

/// Plans to change the labels of nodes.
///
/// Returns the API server's message about each change that it refused in an earlier pass. The function plans a refused
/// change again only after the retry time of the refusal.
pub(crate) fn label(draft: &mut Draft<'_>, changes: &BTreeMap<String, LabelChange>, reason: &str) -> Vec<String> {
    attempt_labels(changes, reason, |planned| draft.attempt(planned))
}

/// Passes the change of each node's labels to `attempt`. Returns the messages of the refusals that it gets back.
fn attempt_labels<'a>(
    changes: &BTreeMap<String, LabelChange>,
    reason: &str,
    mut attempt: impl FnMut(Planned) -> Option<&'a Refusal>,
) -> Vec<String> {
    let refusals = changes.iter().filter_map(|(name, change)| attempt(label_node(name, change, reason)));
    refusals.map(|refusal| refusal.message.clone()).collect()
}

/// Returns the action that changes the labels or the annotation of a node. If only the annotation changes, the action
/// has the reason [`ANNOTATION_REASON`] instead of `reason`.
pub(crate) fn label_node(name: &str, change: &LabelChange, reason: &str) -> Planned {
    let reason = if change.changes_labels() { reason } else { ANNOTATION_REASON };
    Planned::new(Action::LabelNode { name: name.to_owned(), change: change.clone() }, reason)
}

/// Returns the properties of the cluster that validation rules use: for each label, the number of nodes that have it
/// after `changes`; the storage classes; and the address ranges of pods and Services.
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
/// The address ranges of Services hardly ever change. So osdpl reads them only if the features in the spec contain IP
/// networks, such as `10.0.0.0/24`, and only once per generation of the spec.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tests::{complete, snapshot};
    use osdpl_core::observed::Node;
    use serde_json::json;

    #[test]
    fn changes_of_the_annotation_have_their_own_reason() {
        let roles = json!({"switch": {"names": ["n1"], "labels": {"switch": "on"}}});
        let mut snapshot = snapshot(json!({"spec": {"approval": "Always", "nodes": {"roles": roles}}}));
        let labels = [("switch".to_owned(), "on".to_owned())].into();
        let node = Node::new(Some("1"), Some(&labels), None);
        snapshot.nodes = Some(Arc::new([("n1".to_owned(), node)].into()));
        let plan = complete(&mut snapshot);
        let of_node = plan.actions.iter().find(|planned| matches!(planned.action, Action::LabelNode { .. })).unwrap();
        assert_eq!((of_node.reason.as_str(), of_node.approval), (ANNOTATION_REASON, Approval::Missing));
        assert_eq!(plan.awaiting_objects, [format!("osdpl would {}", of_node.action)]);
    }
}
