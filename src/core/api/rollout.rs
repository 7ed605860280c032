//! The rollout of the data plane's pods: `spec.nodes.rollout` and its status.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choice::Approval;

/// The pause after each batch if the spec sets none, in seconds.
const PAUSE: i32 = 30;

/// The rollout of data plane pods (openvswitch, ovn-controller, libvirt, nova-compute) after a change of their
/// template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// The approval of rollouts: `Manual`, the default, waits for `osdpl approve`; `Automatic` starts them at once. A
    /// rollout that follows from an approved change of the cloud needs no second approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// The number of nodes per batch, as a number or as a percentage of the component's nodes (`10%`, rounded up); 1 if
    /// unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int_or_percent")]
    pub batch_size: Option<IntOrString>,
    /// The seconds to wait after the last pod of a batch is ready before the next batch; 30 if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub pause_seconds: Option<i32>,
}

impl Rollout {
    /// Whether no field of `spec.nodes.rollout` is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the number of nodes in a batch, at least one, for a component with pods on `nodes` nodes.
    ///
    /// A percentage is rounded up, as Kubernetes does for a `DaemonSet`'s `maxUnavailable`. A text that is not a
    /// percentage counts as 1; the API server rejects such a text anyway.
    pub(crate) fn batch_size_for(&self, nodes: i32) -> i32 {
        let size = match &self.batch_size {
            None => 1,
            Some(IntOrString::Int(count)) => *count,
            Some(IntOrString::String(text)) => {
                let percentage =
                    text.strip_suffix('%').and_then(|percentage| percentage.parse::<i32>().ok()).unwrap_or_default();
                nodes.saturating_mul(percentage.clamp(0, 100)).saturating_add(99) / 100
            }
        };
        size.max(1)
    }

    /// Returns the pause after each batch, in seconds.
    pub fn pause(&self) -> i32 {
        self.pause_seconds.unwrap_or(PAUSE)
    }
}

/// The rollout of one component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The phase of the rollout.
    pub phase: RolloutPhase,
    /// The release, by its name in the catalogue.
    pub release: String,
    /// The target revision of the pod template, as Kubernetes hashes it. With several DaemonSets, the revisions of all
    /// of them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// Whether that revision may be rolled out.
    #[serde(default)]
    pub approved: bool,
    /// The digest of the release's inputs that a person approved before the revision was known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub approved_inputs: String,
    /// Whether the approval came from the spec. It is valid as long as the spec has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub automatic: bool,
    /// The number of nodes with a pod of that revision.
    #[serde(default)]
    pub updated: i32,
    /// The number of nodes that need one.
    #[serde(default)]
    pub total: i32,
    /// The number of nodes per batch.
    #[serde(default)]
    pub batch_size: i32,
    /// The nodes whose pods are being recreated, at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batch: Vec<String>,
    /// The nodes that are skipped because they are `NotReady`, at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// The reason for waiting, or the action to take.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The phase of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutPhase {
    /// The rollout was approved, but it is not known yet whether it has any pods to recreate.
    #[default]
    Pending,
    /// The rollout waits until a person approves it.
    AwaitingApproval,
    /// The rollout waits for something else: its release, another rollout, or nodes that are `NotReady`.
    Waiting,
    /// The operator is recreating the pods of a batch.
    Rolling,
    /// The pods of a batch are ready, and the pause after the batch has not ended.
    Pausing,
    /// A pod of the new revision does not become ready, so the operator recreates no other pod.
    Stopped,
    /// Every node has a pod of the new revision.
    Complete,
}

impl RolloutPhase {
    /// Whether the rollout still has pods to recreate, even if it waits.
    pub fn is_active(self) -> bool {
        match self {
            Self::Pending | Self::Complete => false,
            Self::AwaitingApproval | Self::Waiting | Self::Rolling | Self::Pausing | Self::Stopped => true,
        }
    }

    /// Whether the operator has recreated some pods in this rollout, and more are to follow.
    pub(crate) fn has_begun(self) -> bool {
        match self {
            Self::Rolling | Self::Pausing | Self::Stopped => true,
            Self::Pending | Self::AwaitingApproval | Self::Waiting | Self::Complete => false,
        }
    }
}

fn int_or_percent(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    // `maxLength` limits the cost that the API server estimates for the CEL rule on this field. It has no effect on a
    // number.
    schemars::json_schema!({ "x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "maxLength": 4 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_is_a_number_or_a_percentage() {
        let of = |size: Option<IntOrString>| Rollout { batch_size: size, ..Rollout::default() };
        let percentage = |text: &str| of(Some(IntOrString::String(text.into())));
        assert_eq!(of(None).batch_size_for(50), 1);
        assert_eq!(of(Some(IntOrString::Int(5))).batch_size_for(3), 5);
        assert_eq!(
            [
                percentage("10%").batch_size_for(50),
                percentage("10%").batch_size_for(51),
                percentage("1%").batch_size_for(3)
            ],
            [5, 6, 1]
        );
        assert_eq!(
            [
                percentage("100%").batch_size_for(300),
                percentage("x").batch_size_for(9),
                of(Some(IntOrString::Int(0))).batch_size_for(9)
            ],
            [300, 1, 1]
        );
    }
}
