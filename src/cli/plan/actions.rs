//! Lists the changes of node labels in a plan, and the actions that concern no release, such as writes of objects and
//! evictions.

use std::collections::BTreeSet;
use std::fmt;

use kube::{Resource, ResourceExt};
use serde::Serialize;

use osdpl_core::api::{NODE_LABELS, OpenStackDeployment};
use osdpl_core::nodes::LabelChange;
use osdpl_decide::{Action, Approval, Planned};
use osdpl_operator::controller::Preview;
use osdpl_values::CollectSorted;

/// The end of a line about a change that waits for approval.
pub(super) const WAITS: &str = ": waits for approval (osdpl approve)";

/// An object that osdpl itself would write or delete.
#[derive(Serialize)]
pub(crate) struct ObjectOutput {
    pub kind: String,
    /// The namespace of the object; absent for a cluster-scoped object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

/// The labels that one node would gain and lose. If there are none, only the annotation that lists osdpl's labels on
/// the node changes.
#[derive(Serialize)]
pub(crate) struct NodeLabels {
    pub name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gains: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<String>,
    pub reason: String,
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectOutput>,
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

impl NodeLabels {
    /// Returns the change without the name of the node, as text.
    pub(super) fn change(&self) -> String {
        let added = self.gains.iter().map(|label| format!(" +{label}"));
        let labels: String = added.chain(self.losses.iter().map(|label| format!(" -{label}"))).collect();
        let what = if labels.is_empty() { format!("annotation {NODE_LABELS}") } else { format!("labels{labels}") };
        let approval = if self.awaits_approval { WAITS } else { "" };
        format!("{what}: {}{approval}", self.reason)
    }
}

/// Returns all actions of the plan except the steps of releases and the changes of node labels. An action on a Secret
/// shows the Secret's name and keys, but not its contents.
pub(crate) fn other_actions(preview: &Preview, deployment: &OpenStackDeployment) -> Vec<ActionOutput> {
    let others = preview
        .actions
        .iter()
        .filter(|planned| !matches!(planned.action, Action::Release { .. } | Action::LabelNode { .. }));
    let output = |planned: &Planned| {
        let scrub = |text: String| preview.scrubber.scrub(&text);
        let (action, reason) = (scrub(planned.action.to_string()), scrub(planned.reason.clone()));
        let awaits_approval = planned.approval == Approval::Missing;
        ActionOutput { action, reason, objects: objects(&planned.action, preview, deployment), awaits_approval }
    };
    others.map(output).collect()
}

/// Returns the objects that osdpl itself would change or delete in the step of a release. The list does not contain the
/// objects that helm changes.
pub(crate) fn objects_of_release(name: &str, preview: &Preview, deployment: &OpenStackDeployment) -> Vec<ObjectOutput> {
    let is_own = |action: &&Action| matches!(action, Action::Release { name: other, .. } if other == name);
    let own = preview.actions.iter().map(|planned| &planned.action).filter(is_own);
    own.flat_map(|action| objects(action, preview, deployment)).collect()
}

fn objects(action: &Action, preview: &Preview, deployment: &OpenStackDeployment) -> Vec<ObjectOutput> {
    if matches!(action, Action::AddFinalizer | Action::RemoveFinalizer | Action::Annotate(_)) {
        let kind = OpenStackDeployment::kind(&()).into_owned();
        let (namespace, name) = (deployment.namespace().unwrap_or_default(), deployment.name_any());
        return vec![ObjectOutput { kind, namespace, name }];
    }
    let objects = action.objects(&preview.observed).into_iter();
    objects.map(|(kind, namespace, name)| ObjectOutput { kind, namespace, name }).collect()
}

/// Returns the changes of node labels in the plan: those that the operator makes now, and those that it makes later,
/// for example after a person's approval. A node has two entries if only some of its labels change now.
pub(crate) fn node_labels(actions: &[Planned]) -> Vec<NodeLabels> {
    let changes = || {
        actions.iter().filter_map(|planned| match &planned.action {
            Action::LabelNode { name, change } => Some((planned, name, change)),
            _ => None,
        })
    };
    // If some labels of a node must wait until osdpl can remove them, the plan has two changes of this node: one that
    // only adds labels, and one that waits and contains the added labels, too. Do not list the added labels twice.
    let additions = changes().filter(|(_, _, change)| change.losses.is_empty());
    let added: BTreeSet<(&String, &String)> =
        additions.flat_map(|(_, name, change)| change.gains.iter().map(move |label| (name, label))).collect_set();
    let output = |(planned, name, change): (&Planned, &String, &LabelChange)| {
        let is_listed = |label: &String| !change.losses.is_empty() && added.contains(&(name, label));
        NodeLabels {
            name: name.clone(),
            gains: change.gains.iter().filter(|label| !is_listed(label)).cloned().collect(),
            losses: change.losses.clone(),
            reason: planned.reason.clone(),
            awaits_approval: planned.approval == Approval::Missing,
        }
    };
    changes().map(output).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::report::PlanReport;

    fn labels(node: &str, gains: &[&str], losses: &[&str], reason: &str, approval: Approval) -> Planned {
        let owned = |labels: &[&str]| labels.iter().map(|label| (*label).to_owned()).collect();
        let change = LabelChange {
            uid: String::new(),
            owner: String::new(),
            labels: [].into(),
            gains: owned(gains),
            losses: owned(losses),
        };
        let action = Action::LabelNode { name: node.to_owned(), change };
        Planned { action, reason: reason.to_owned(), approval, events: Vec::new() }
    }

    #[test]
    fn lists_every_change_of_labels_with_its_reason() {
        let actions = [
            labels("n1", &["new=on"], &[], "a role", Approval::NotNeeded),
            labels("n3", &["new=on"], &[], "a role", Approval::NotNeeded),
            labels("n2", &[], &[], "another annotation", Approval::NotNeeded),
            labels("n1", &["new=on", "size=2"], &["size=1"], "no role", Approval::Missing),
        ];
        let report = PlanReport { nodes: node_labels(&actions), ..PlanReport::default() };
        assert_eq!(
            report.node_labels(),
            "node n2: annotation osdpl.dev/labels: another annotation\n\
             nodes n1, n3: labels +new=on: a role\n\
             node n1: labels +size=2 -size=1: no role: waits for approval (osdpl approve)\n"
        );
        let json = serde_json::to_value(&report.nodes[3]).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "name": "n1", "gains": ["size=2"], "losses": ["size=1"], "reason": "no role", "awaitsApproval": true,
            })
        );
    }
}
