//! Health of workloads, Jobs, pods and nodes.
//!
//! A workload has two results, which differ on purpose. The availability tells whether dependents may start: one ready
//! pod is enough, as for upstream's init containers. The health tells whether the rollout is complete, as kstatus does:
//! the newest generation is observed, and all pods are ready and of the newest template.
//!
//! ```text
//! workload  a Deployment, StatefulSet or DaemonSet → observed::Workload
//! job       a Job → observed::ObservedJob
//! cron      a CronJob and its Jobs → observed::ObservedCronJob, observed::Run
//! pod       a pod that is not ready → the reason and its owner
//! storage   a volume claim or StorageClass → observed::Claim, observed::Class
//! node      whether a node is ready, and how long to wait for it
//!
//! pod_creation   errors of controllers that cannot create pods
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

use crate::api::{ComponentHealth, ComponentStatus};
use crate::catalog::WorkloadKind;
use crate::observed::{ObservedJob, Workload};

/// The reason of a component without any observed workload.
pub(crate) const NO_WORKLOAD: &str = "none of its workloads exists yet";

/// Whether dependents may start: at least one pod is ready, like upstream's init containers require.
pub fn is_available(workload: &Workload) -> bool {
    workload.desired > 0 && workload.ready > 0
}

/// Whether it is a `DaemonSet` without matching nodes, once its controller observed the newest generation.
pub fn has_no_nodes(workload: &Workload) -> bool {
    workload.kind == WorkloadKind::DaemonSet && workload.desired == 0 && is_observed(workload)
}

/// Returns the health of one workload.
pub fn assess(workload: &Workload) -> ComponentStatus {
    let (status, reason) = assess_replicas(workload);
    ComponentStatus {
        status,
        generation: Some(workload.generation),
        ready: format!("{}/{}", workload.ready, workload.desired),
        reason,
    }
}

/// Returns the health of one component: the worst result of its workloads, with summed counts.
///
/// A `DaemonSet` without nodes counts only if the component has no other workload: with per-node overrides upstream
/// splits the `DaemonSet` and leaves the default one without nodes if the others cover all.
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

/// Returns the health of a workload that was scaled to 0 outside of helm, with the ways to fix it.
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

/// Returns the worse result, or the first one if both are equal.
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
    // `ready` already contains the number of missing pods.
    if workload.was_available && missing > 0 {
        return (ComponentHealth::Unhealthy, "some of its pods are no longer ready".into());
    }
    if missing > 0 {
        return (ComponentHealth::Progressing, String::new());
    }
    let reason = if updated < desired {
        format!("{updated} of {desired} pods are of the newest template")
    } else {
        format!("{outdated} pods of an older template still exist")
    };
    (ComponentHealth::Progressing, reason)
}

/// Whether only pods on nodes that are not ready are missing.
fn misses_only_lost_nodes(workload: &Workload) -> bool {
    let Workload { kind, desired, ready, updated, .. } = *workload;
    let lost = i32::try_from(workload.lost_nodes.len()).unwrap_or(i32::MAX);
    kind == WorkloadKind::DaemonSet && lost > 0 && ready > 0 && desired - ready <= lost && desired - updated <= lost
}

/// Formats the nodes: `node n3 is NotReady`, shortened if there are many.
pub fn lost_nodes(nodes: &[String]) -> String {
    const NAMED: usize = 3;
    match nodes {
        [one] => format!("node {one} is NotReady"),
        few if few.len() <= NAMED => format!("nodes {} are NotReady", few.join(", ")),
        many => format!("nodes {} and {} more are NotReady", many[..NAMED].join(", "), many.len() - NAMED),
    }
}

/// Returns why a `DaemonSet` has no pods, with the number of nodes if it is known.
pub fn no_nodes(workload: &Workload, nodes: Option<usize>) -> String {
    let of = nodes.map_or_else(|| "no node".to_owned(), |nodes| format!("none of {nodes} nodes"));
    match workload.node_selector.as_str() {
        "" => format!("{of} is selected by its DaemonSet"),
        labels => format!("{of} has {labels}, which its DaemonSet selects"),
    }
}

/// The state of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobHealth {
    /// It is complete.
    Complete,
    /// It runs, or its pod waits or starts.
    Running(String),
    /// Its pods fail and Kubernetes retries.
    Failing(String),
    /// It failed, and Kubernetes does not retry it.
    Failed(String),
}

/// Returns the state of a Job, with the reason why it is not complete.
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
