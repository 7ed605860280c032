//! The readiness of nodes.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::workload::Condition;

/// The required fields of `spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// Its pod networks.
    #[serde(rename = "podCIDRs")]
    pub pod_networks: Vec<String>,
}

/// The required fields of `status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    conditions: Vec<Condition>,
}

/// The readiness of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Its kubelet responds and accepts pods.
    Ready,
    /// Not ready or silent, with the start if it is known.
    Missing(Option<Timestamp>),
}

impl Status {
    /// Returns the readiness by its condition, which the node controller sets to `Unknown` for a silent kubelet.
    pub fn readiness(&self) -> Readiness {
        match self.conditions.iter().find(|condition| condition.kind == "Ready") {
            Some(condition) if condition.status == "True" => Readiness::Ready,
            Some(condition) => Readiness::Missing(condition.since.as_ref().map(|since| since.0)),
            None => Readiness::Missing(None),
        }
    }
}

impl Readiness {
    /// Returns how much longer to wait before the node counts as lost; `None` if it is ready or lost.
    ///
    /// A node whose kubelet restarts is back within seconds and is not reported.
    pub fn remaining_grace(self, now: Timestamp, grace: Duration) -> Option<Duration> {
        let Self::Missing(Some(since)) = self else { return None };
        // A condition time in the future (clock skew) does not extend the grace period.
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
