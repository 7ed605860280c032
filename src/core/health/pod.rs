//! Pods that are not ready: their owner and the reason.
//!
//! Messages contain nothing that changes by itself (restart counts, back-off times, the kubelet's alternating reasons),
//! so that a repeated failure does not change the status.

mod cause;
mod daemon;
mod waits;
mod wire;

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use daemon::{REVISION, observe_daemon_pod};
pub use waits::Dependency;
pub use wire::{Spec, Status};

use crate::observed::Issue;

/// The label with the hash at the end of the `ReplicaSet` name of a Deployment's pods.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// A pod that is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadyPod {
    /// The pod's name.
    pub name: String,
    /// The pod's uid.
    pub uid: String,
    /// Its owner.
    pub owner: Owner,
    /// Why it is not ready, if it is known.
    pub cause: Option<Cause>,
    /// Whether it was ready before with the same containers.
    pub was_ready: bool,
    /// Its node, if any.
    pub node: Option<String>,
    /// The requirements from its template, which all pods of one owner and revision can share.
    pub requirements: Arc<Requirements>,
    /// The volume claims that it mounts, until it has a node: an unbound claim may be the reason.
    pub claims: Vec<String>,
}

/// The requirements of a pod that is not ready, from its template.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirements {
    /// The dependencies of its init container. The pod does not show which of them is missing.
    pub waits: Vec<Dependency>,
    /// The Secrets and ConfigMaps that it mounts, while its containers are created: a missing one may be the reason.
    pub mounts: Vec<Mount>,
}

/// A Secret or ConfigMap that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mount {
    /// Its kind.
    pub kind: MountKind,
    /// Its name.
    pub name: String,
}

/// Formats it as `Secret keystone-etc`.
impl fmt::Display for Mount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {}", self.kind, self.name)
    }
}

/// The kinds of mounted objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MountKind {
    /// v1 Secret.
    Secret,
    /// v1 ConfigMap.
    ConfigMap,
}

/// The owner of a pod, in the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// `Deployment`, `StatefulSet`, `DaemonSet` or `Job`.
    pub kind: OwnerKind,
    /// Its name.
    pub name: String,
}

/// The kinds of owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerKind {
    /// apps/v1 Deployment, through its `ReplicaSet`.
    Deployment,
    /// apps/v1 `StatefulSet`.
    StatefulSet,
    /// apps/v1 `DaemonSet`.
    DaemonSet,
    /// batch/v1 Job.
    Job,
}

/// Why a pod is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its severity.
    pub severity: Severity,
    /// One line, without the pod's name.
    pub message: String,
    /// The failing container, whose log may contain the reason.
    pub failing: Option<FailedContainer>,
}

/// The severity of a cause, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The pod is being deleted.
    Terminating,
    /// It starts.
    Starting,
    /// It was ready and is no longer.
    Lost,
    /// It waits for something else.
    Waiting,
    /// It cannot recover without help.
    Stuck,
}

/// A container that failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailedContainer {
    /// Its name.
    pub container: String,
    /// The number of restarts, which identifies one failure together with the pod's uid.
    pub restarts: i32,
    /// Whether it runs again, so that the failure is in the previous log.
    pub previous: bool,
}

impl UnreadyPod {
    /// Returns the problem of this pod, if it is known.
    pub fn trouble(&self) -> Option<Issue> {
        let cause = self.cause.as_ref()?;
        let message = format!("{}: {}", self.name, cause.message);
        Some(Issue { stuck: cause.severity == Severity::Stuck, message })
    }
}

/// Returns the pod if it is neither ready nor finished and has an owner.
pub fn observe(metadata: &ObjectMeta, spec: &Spec, status: &Status) -> Option<UnreadyPod> {
    if status.is_ready() || status.phase == "Succeeded" {
        return None;
    }
    let cause = cause::of(metadata.deletion_timestamp.is_some(), spec, status);
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
        // `<deployment>-<hash>`, which makes a watch on ReplicaSets unnecessary.
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
