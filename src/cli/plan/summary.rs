//! Sums up a plan: the changed labels of nodes, the changes that wait for approval, and the number of releases by step.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::report::{Kind, PlanReport};
use osdpl_core::api::OpenStackDeploymentStatus;
use osdpl_core::nodes::format_names;
use osdpl_core::rollout;
use osdpl_core::status::rollout_line;
use osdpl_operator::controller::Preview;

impl PlanReport {
    /// Returns the changes of node labels as text; nodes with the same change share a line. The changes that wait for
    /// approval come last.
    pub(super) fn node_labels(&self) -> String {
        let mut groups: BTreeMap<(bool, String), Vec<&str>> = BTreeMap::new();
        for node in &self.nodes {
            groups.entry((node.awaits_approval, node.change())).or_default().push(&node.name);
        }
        let mut text = String::new();
        for ((_, change), names) in groups {
            let count = names.len();
            let names = format_names(names, count);
            let nodes = if count == 1 { "node" } else { "nodes" };
            let _ = writeln!(text, "{nodes} {names}: {change}");
        }
        text
    }

    /// Returns, as texts, the releases, rollouts, nodes and actions on objects that wait for approval. Also adds a note
    /// to the report for each active rollout.
    pub(super) fn awaiting_approval(
        &mut self,
        preview: &Preview,
        status: Option<&OpenStackDeploymentStatus>,
    ) -> Vec<String> {
        let releases = preview.plan.awaiting_approval().map(|(name, _)| name.to_owned());
        let rollouts = status.map(|status| &status.rollouts);
        let nodes: BTreeSet<&str> =
            self.nodes.iter().filter(|node| node.awaits_approval).map(|node| node.name.as_str()).collect();
        let active = rollouts.into_iter().flatten().filter(|(_, rollout)| rollout.phase.is_active());
        self.notes.extend(active.map(|(name, rollout)| format!("rollout of {}", rollout_line(name, rollout))));
        releases
            .chain(rollouts.into_iter().flat_map(rollout::awaiting_approval).map(|(name, _)| name.clone()))
            .chain(nodes.into_iter().map(|name| format!("node {name}")))
            .chain(self.actions.iter().filter(|action| action.awaits_approval).map(|action| action.action.clone()))
            .collect()
    }

    /// Returns one sentence with the number of releases for each `Kind` of step. For a plan without a cluster, the
    /// sentence has the number of releases that would be installed, and of those that would wait for another reason
    /// than their needs.
    pub(super) fn summary(&self) -> String {
        let count = |kind: Kind| self.releases.iter().filter(|release| release.kind == kind).count();
        if self.is_offline {
            let condition = if self.refused { ", once the errors above are fixed" } else { "" };
            let unmanaged = count(Kind::Ready);
            let waiting = match self.releases.len() - self.installs - unmanaged {
                0 => String::new(),
                count => format!("; {count} would wait for the reasons above"),
            };
            return format!("{} would be installed{condition}{waiting}.", count_releases(self.installs));
        }
        let (ready, act, settle, wait) = (count(Kind::Ready), count(Kind::Do), count(Kind::Settle), count(Kind::Wait));
        match (act, settle, wait) {
            (0, 0, 0) => format!(
                "Nothing to do: {} ready.",
                if ready == 1 { "1 release is".into() } else { format!("{ready} releases are") }
            ),
            _ => format!(
                "{} would be changed now; waiting: {wait}, becoming ready: {settle}, ready: {ready}.",
                count_releases(act)
            ),
        }
    }
}

fn count_releases(count: usize) -> String {
    if count == 1 { "1 release".into() } else { format!("{count} releases") }
}
