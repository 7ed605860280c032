//! The pods of the data plane while they are made anew.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use crate::catalog::Component;

/// What counts of a `DaemonSet` whose pods Kubernetes leaves to others (update strategy `OnDelete`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnDelete {
    /// Its uid: what its pods and revisions are told by.
    pub uid: String,
    /// On how many nodes there is no pod of the newest template.
    pub stale: i32,
}

/// The `DaemonSets` of a component in a namespace: by overrides for some nodes there are several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Daemons {
    /// Where they are.
    pub namespace: String,
    /// What they are.
    pub component: Component,
}

/// What is seen of [`Daemons`] while they are rolled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rolling {
    /// Their pods.
    pub pods: Vec<DaemonPod>,
    /// The newest revision of each `DaemonSet`'s template, by its uid.
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
    /// The node that it is on; empty before it has one.
    pub node: String,
    /// The revision of its template (label `controller-revision-hash`).
    pub revision: String,
    /// How it is.
    pub state: PodState,
}

/// How a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodState {
    /// Ready; since when, where that is known.
    Ready(Option<Timestamp>),
    /// On its way, or waiting for something else: why it is not ready, where that is told, and since when it is there.
    Starting(String, Option<Timestamp>),
    /// Not ready, and not to become so by itself: why.
    Unhealthy(String),
    /// On its way out.
    Leaving,
}
