//! The Kubernetes objects that the controller reads, reduced to the fields that it uses.
//!
//! The parser skips all other fields, which make up most of a pod's JSON.

use k8s_openapi::api::{apps, core};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

/// The fields of a `Node` (v1) that the controller uses.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = "core::v1::Node")]
pub(crate) struct Node {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: NodeSpec,
    #[serde(default)]
    pub(crate) status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct NodeSpec {
    #[serde(default)]
    pub(crate) unschedulable: bool,
}

/// The fields of a `Pod` (v1) that the controller uses.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = "core::v1::Pod")]
pub(crate) struct Pod {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: PodSpec,
    #[serde(default)]
    pub(crate) status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodSpec {
    pub(crate) node_name: Option<String>,
}

/// The status of a node or a pod, reduced to the fields that the controller uses.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    /// The phase of a pod, such as `Running`.
    pub(crate) phase: String,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Status {
    /// Whether the condition `Ready` is true.
    pub(crate) fn is_ready(&self) -> bool {
        self.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True")
    }
}

/// The fields of a `StatefulSet` (apps/v1) that the controller uses.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = "apps::v1::StatefulSet")]
pub(crate) struct StatefulSet {
    metadata: ObjectMeta,
    pub(crate) spec: StatefulSetSpec,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct StatefulSetSpec {
    /// The desired number of pods. The API server sets this field to 1 if a user does not set it.
    pub(crate) replicas: i32,
}
