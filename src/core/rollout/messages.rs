//! Formats the state of a rollout as a message for the status, events and the command line.

use std::fmt;

use super::State;
use crate::nodes::format_names;

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |nodes: &[String]| format_names(nodes.iter().map(String::as_str), nodes.len());
        match self {
            Self::Unobserved => formatter.write_str("osdpl has not read all pods of the component yet"),
            Self::Approval { nodes, batch } => write!(
                formatter,
                "its new pod template restarts pods on {}, {batch} at a time: waits for approval \
                 (osdpl approve)",
                nodes_of(*nodes)
            ),
            Self::Batch(nodes, why, _) => {
                write!(formatter, "batch {}", list(nodes))?;
                if why.is_empty() { Ok(()) } else { write!(formatter, ": {why}") }
            }
            Self::Evict(_) => write!(formatter, "batch {}", list(&self.batch())),
            Self::Stopped(node, why, _) => {
                write!(
                    formatter,
                    "stopped at {node}: {why}; the rollout continues when the pod on this node is ready or the pod template changes"
                )
            }
            Self::Pause(until) => write!(formatter, "next batch at {until:.0}"),
            Self::Joining => formatter.write_str("a pod starts on a node that joined the cluster"),
            Self::Misplaced(pods) => write!(
                formatter,
                "the DaemonSet does not select the nodes of some pods ({pods}), because these nodes lack a label or have a taint that the pods do not tolerate; to let the rollout continue, delete these pods, restore the label, or remove the taint"
            ),
            Self::WaitsForComponent(other) => write!(formatter, "waits for its turn: osdpl rolls out {other} first"),
            Self::WaitsForRelease(release) => write!(formatter, "waits until release {release} is in sync"),
            Self::Paused => formatter.write_str("paused; set `paused: false` to resume"),
            Self::Skipped(nodes) => write!(formatter, "the remaining nodes are NotReady: {}", list(nodes)),
            Self::Done => formatter.write_str("every node has its new pod"),
        }
    }
}

/// Formats a number of nodes: `1 node`, `3 nodes`.
pub(super) fn nodes_of(count: i32) -> String {
    if count == 1 { "1 node".into() } else { format!("{count} nodes") }
}
