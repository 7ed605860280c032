//! Assesses the health of workloads, Jobs, pods and nodes.
//!
//! osdpl assesses a workload twice, with different criteria. A workload is *available* if one of its pods is ready.
//! One ready pod is enough to install the releases that need the workload, because upstream's init containers wait for
//! only one ready pod, too. A workload is *healthy* if its rollout is complete, as in kstatus: its controller observed
//! the newest generation, and all pods are ready and have the newest pod template.
//!
//! ```text
//! workload  a Deployment, StatefulSet or DaemonSet → observed::Workload
//! job       a Job → observed::ObservedJob
//! cron      a CronJob and its Jobs → observed::ObservedCronJob, observed::Run
//! pod       a pod that is not ready → why it is not ready, and the owner of the pod
//! storage   a volume claim or StorageClass → observed::Claim, observed::Class
//! node      whether a node is ready, and how long osdpl waits for a node before it treats the node as lost
//!
//! pod_creation   the error of a controller, such as a ReplicaSet, that cannot create pods
//! ```
//!
//! Pure module (no I/O, no clock).

pub mod cron;
pub mod job;
pub mod node;
pub mod pod;
pub mod pod_creation;
pub mod storage;
pub mod workload;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use crate::api::{ComponentHealth, ComponentStatus};
use crate::catalog::WorkloadKind;
use crate::observed::{ObservedJob, Workload};

/// Upstream's label with the name of the release. osdpl finds the release of a hook's Job by this label, because helm
/// does not annotate hooks with the name of their release.
pub const RELEASE_GROUP: &str = "release_group";

/// The kind `CronJob`. A Job is a run of a `CronJob` if an owner of the Job has this kind.
pub const CRON_JOB: &str = "CronJob";

/// A condition in the status of an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// The type of the condition, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status of the condition: `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason why the condition has this status, in `CamelCase`.
    pub reason: String,
    /// A human-readable message that says why the condition has this status.
    pub message: String,
    /// The time when the condition's status last changed.
    #[serde(rename = "lastTransitionTime")]
    pub since: Option<Time>,
}

/// The message in the status for a component without workloads.
pub(crate) const NO_WORKLOAD: &str = "none of its workloads exists yet";

/// Whether the workload is available: at least one of its pods is ready.
///
/// One ready pod is enough to install the releases that need the workload, because upstream's init containers wait for
/// only one ready pod, too.
pub fn is_available(workload: &Workload) -> bool {
    workload.desired > 0 && workload.ready > 0
}

/// Whether the workload is a `DaemonSet` that selects no node.
///
/// The result is true only after the `DaemonSet`'s controller has observed the newest generation. Until then, the
/// status of a new `DaemonSet` reports 0 nodes, whatever the `DaemonSet` selects.
pub fn has_no_nodes(workload: &Workload) -> bool {
    workload.kind == WorkloadKind::DaemonSet && workload.desired == 0 && is_observed(workload)
}

/// Returns the health of one workload, with the number of its ready pods and, if it is not healthy, the reason.
pub fn assess(workload: &Workload) -> ComponentStatus {
    let (status, reason) = assess_replicas(workload);
    ComponentStatus {
        status,
        generation: Some(workload.generation),
        ready: format!("{}/{}", workload.ready, workload.desired),
        reason,
    }
}

/// Returns the health of one component: the worst health of its workloads, and the total numbers of ready and desired
/// pods.
///
/// The function ignores a `DaemonSet` without nodes, unless the component has no other workload. If the spec overrides
/// values for some nodes, upstream's charts render extra `DaemonSets` for these nodes. If the overrides cover all
/// nodes, the `DaemonSet` for the other nodes has no node, which is no problem.
pub fn aggregate(workloads: &[&Workload]) -> ComponentStatus {
    let with_nodes: Vec<&Workload> = workloads.iter().copied().filter(|workload| !has_no_nodes(workload)).collect();
    let counted = if with_nodes.is_empty() { workloads } else { &with_nodes };
    let Some(worst) = counted.iter().map(|workload| assess(workload)).reduce(worse) else {
        return ComponentStatus {
            status: ComponentHealth::Unknown,
            generation: None,
            ready: "0/0".into(),
            reason: NO_WORKLOAD.into(),
        };
    };
    let ready: i32 = counted.iter().map(|workload| workload.ready).sum();
    let desired: i32 = counted.iter().map(|workload| workload.desired).sum();
    ComponentStatus { ready: format!("{ready}/{desired}"), ..worst }
}

/// Returns the health of a workload that someone scaled to 0 outside of helm. The reason says how to fix the workload.
pub fn scaled_to_zero(workload: &Workload) -> ComponentStatus {
    let Workload { kind, namespace, name, generation, .. } = workload;
    let kind = format!("{kind:?}").to_lowercase();
    ComponentStatus {
        status: ComponentHealth::Unhealthy,
        generation: Some(*generation),
        ready: "0/0".into(),
        reason: format!(
            "{name} was scaled to 0; scale it back (`kubectl -n {namespace} scale {kind} {name} --replicas=…`), or set 0 replicas in the release's values"
        ),
    }
}

/// Returns the worse health of two workloads; `left` if both are equally bad.
fn worse(left: ComponentStatus, right: ComponentStatus) -> ComponentStatus {
    if right.status > left.status { right } else { left }
}

fn is_observed(workload: &Workload) -> bool {
    workload.observed_generation >= workload.generation
}

fn assess_replicas(workload: &Workload) -> (ComponentHealth, String) {
    let Workload { generation, desired, ready, updated, outdated_pods: outdated, .. } = *workload;
    let missing = desired.saturating_sub(ready);
    if !is_observed(workload) {
        return (ComponentHealth::Progressing, format!("its controller has not observed generation {generation} yet"));
    }
    if has_no_nodes(workload) {
        let message = workload.trouble.as_ref().map(|trouble| trouble.message.clone());
        return (ComponentHealth::Unknown, message.unwrap_or_else(|| no_nodes(workload, None)));
    }
    if missing <= 0 && updated >= desired && outdated <= 0 {
        return (ComponentHealth::Ready, String::new());
    }
    if misses_only_lost_nodes(workload) {
        return (ComponentHealth::Degraded, lost_nodes(&workload.lost_nodes));
    }
    if let Some(trouble) = &workload.trouble {
        let lost = trouble.stuck || workload.was_available;
        let status = if lost { ComponentHealth::Unhealthy } else { ComponentHealth::Progressing };
        return (status, trouble.message.clone());
    }
    // The message does not contain the number of ready pods, because the status shows this number in another field,
    // `ready`.
    if workload.was_available && missing > 0 {
        return (ComponentHealth::Unhealthy, "some of its pods are no longer ready".into());
    }
    if missing > 0 {
        return (ComponentHealth::Progressing, String::new());
    }
    let reason = if updated < desired {
        format!("{updated} of {desired} pods have the newest pod template")
    } else {
        format!("{outdated} pods with an older pod template still exist")
    };
    (ComponentHealth::Progressing, reason)
}

/// Whether `NotReady` nodes alone explain why pods of a `DaemonSet` are not ready or are outdated.
///
/// This is true if the `DaemonSet` has a ready pod, and if neither the number of its pods that are not ready nor the
/// number of its outdated pods exceeds the number of `NotReady` nodes.
fn misses_only_lost_nodes(workload: &Workload) -> bool {
    let Workload { kind, desired, ready, updated, .. } = *workload;
    let lost = i32::try_from(workload.lost_nodes.len()).unwrap_or(i32::MAX);
    kind == WorkloadKind::DaemonSet && lost > 0 && ready > 0 && desired - ready <= lost && desired - updated <= lost
}

/// Returns the message about `NotReady` nodes, such as `node n3 is NotReady`. If many nodes are `NotReady`, the
/// message names only the first few.
pub fn lost_nodes(nodes: &[String]) -> String {
    const NAMED: usize = 3;
    match nodes {
        [one] => format!("node {one} is NotReady"),
        few if few.len() <= NAMED => format!("nodes {} are NotReady", few.join(", ")),
        many => format!("nodes {} and {} more are NotReady", many[..NAMED].join(", "), many.len() - NAMED),
    }
}

/// Returns the message about a `DaemonSet` that selects no node. `nodes` is the number of nodes in the cluster; `None`
/// if osdpl does not know the number.
pub fn no_nodes(workload: &Workload, nodes: Option<usize>) -> String {
    let of = nodes.map_or_else(|| "no node".to_owned(), |nodes| format!("none of {nodes} nodes"));
    match workload.node_selector.as_str() {
        "" => format!("its DaemonSet selects {of}"),
        labels => format!("{of} has {labels}, which the DaemonSet selects"),
    }
}

/// The health of a Job, with the reason if it is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobHealth {
    /// The Job is complete.
    Complete,
    /// The Job's pod runs, starts or waits. Contains what the pod waits for; empty if osdpl found nothing.
    Running(String),
    /// The Job's pods fail or cannot start, but Kubernetes still retries the Job. Contains the reason, or the number of
    /// failed pods.
    Failing(String),
    /// The Job failed, and Kubernetes creates no more pods for it. Contains the reason, if osdpl knows it.
    Failed(String),
}

/// Returns the health of a Job, with the reason if it is not complete.
pub fn job_health(job: &ObservedJob) -> JobHealth {
    let message = |otherwise: String| job.trouble.as_ref().map_or(otherwise, |trouble| trouble.message.clone());
    let stuck = job.trouble.as_ref().is_some_and(|trouble| trouble.stuck);
    if job.complete {
        JobHealth::Complete
    } else if job.failed {
        JobHealth::Failed(message("it has failed".into()))
    } else if stuck || job.failures > 0 {
        JobHealth::Failing(message(format!("{} of its pods have failed", job.failures)))
    } else {
        JobHealth::Running(message(String::new()))
    }
}

#[cfg(test)]
mod tests;
