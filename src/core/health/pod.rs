//! A pod that is not ready: for whom that matters, and why.
//!
//! Messages hold nothing that changes by itself (restart counts, back-off times, the kubelet's alternating reasons), so
//! that a pod which goes on failing in the same way is no news.

mod cause;
mod daemon;
mod waits;
mod wire;

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use daemon::{REVISION, daemon};
pub use waits::Dependency;
pub use wire::{Spec, Status};

use crate::observed::Trouble;

/// The label with which a Deployment's pods name the hash at the end of their `ReplicaSet`'s name.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// A pod that is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unready {
    /// The pod's name.
    pub name: String,
    /// The pod's uid.
    pub uid: String,
    /// What it is a pod of.
    pub owner: Owner,
    /// Why it is not ready, if that can be told.
    pub cause: Option<Cause>,
    /// Whether it was ready before, with these very containers.
    pub was_ready: bool,
    /// The node it is on, if any.
    pub node: Option<String>,
    /// What follows from its template: the same for all pods of one owner and revision, which may share it.
    pub wants: Arc<Wants>,
    /// The volume claims that it mounts, while no node has taken it: an unbound one may be why.
    pub claims: Vec<String>,
}

/// What a pod that is not ready wants, by its template.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wants {
    /// What its init container waits for; which of it is missing is not known from the pod alone.
    pub waits: Vec<Dependency>,
    /// The Secrets and ConfigMaps that it mounts, while its containers are being created: a missing one may be why they are not.
    pub mounts: Vec<Mount>,
}

/// A Secret or ConfigMap that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mount {
    /// Which of the two.
    pub kind: MountKind,
    /// Its name.
    pub name: String,
}

/// `Secret keystone-etc`
impl fmt::Display for Mount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {}", self.kind, self.name)
    }
}

/// What can be mounted and be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MountKind {
    /// v1 Secret.
    Secret,
    /// v1 ConfigMap.
    ConfigMap,
}

/// What a pod is a pod of, in the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// `Deployment`, `StatefulSet`, `DaemonSet` or `Job`.
    pub kind: OwnerKind,
    /// Its name.
    pub name: String,
}

/// The kinds whose pods are looked at.
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

/// Why a pod is not ready. Of several pods' causes the greatest is the one to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// How bad it is.
    pub severity: Severity,
    /// One line, without the pod's name.
    pub message: String,
    /// The container that fails: its log may tell why.
    pub failing: Option<Failing>,
}

/// How bad a cause is, from harmless to hopeless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It is leaving.
    Leaving,
    /// It starts.
    Starting,
    /// It was ready and is not now.
    Lost,
    /// It waits for something else.
    Waiting,
    /// It can't go on without help.
    Stuck,
}

/// A container that failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failing {
    /// Its name.
    pub container: String,
    /// How many times it was started again: with the pod's uid, the identity of one failure.
    pub restarts: i32,
    /// Whether it runs again by now, so that the log of the failure is the previous one.
    pub previous: bool,
}

impl Unready {
    /// What to tell of this pod.
    pub fn trouble(&self) -> Option<Trouble> {
        let cause = self.cause.as_ref()?;
        let message = format!("{}: {}", self.name, cause.message);
        Some(Trouble { stuck: cause.severity == Severity::Stuck, message })
    }
}

/// The pod, if it is neither ready nor through, and is a pod of something.
pub fn observe(metadata: &ObjectMeta, spec: &Spec, status: &Status) -> Option<Unready> {
    if status.is_ready() || status.phase == "Succeeded" {
        return None;
    }
    let cause = cause::of(metadata.deletion_timestamp.is_some(), spec, status);
    let starts = cause.as_ref().is_some_and(|cause| cause.severity == Severity::Starting);
    Some(Unready {
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
        owner: owner(metadata)?,
        wants: Arc::new(Wants {
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
        // `<deployment>-<hash>`: no watch on ReplicaSets is needed.
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
