//! A plan in one sentence, and its nodes in a few.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::shown::{Kind, Shown};
use osdpl_core::api::OpenStackDeploymentStatus;
use osdpl_core::nodes::several;
use osdpl_core::rollout;
use osdpl_core::status::rollout_line;
use osdpl_decide::{Action, Planned};
use osdpl_operator::controller::Preview;

/// The labels of one node that would change.
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

/// The actions beside the steps of releases and the labels of nodes; nothing of a Secret is shown but its name and keys.
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

/// The nodes whose labels would change.
pub(super) fn nodes(preview: &Preview) -> Vec<NodeLine> {
    let line = |(name, change): (&String, &osdpl_core::nodes::Change)| NodeLine {
        name: name.clone(),
        gains: change.gains.clone(),
        losses: change.losses.clone(),
    };
    preview.nodes.iter().filter(|(_, change)| change.is_seen()).map(line).collect()
}

impl Shown {
    /// Nodes that get or lose the same labels share a line.
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
            let names = several(names, count);
            let nodes = if count == 1 { "node" } else { "nodes" };
            let _ = writeln!(text, "{nodes} {names}: labels {}", labels.join(" "));
        }
        text
    }

    /// What waits for approval: releases, and rollouts of components. What is told of rollouts is told here too.
    pub(super) fn awaiting(&mut self, preview: &Preview, status: Option<&OpenStackDeploymentStatus>) -> Vec<String> {
        let releases = preview.plan.awaiting().map(|(name, _)| name.to_owned());
        let rollouts = status.map(|status| &status.rollouts);
        let on = rollouts.into_iter().flatten().filter(|(_, said)| said.phase.is_on());
        self.notes.extend(on.map(|(name, said)| format!("rollout of {}", rollout_line(name, said))));
        releases.chain(rollouts.into_iter().flat_map(rollout::awaiting).map(|(name, _)| name.clone())).collect()
    }

    /// How many releases would be changed, and how the others are.
    pub(super) fn summary(&self) -> String {
        let count = |kind: Kind| self.releases.iter().filter(|line| line.kind == kind).count();
        if self.is_offline {
            let rest = if self.refused { ", once nothing is wrong above" } else { "" };
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
