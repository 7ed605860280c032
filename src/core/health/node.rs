//! Determines whether a node is ready, and how long it may be missing before it counts as lost.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::workload::Condition;

/// The fields of a node's `spec` that osdpl reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// The networks from which Kubernetes assigns addresses to the node's pods.
    #[serde(rename = "podCIDRs")]
    pub pod_networks: Vec<String>,
}

/// The fields of a node's `status` that osdpl reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    conditions: Vec<Condition>,
}

/// Whether a node is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The node's kubelet responds and accepts pods.
    Ready,
    /// The node's kubelet reports that it is not ready, or does not respond; since this time, if the time is known.
    Missing(Option<Timestamp>),
}

impl Status {
    /// Returns the readiness according to the condition `Ready`, which the node controller sets to `Unknown` if the
    /// kubelet is silent.
    pub fn readiness(&self) -> Readiness {
        match self.conditions.iter().find(|condition| condition.kind == "Ready") {
            Some(condition) if condition.status == "True" => Readiness::Ready,
            Some(condition) => Readiness::Missing(condition.since.as_ref().map(|since| since.0)),
            None => Readiness::Missing(None),
        }
    }
}

impl Readiness {
    /// Returns how much longer osdpl waits before a missing node counts as lost; `None` if the node is ready or counts
    /// as lost.
    ///
    /// Without this wait osdpl would report every restart of a kubelet, which takes only seconds.
    pub fn remaining_grace(self, now: Timestamp, grace: Duration) -> Option<Duration> {
        let Self::Missing(Some(since)) = self else { return None };
        // If clocks differ, the condition's time may be in the future. That must not make the grace period longer.
        let missing_for = Duration::try_from(now.duration_since(since).max(SignedDuration::ZERO)).unwrap_or_default();
        grace.checked_sub(missing_for).filter(|rest| !rest.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn waits_for_nodes_within_grace_period() {
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
            assert_eq!(status.readiness().remaining_grace(now, grace), expected.map(Duration::from_secs), "{since}");
        }
        assert_eq!(Status::default().readiness().remaining_grace(now, grace), None);
    }
}
