//! Determines whether a node is ready, and how long osdpl waits before it treats a node that is not ready as lost.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::Condition;

/// The fields of a node's `spec` that osdpl reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// The address ranges (CIDRs) from which the pods on the node get their addresses.
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
    /// The node's kubelet does not respond, or reports that the node is not ready. Contains the time since which the
    /// node is not ready, if that time is known.
    Missing(Option<Timestamp>),
}

impl Status {
    /// Returns whether the node is ready, from its condition `Ready`. The node controller sets this condition to
    /// `Unknown` if the kubelet does not respond.
    pub fn readiness(&self) -> Readiness {
        match self.conditions.iter().find(|condition| condition.kind == "Ready") {
            Some(condition) if condition.status == "True" => Readiness::Ready,
            Some(condition) => Readiness::Missing(condition.since.as_ref().map(|since| since.0)),
            None => Readiness::Missing(None),
        }
    }
}

impl Readiness {
    /// Returns how much longer osdpl waits before it treats the node as lost; `None` if the node is ready, or if osdpl
    /// already treats it as lost. `grace` is the whole time that osdpl waits.
    ///
    /// osdpl waits because a node is briefly not ready while its kubelet restarts. Such a restart takes only seconds
    /// and is no problem.
    pub fn remaining_grace(self, now: Timestamp, grace: Duration) -> Option<Duration> {
        let Self::Missing(Some(since)) = self else { return None };
        // The clocks of two hosts may differ, so the time in the node's condition may be in the future. Such a time
        // must not make osdpl wait longer than `grace`.
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
