//! A node as the API server shows it: whether it is there.

use serde::Deserialize;

use super::workload::Condition;

/// The fields of `status` that count.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    conditions: Vec<Condition>,
}

impl Status {
    /// Whether its kubelet says that it can take pods, and is heard of: the node controller writes `Unknown` where it is not.
    pub fn is_ready(&self) -> bool {
        self.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True")
    }
}
