//! The summary of a plan, and its node labels.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::shown::{Kind, PlanReport};
use osdpl_core::api::OpenStackDeploymentStatus;
use osdpl_core::nodes::format_names;
use osdpl_core::rollout;
use osdpl_core::status::rollout_line;
use osdpl_decide::{Action, Planned};
use osdpl_operator::controller::Preview;

/// The label changes of one node.
#[derive(Serialize)]
pub struct NodeLine {
    pub name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gains: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<String>,
}

/// An action beside the steps of releases and the labels of nodes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionLine {
    pub action: String,
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Returns the actions beside the steps of releases and the labels of nodes. Of a Secret only its name and keys are shown.
pub(super) fn actions(preview: &Preview) -> Vec<ActionLine> {
    let others = preview.actions.iter().filter(|planned| {
        !matches!(planned.action, Action::Release { .. } | Action::LabelNode { .. } | Action::AddFinalizer)
    });
    let line = |planned: &Planned| {
        let (kind, namespace, name) = match planned.action.object() {
            Some((kind, namespace, name)) => (Some(kind), Some(namespace), Some(name)),
            None => (None, None, None),
        };
        let scrub = |text: String| preview.scrubber.scrub(&text);
        let (action, reason) = (scrub(planned.action.to_string()), scrub(planned.reason.clone()));
        ActionLine { action, reason, kind, namespace, name }
    };
    others.map(line).collect()
}

/// Returns the nodes whose labels would change.
pub(super) fn nodes(preview: &Preview) -> Vec<NodeLine> {
    let line = |(name, change): (&String, &osdpl_core::nodes::LabelChange)| NodeLine {
        name: name.clone(),
        gains: change.gains.clone(),
        losses: change.losses.clone(),
    };
    preview.nodes.iter().filter(|(_, change)| change.changes_labels()).map(line).collect()
}

impl PlanReport {
    /// Returns the label changes as text; nodes with the same changes share a line.
    pub(super) fn labels(&self) -> String {
        let mut groups: BTreeMap<(&[String], &[String]), Vec<&str>> = BTreeMap::new();
        for NodeLine { name, gains, losses } in &self.nodes {
            groups.entry((gains, losses)).or_default().push(name);
        }
        let mut text = String::new();
        for ((gains, losses), names) in groups {
            let gain = gains.iter().map(|label| format!("+{label}"));
            let labels: Vec<_> = gain.chain(losses.iter().map(|label| format!("-{label}"))).collect();
            let count = names.len();
            let names = format_names(names, count);
            let nodes = if count == 1 { "node" } else { "nodes" };
            let _ = writeln!(text, "{nodes} {names}: labels {}", labels.join(" "));
        }
        text
    }

    /// Returns the releases and rollouts that wait for approval, and adds notes about active rollouts.
    pub(super) fn awaiting(&mut self, preview: &Preview, status: Option<&OpenStackDeploymentStatus>) -> Vec<String> {
        let releases = preview.plan.awaiting_approval().map(|(name, _)| name.to_owned());
        let rollouts = status.map(|status| &status.rollouts);
        let active = rollouts.into_iter().flatten().filter(|(_, rollout)| rollout.phase.is_active());
        self.notes.extend(active.map(|(name, rollout)| format!("rollout of {}", rollout_line(name, rollout))));
        releases
            .chain(rollouts.into_iter().flat_map(rollout::awaiting_approval).map(|(name, _)| name.clone()))
            .collect()
    }

    /// Returns the numbers of releases by kind of step.
    pub(super) fn summary(&self) -> String {
        let count = |kind: Kind| self.releases.iter().filter(|line| line.kind == kind).count();
        if self.is_offline {
            let rest = if self.refused { ", once the errors above are fixed" } else { "" };
            return format!("{} would be installed{rest}.", releases(self.releases.len()));
        }
        let (ready, act, settle, wait) = (count(Kind::Ready), count(Kind::Do), count(Kind::Settle), count(Kind::Wait));
        match (act, settle, wait) {
            (0, 0, 0) => format!(
                "Nothing to do: {} ready.",
                if ready == 1 { "1 release is".into() } else { format!("{ready} releases are") }
            ),
            _ => format!(
                "{} would be changed now; waiting: {wait}, becoming ready: {settle}, ready: {ready}.",
                releases(act)
            ),
        }
    }
}

fn releases(count: usize) -> String {
    if count == 1 { "1 release".into() } else { format!("{count} releases") }
}
