//! How the data plane's pods are made anew: `spec.nodes.rollout`, and what status says of it.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choice::Approval;

/// How long the operator waits after a batch, in seconds, where the spec says nothing.
const PAUSE: i32 = 30;

/// How pods of the data plane (openvswitch, ovn-controller, libvirt, nova-compute) are made anew when their template has changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// Who lets a rollout begin: `Manual`, where unset, a person with `osdpl approve`; `Automatic`, the operator at once. What a person has approved a
    /// change of the cloud for needs no second word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// How many nodes at a time, as a number or as a share of the component's nodes (`10%`, rounded up); 1 where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int_or_percent")]
    pub batch_size: Option<IntOrString>,
    /// How long to wait after the last pod of a batch is ready before the next batch, in seconds; 30 where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub pause_seconds: Option<i32>,
}

impl Rollout {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// How many of so many nodes at a time: one at least. A share is rounded up, as Kubernetes does for a `DaemonSet`'s `maxUnavailable`; what is none
    /// (the API server refuses it) counts as 1.
    pub fn batch(&self, nodes: i32) -> i32 {
        let size = match &self.batch_size {
            None => 1,
            Some(IntOrString::Int(count)) => *count,
            Some(IntOrString::String(text)) => {
                let share = text.strip_suffix('%').and_then(|share| share.parse::<i32>().ok()).unwrap_or_default();
                nodes.saturating_mul(share.clamp(0, 100)).saturating_add(99) / 100
            }
        };
        size.max(1)
    }

    /// The pause between batches, in seconds.
    pub fn pause(&self) -> i32 {
        self.pause_seconds.unwrap_or(PAUSE)
    }
}

/// The rollout of one component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// How far it is.
    pub phase: RolloutPhase,
    /// The release, by its name in the catalogue.
    pub release: String,
    /// The revision of the template that its pods shall have, as Kubernetes hashes it; of several DaemonSets all of them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// Whether that revision may be rolled out.
    #[serde(default)]
    pub approved: bool,
    /// The digest of the release's inputs that a person approved before anyone knew their revision.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub approved_inputs: String,
    /// Whether that was the spec's word, which counts as long as the spec says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub automatic: bool,
    /// How many nodes have a pod of that revision.
    #[serde(default)]
    pub updated: i32,
    /// How many nodes shall have one.
    #[serde(default)]
    pub total: i32,
    /// How many nodes at a time.
    #[serde(default)]
    pub batch_size: i32,
    /// The nodes whose pods are being made anew, at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batch: Vec<String>,
    /// The nodes that are left out because they are `NotReady`, at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// What it waits for, or what to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How far a rollout is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutPhase {
    /// It was approved before it is known whether there is anything to do.
    #[default]
    Pending,
    /// It waits for a person.
    AwaitingApproval,
    /// It waits for something else: its release, another rollout, nodes that are `NotReady`.
    Waiting,
    /// A batch is being made anew.
    Rolling,
    /// A batch is done, and the pause after it is not over.
    Pausing,
    /// A pod of the new revision does not come up: no other is touched.
    Stopped,
    /// Every node has its pod of that revision.
    Complete,
}

impl RolloutPhase {
    /// Whether there are pods to be made anew, or on their way.
    pub fn is_on(self) -> bool {
        match self {
            Self::Pending | Self::Complete => false,
            Self::AwaitingApproval | Self::Waiting | Self::Rolling | Self::Pausing | Self::Stopped => true,
        }
    }

    /// Whether pods have been made anew, and more are to follow.
    pub fn has_begun(self) -> bool {
        match self {
            Self::Rolling | Self::Pausing | Self::Stopped => true,
            Self::Pending | Self::AwaitingApproval | Self::Waiting | Self::Complete => false,
        }
    }
}

fn int_or_percent(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    // `maxLength` bounds what the rule over it costs; a number has none.
    schemars::json_schema!({ "x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "maxLength": 4 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_a_number_or_a_share_and_never_nothing() {
        let of = |size: Option<IntOrString>| Rollout { batch_size: size, ..Rollout::default() };
        let share = |text: &str| of(Some(IntOrString::String(text.into())));
        assert_eq!(of(None).batch(50), 1);
        assert_eq!(of(Some(IntOrString::Int(5))).batch(3), 5);
        assert_eq!([share("10%").batch(50), share("10%").batch(51), share("1%").batch(3)], [5, 6, 1]);
        assert_eq!(
            [share("100%").batch(300), share("x").batch(9), of(Some(IntOrString::Int(0))).batch(9)],
            [300, 1, 1]
        );
    }
}
