//! The one wording of what a rollout does or waits for: status, events and the command line show it.

use std::fmt;

use super::State;
use crate::nodes::several;

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |nodes: &[String]| several(nodes.iter().map(String::as_str), nodes.len());
        match self {
            Self::Unseen => formatter.write_str("its pods are being looked at"),
            Self::Approval { nodes, batch } => write!(
                formatter,
                "its template changed, which restarts it on {}, {batch} at a time: waits for approval (osdpl approve)",
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
                    "stopped at {node}: {why}; it goes on once that pod is ready, or with another template"
                )
            }
            Self::Pause(until) => write!(formatter, "next batch at {until:.0}"),
            Self::Joining => formatter.write_str("a node has come"),
            Self::Misplaced(pods) => write!(
                formatter,
                "{pods} of its pods run on nodes where its DaemonSet would put none (a taint that they do not tolerate, a label): nothing goes before they are gone, or wanted there"
            ),
            Self::Turn(other) => write!(formatter, "waits for its turn: {other} is rolled first"),
            Self::Release(release) => write!(formatter, "waits until release {release} is as wanted"),
            Self::Paused => formatter.write_str("paused; set `paused: false` to go on"),
            Self::Skipped(nodes) => write!(formatter, "what is left is on nodes that are NotReady: {}", list(nodes)),
            Self::Done => formatter.write_str("every node has its new pod"),
        }
    }
}

/// `1 node`, `3 nodes`.
pub(super) fn nodes_of(count: i32) -> String {
    if count == 1 { "1 node".into() } else { format!("{count} nodes") }
}
