//! A node as the API server shows it: whether it is there.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::workload::Condition;

/// The fields of `spec` that count.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// What its pods get their addresses from.
    #[serde(rename = "podCIDRs")]
    pub pod_networks: Vec<String>,
}

/// The fields of `status` that count.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    conditions: Vec<Condition>,
}

/// Whether a node is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Its kubelet says that it can take pods, and is heard of.
    Ready,
    /// It does not, or is not heard of; since when, where that is known.
    Missing(Option<Timestamp>),
}

impl Status {
    /// Whether its kubelet says that it can take pods, and is heard of: the node controller writes `Unknown` where it is not.
    pub fn presence(&self) -> Presence {
        match self.conditions.iter().find(|condition| condition.kind == "Ready") {
            Some(condition) if condition.status == "True" => Presence::Ready,
            Some(condition) => Presence::Missing(condition.since.as_ref().map(|since| since.0)),
            None => Presence::Missing(None),
        }
    }
}

impl Presence {
    /// How long it is still waited for before it counts as lost; `None` where it is there, or lost. A node whose kubelet restarts is back in
    /// seconds, and no news.
    pub fn awaited(self, now: Timestamp, grace: Duration) -> Option<Duration> {
        let Self::Missing(Some(since)) = self else { return None };
        // One of another clock than ours is not waited for longer than one of our own.
        let gone = Duration::try_from(now.duration_since(since).max(SignedDuration::ZERO)).unwrap_or_default();
        grace.checked_sub(gone).filter(|rest| !rest.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_awaited_for_the_grace_and_no_longer() {
        let now: Timestamp = "2026-11-21T12:00:30Z".parse().unwrap();
        let grace = Duration::from_secs(40);
        for (status, since, expected) in [
            ("True", "12:00:00", None),
            ("Unknown", "12:00:00", Some(10)),
            ("False", "11:59:50", None),
            ("False", "11:00:00", None),
            ("False", "12:30:00", Some(40)),
        ] {
            let condition =
                json!({"type": "Ready", "status": status, "lastTransitionTime": format!("2026-11-21T{since}Z")});
            let status: Status = serde_json::from_value(json!({"conditions": [condition]})).unwrap();
            assert_eq!(status.presence().awaited(now, grace), expected.map(Duration::from_secs), "{since}");
        }
        assert_eq!(Status::default().presence().awaited(now, grace), None);
    }
}
