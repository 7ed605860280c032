//! The observed state of the data plane pods that a rollout replaces.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use crate::catalog::Component;

/// The state of a `DaemonSet` with the update strategy `OnDelete`. With this strategy, Kubernetes replaces an outdated
/// pod only after someone has deleted the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnDelete {
    /// The uid of the `DaemonSet`. osdpl finds the pods and `ControllerRevisions` of the `DaemonSet` by this uid.
    pub uid: String,
    /// The number of the `DaemonSet`'s nodes whose pod is missing or does not have the newest pod template.
    pub stale: i32,
}

/// All `DaemonSets` of a component in a namespace. A component has several `DaemonSets` if its values differ between
/// nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DaemonSetGroup {
    /// The namespace of the `DaemonSets`.
    pub namespace: String,
    /// The component that the `DaemonSets` run.
    pub component: Component,
}

/// The observed state of a [`DaemonSetGroup`] during a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutPods {
    /// The pods of all `DaemonSets` in the [`DaemonSetGroup`].
    pub pods: Vec<DaemonPod>,
    /// The revision of each `DaemonSet`'s newest pod template (label `controller-revision-hash`), by the uid of the
    /// `DaemonSet`.
    pub revisions: BTreeMap<String, String>,
}

/// A pod of a `DaemonSet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonPod {
    /// The pod's name.
    pub name: String,
    /// The pod's uid.
    pub uid: String,
    /// The uid of the `DaemonSet` to which the pod belongs.
    pub set: String,
    /// The pod's node; empty until the pod is scheduled.
    pub node: String,
    /// The revision of the pod template that Kubernetes created the pod from (label `controller-revision-hash`).
    pub revision: String,
    /// Whether the pod is ready, starting, unhealthy or terminating.
    pub state: PodState,
}

/// The state of a data plane pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodState {
    /// The pod is ready. Contains the time when the pod became ready, if that time is known.
    Ready(Option<Timestamp>),
    /// The pod is not ready yet, but may become ready without help. Contains the reason, and the time when the pod was
    /// created, if that time is known.
    Starting(String, Option<Timestamp>),
    /// The pod is not ready and cannot recover without help. Contains the reason.
    Unhealthy(String),
    /// The pod is being deleted.
    Terminating,
}
