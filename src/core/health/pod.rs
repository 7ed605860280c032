//! Determines why a pod is not ready, and which workload or Job owns the pod.
//!
//! Messages leave out the details that change each time the same failure repeats: restart counts, back-off times, and
//! the alternating reasons of the kubelet. So a repeated failure does not change the status of the OpenStackDeployment.

mod cause;
mod daemon;
mod images;
mod waits;
mod wire;

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use daemon::{REVISION, observe_daemon_pod};
pub use images::running_images;
pub use waits::Dependency;
pub use wire::{Spec, Status};

use crate::observed::Issue;
use crate::scrub::Scrubber;

/// The pod label with the hash of the pod template. The name of the pod's `ReplicaSet` ends with this hash.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// A pod that is not ready, with the information that explains why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadyPod {
    /// The pod's name.
    pub name: String,
    /// The pod's uid.
    pub uid: String,
    /// The workload or Job that owns the pod.
    pub owner: Owner,
    /// Why the pod is not ready; `None` if osdpl does not know the cause.
    pub cause: Option<Cause>,
    /// Whether the pod was ready at some time after its containers had last started. If not, it may still be starting.
    pub was_ready: bool,
    /// The name of the pod's node; `None` until the scheduler has chosen a node.
    pub node: Option<String>,
    /// The objects that the pod needs to start, according to its spec. In memory, pods with equal requirements share
    /// one copy of them.
    pub requirements: Arc<Requirements>,
    /// The names of the volume claims that the pod mounts; empty once the pod has a node. An unbound claim may be the
    /// reason why the scheduler has not chosen a node.
    pub claims: Vec<String>,
}

/// The objects that a pod needs to start, according to its spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirements {
    /// The objects that the pod's init container kubernetes-entrypoint waits for; empty unless that container runs now.
    /// osdpl reads the objects from the pod's spec, because the pod's status does not show which of the objects the
    /// container still waits for.
    pub waits: Vec<Dependency>,
    /// The Secrets and ConfigMaps that the pod mounts; empty unless the pod is starting ([`Severity::Starting`]). While
    /// one of these objects is missing, Kubernetes can't create the pod's containers.
    pub mounts: Vec<Mount>,
}

/// A Secret or ConfigMap that a pod mounts as a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mount {
    /// Whether the mounted object is a Secret or a ConfigMap.
    pub kind: MountKind,
    /// The name of the mounted object, in the pod's namespace.
    pub name: String,
}

/// Formats a mounted object as `Secret keystone-etc`.
impl fmt::Display for Mount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {}", self.kind, self.name)
    }
}

/// The kinds of mounted objects whose existence osdpl checks, because a pod can't start while such an object is
/// missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MountKind {
    /// A Secret (API version `v1`).
    Secret,
    /// A ConfigMap (API version `v1`).
    ConfigMap,
}

/// The workload or Job that owns a pod. The owner is in the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Whether a `Deployment`, `StatefulSet`, `DaemonSet` or Job owns the pod.
    pub kind: OwnerKind,
    /// The name of this workload or Job.
    pub name: String,
}

/// The kinds of pod owners that osdpl recognizes: workloads and Jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerKind {
    /// A Deployment (`apps/v1`), which owns the pod through a `ReplicaSet`.
    Deployment,
    /// A `StatefulSet` (`apps/v1`).
    StatefulSet,
    /// A `DaemonSet` (`apps/v1`).
    DaemonSet,
    /// A Job (`batch/v1`).
    Job,
}

/// The reason why a pod is not ready, with its severity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The severity of the cause. If several pods are not ready, osdpl reports the most severe cause.
    pub severity: Severity,
    /// The reason in one line, without the pod's name.
    pub message: String,
    /// The container that fails; `None` if the cause is not a failing container. The log of the container may contain
    /// the reason.
    pub failing: Option<FailedContainer>,
}

/// The severity of a cause. The variants are in order, from the least to the most severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The pod is being deleted.
    Terminating,
    /// Kubernetes is mounting the pod's volumes, or is creating or restarting its containers.
    Starting,
    /// The pod was ready before, but is not ready any more.
    Lost,
    /// The pod runs an init container, or waits for another object, such as a volume or a dependency of its init
    /// container.
    Waiting,
    /// The pod cannot recover unless a person fixes the cause.
    Stuck,
}

/// A container that failed, with the information by which osdpl finds the log of the failed run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailedContainer {
    /// The name of the container.
    pub container: String,
    /// The number of restarts of the container. Together with the pod's uid, this number distinguishes one failure of
    /// the container from the next.
    pub restarts: i32,
    /// Whether the container runs again. If so, the failure is in the log of the container's previous run.
    pub previous: bool,
}

impl UnreadyPod {
    /// Returns the reason why the pod is not ready, in a message that begins with the pod's name; `None` if osdpl does
    /// not know the reason.
    pub fn trouble(&self) -> Option<Issue> {
        let cause = self.cause.as_ref()?;
        let message = format!("{}: {}", self.name, cause.message);
        Some(Issue { stuck: cause.severity == Severity::Stuck, message })
    }
}

/// Returns a pod that is not ready, with the reason why. Returns `None` if the pod is ready or has succeeded, or if no
/// workload or Job owns the pod.
///
/// `scrubber` removes secrets from messages of Kubernetes. For example, the kubelet quotes the output of a failed hook.
pub fn observe(metadata: &ObjectMeta, spec: &Spec, status: &Status, scrubber: &Scrubber) -> Option<UnreadyPod> {
    if status.is_ready() || status.phase == "Succeeded" {
        return None;
    }
    let cause = cause::of(metadata.deletion_timestamp.is_some(), spec, status, scrubber);
    let starts = cause.as_ref().is_some_and(|cause| cause.severity == Severity::Starting);
    Some(UnreadyPod {
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
        owner: owner(metadata)?,
        requirements: Arc::new(Requirements {
            waits: waits::of(metadata.namespace.as_deref().unwrap_or_default(), spec, status),
            mounts: if starts { spec.mounts() } else { Vec::new() },
        }),
        cause,
        was_ready: status.was_ready(),
        node: spec.node_name.clone(),
        claims: if spec.node_name.is_none() { spec.claims() } else { Vec::new() },
    })
}

fn owner(metadata: &ObjectMeta) -> Option<Owner> {
    let controller = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let (kind, name) = match controller.kind.as_str() {
        "StatefulSet" => (OwnerKind::StatefulSet, controller.name.as_str()),
        "DaemonSet" => (OwnerKind::DaemonSet, controller.name.as_str()),
        "Job" => (OwnerKind::Job, controller.name.as_str()),
        // The name of a ReplicaSet is `<deployment>-<hash>`, and the pod has a label with the hash. So osdpl finds the
        // Deployment without a watch on ReplicaSets.
        "ReplicaSet" => {
            let hash = metadata.labels.as_ref()?.get(TEMPLATE_HASH)?;
            (OwnerKind::Deployment, controller.name.strip_suffix(hash.as_str())?.strip_suffix('-')?)
        }
        _ => return None,
    };
    Some(Owner { kind, name: name.to_owned() })
}

#[cfg(test)]
mod tests;
