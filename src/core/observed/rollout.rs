//! The data plane pods during a rollout.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use crate::catalog::Component;

/// The state of a `DaemonSet` with the update strategy `OnDelete`, whose pods Kubernetes does not replace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnDelete {
    /// Its uid, which identifies its pods and revisions.
    pub uid: String,
    /// The number of nodes without a pod of the newest template.
    pub stale: i32,
}

/// The `DaemonSets` of a component in a namespace. There are several if values differ between nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DaemonSetGroup {
    /// Their namespace.
    pub namespace: String,
    /// Their component.
    pub component: Component,
}

/// The observed state of a [`DaemonSetGroup`] during a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutPods {
    /// Their pods.
    pub pods: Vec<DaemonPod>,
    /// The newest template revision of each `DaemonSet`, by its uid.
    pub revisions: BTreeMap<String, String>,
}

/// A pod of a `DaemonSet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonPod {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The `DaemonSet`'s uid.
    pub set: String,
    /// Its node; empty before it is scheduled.
    pub node: String,
    /// The revision of its template (label `controller-revision-hash`).
    pub revision: String,
    /// Its state.
    pub state: PodState,
}

/// The state of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodState {
    /// Ready, with the time of the transition if it is known.
    Ready(Option<Timestamp>),
    /// Starting or waiting for something, with the reason and its creation time if they are known.
    Starting(String, Option<Timestamp>),
    /// Not ready and unable to recover, with the reason.
    Unhealthy(String),
    /// Being deleted.
    Terminating,
}
