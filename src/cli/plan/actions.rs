//! Lists the changes of node labels in a plan, and the actions that concern no release, such as writes of objects and
//! evictions.

use std::fmt;

use serde::Serialize;

use osdpl_core::nodes::LabelChange;
use osdpl_decide::{Action, Approval, Planned};
use osdpl_operator::controller::Preview;

/// The end of a line about a change that waits for approval.
pub(super) const WAITS: &str = ": waits for approval (osdpl approve)";

/// The labels that one node would gain and lose.
#[derive(Serialize)]
pub(crate) struct NodeLabels {
    pub name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gains: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<String>,
    /// Whether the change waits for approval.
    #[serde(rename = "awaitsApproval", skip_serializing_if = "std::ops::Not::not")]
    pub awaits_approval: bool,
}

/// An action of the plan that is neither the step of a release nor a change of node labels, for example a write of an
/// object or an eviction.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ActionOutput {
    pub action: String,
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the action waits for approval.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub awaits_approval: bool,
}

impl fmt::Display for ActionOutput {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let approval = if self.awaits_approval { WAITS } else { "" };
        write!(formatter, "{}: {}{approval}", self.action, self.reason)
    }
}

/// Returns all actions of the plan except the steps of releases, the changes of node labels, and the addition of the
/// finalizer. An action on a Secret shows the Secret's name and keys, but not its contents.
pub(crate) fn other_actions(preview: &Preview) -> Vec<ActionOutput> {
    let others = preview.actions.iter().filter(|planned| {
        !matches!(planned.action, Action::Release { .. } | Action::LabelNode { .. } | Action::AddFinalizer)
    });
    let output = |planned: &Planned| {
        let (kind, namespace, name) = match planned.action.object() {
            Some((kind, namespace, name)) => (Some(kind), Some(namespace), Some(name)),
            None => (None, None, None),
        };
        let scrub = |text: String| preview.scrubber.scrub(&text);
        let (action, reason) = (scrub(planned.action.to_string()), scrub(planned.reason.clone()));
        let awaits_approval = planned.approval == Approval::Missing;
        ActionOutput { action, reason, kind, namespace, name, awaits_approval }
    };
    others.map(output).collect()
}

/// Returns the nodes whose labels would change, now or after a person's approval. A node has two entries if only some
/// of its labels can change without approval.
pub(crate) fn node_labels(preview: &Preview) -> Vec<NodeLabels> {
    let labels = |awaits_approval: bool| {
        move |(name, change): (&String, &LabelChange)| {
            let gains = change.gains.iter().filter(|label| !awaits_approval || !is_immediate(preview, name, label));
            let (name, gains, losses) = (name.clone(), gains.cloned().collect(), change.losses.clone());
            change.changes_labels().then_some(NodeLabels { name, gains, losses, awaits_approval })
        }
    };
    let now = preview.nodes.iter().filter_map(labels(false));
    now.chain(preview.awaiting_nodes.iter().filter_map(labels(true))).collect()
}

/// Whether the operator adds the label to the node without approval.
fn is_immediate(preview: &Preview, node: &str, label: &String) -> bool {
    preview.nodes.get(node).is_some_and(|change| change.gains.contains(label))
}
