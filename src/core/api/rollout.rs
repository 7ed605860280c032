//! The rollout of the data plane's pods: the settings in `spec.nodes.rollout`, and the entries of `status.rollouts`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choice::Approval;

/// The number of seconds that a rollout pauses after each batch if the spec sets no `pauseSeconds`.
const PAUSE: i32 = 30;

/// The settings for the replacement of the pods of openvswitch, ovn-controller, libvirt and nova-compute after a change
/// of their pod template, and for the removal of labels from nodes that left a role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// Whether a rollout waits for `osdpl approve` (`Manual`, the default) or starts at once (`Automatic`). The removal
    /// of labels from nodes also waits or starts at once. If a person has approved a change of the cloud, a rollout
    /// that follows from the change needs no second approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "approval_schema")]
    pub approval: Option<Approval>,
    /// The number of nodes in a batch, as a number or as a percentage (such as `10%`, rounded up); 1 if unset. A
    /// percentage is a share of the component's nodes, or, for the removal of labels, of the nodes that lose labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int_or_percent")]
    pub batch_size: Option<IntOrString>,
    /// The number of seconds between two batches; 30 if unset. The pause begins when all pods of a batch are ready, or,
    /// for the removal of labels, when a batch of nodes has lost its labels.
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
    /// Rounds a percentage up, as Kubernetes does for the `maxUnavailable` of a `DaemonSet`. For any other string,
    /// which the API server would reject, the result is 1.
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

/// The progress of the newest rollout of one component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The phase of the rollout.
    pub phase: RolloutPhase,
    /// The name in the catalogue of the component's release.
    pub release: String,
    /// The revision (Kubernetes' hash) of the newest pod template, which all pods of the component get. If the
    /// component has several DaemonSets, this field lists the revisions of all of them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// Whether a person or the spec has approved the rollout of `revision`.
    #[serde(default)]
    pub approved: bool,
    /// The digest of the inputs of an upgrade that a person approved. The rollout after this upgrade needs no further
    /// approval.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub approved_inputs: String,
    /// Whether the spec (`approval: Automatic`) approved the rollout instead of a person. Such an approval ends when
    /// the spec no longer sets `approval: Automatic`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub automatic: bool,
    /// The number of ready pods that have the newest pod template.
    #[serde(default)]
    pub updated: i32,
    /// The number of nodes that should run a pod of the component.
    #[serde(default)]
    pub total: i32,
    /// The maximum number of nodes whose pods the operator recreates at the same time.
    #[serde(default)]
    pub batch_size: i32,
    /// The names of the nodes whose pods the operator is recreating, at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batch: Vec<String>,
    /// The names of the nodes that the rollout skips because they are `NotReady`, at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// The reason why the rollout waits, or the action that a person must take.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The phase of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutPhase {
    /// A person has approved an upgrade, but the operator does not know yet whether pods must be recreated after it.
    #[default]
    Pending,
    /// The rollout waits until a person approves it.
    AwaitingApproval,
    /// The rollout can't continue, for example because helm is changing the component's release, another component is
    /// being rolled out, or nodes are `NotReady`.
    Waiting,
    /// The operator is recreating the pods of a batch.
    Rolling,
    /// The pods of a batch are ready, and the operator waits for the end of the pause before it begins the next batch.
    Pausing,
    /// A pod of the new revision does not become ready, so the operator recreates no other pod.
    Stopped,
    /// Every node that should run the component has a pod of the new revision.
    Complete,
}

impl RolloutPhase {
    /// Whether the rollout still has to recreate pods. True even if it waits, for example for approval.
    pub fn is_active(self) -> bool {
        match self {
            Self::Pending | Self::Complete => false,
            Self::AwaitingApproval | Self::Waiting | Self::Rolling | Self::Pausing | Self::Stopped => true,
        }
    }

    /// Whether the operator has begun to recreate pods and has not finished.
    pub(crate) fn has_begun(self) -> bool {
        match self {
            Self::Rolling | Self::Pausing | Self::Stopped => true,
            Self::Pending | Self::AwaitingApproval | Self::Waiting | Self::Complete => false,
        }
    }
}

/// Returns the schema of `spec.nodes.rollout.approval`. It lacks the value `Always` of `Approval`, because this value
/// has no meaning for a rollout.
fn approval_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "enum": ["Manual", "Automatic"] })
}

fn int_or_percent(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    // `maxLength` limits only strings, not numbers. Without it, the API server would estimate a higher cost for the CEL
    // rule on this field.
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
