//! Verdicts on workloads and Jobs: what is available, what is on its way, what can't get on, and why.
//!
//! Two questions are asked of a workload, and their answers differ on purpose. *May a dependent start?* ([`available`]) is
//! what upstream's own init containers ask: one ready pod is enough. *Is it as wanted?* ([`verdict`]) is kstatus' question:
//! the newest generation seen, every pod of the newest template, all of them ready, none of an older template left.
//!
//! ```text
//! workload  a Deployment, StatefulSet or DaemonSet as the API server shows it → observed::Workload
//! job       a Job → observed::JobSeen
//! cron      a CronJob, and a Job that it made → observed::CronSeen, observed::Run
//! pod       a pod that is not ready → why, and for whom
//! refused   what a controller says that can make no pod
//! storage   a volume claim, a StorageClass → observed::Claim, observed::Class
//! node      whether a node is there, and how long it is waited for
//! ```
//!
//! Pure: no client, no clock.

pub mod cron;
pub mod job;
pub mod node;
pub mod pod;
pub mod refused;
pub mod storage;
pub mod workload;

use crate::api::{ComponentStatus, ComponentVerdict};
use crate::catalog::WorkloadKind;
use crate::observed::{JobSeen, Workload};

/// The reason of a component of which no workload was seen.
pub const NOT_SEEN: &str = "none of its workloads is there yet";

/// Whether dependents may start: at least one pod is ready, as upstream's init containers have it.
pub fn available(workload: &Workload) -> bool {
    workload.desired > 0 && workload.ready > 0
}

/// Whether it is a `DaemonSet` that no node has a place for, said by a controller that has seen its newest generation.
pub fn has_no_nodes(workload: &Workload) -> bool {
    workload.kind == WorkloadKind::DaemonSet && workload.desired == 0 && is_observed(workload)
}

/// The verdict on one workload.
pub fn verdict(workload: &Workload) -> ComponentStatus {
    let (status, reason) = judge(workload);
    ComponentStatus {
        status,
        generation: Some(workload.generation),
        ready: format!("{}/{}", workload.ready, workload.desired),
        reason,
    }
}

/// The verdict on one component from all its workloads: the worst of them, and their counts together.
///
/// A `DaemonSet` without nodes counts only when the component has nothing else: upstream splits a `DaemonSet` by per-node
/// overrides, and the default one is left with no node when the others cover all.
pub fn aggregate(workloads: &[&Workload]) -> ComponentStatus {
    let somewhere: Vec<&Workload> = workloads.iter().copied().filter(|workload| !has_no_nodes(workload)).collect();
    let counted = if somewhere.is_empty() { workloads } else { &somewhere };
    let Some(worst) = counted.iter().map(|workload| verdict(workload)).reduce(worse) else {
        return ComponentStatus {
            status: ComponentVerdict::Unknown,
            generation: None,
            ready: "0/0".into(),
            reason: NOT_SEEN.into(),
        };
    };
    let ready: i32 = counted.iter().map(|workload| workload.ready).sum();
    let desired: i32 = counted.iter().map(|workload| workload.desired).sum();
    ComponentStatus { ready: format!("{ready}/{desired}"), ..worst }
}

/// The verdict on a workload that someone scaled to 0 beside helm, and the ways back.
pub fn scaled_away(workload: &Workload) -> ComponentStatus {
    let Workload { kind, namespace, name, generation, .. } = workload;
    let kind = format!("{kind:?}").to_lowercase();
    ComponentStatus {
        status: ComponentVerdict::Unhealthy,
        generation: Some(*generation),
        ready: "0/0".into(),
        reason: format!(
            "{name} was scaled to 0; scale it back (`kubectl -n {namespace} scale {kind} {name} --replicas=…`), or ask for 0 in the release's values"
        ),
    }
}

/// The first of two equally bad ones stays.
fn worse(left: ComponentStatus, right: ComponentStatus) -> ComponentStatus {
    if right.status > left.status { right } else { left }
}

fn is_observed(workload: &Workload) -> bool {
    workload.observed_generation >= workload.generation
}

fn judge(workload: &Workload) -> (ComponentVerdict, String) {
    let Workload { generation, desired, ready, updated, outdated, .. } = *workload;
    let missing = desired.saturating_sub(ready);
    if !is_observed(workload) {
        return (ComponentVerdict::Progressing, format!("its controller has not seen generation {generation} yet"));
    }
    if has_no_nodes(workload) {
        let told = workload.trouble.as_ref().map(|trouble| trouble.message.clone());
        return (ComponentVerdict::Unknown, told.unwrap_or_else(|| no_nodes(workload, None)));
    }
    if missing <= 0 && updated >= desired && outdated <= 0 {
        return (ComponentVerdict::Ready, String::new());
    }
    if misses_only_lost_nodes(workload) {
        return (ComponentVerdict::Degraded, lost_nodes(&workload.lost_nodes));
    }
    if let Some(trouble) = &workload.trouble {
        let lost = trouble.stuck || workload.was_available;
        let status = if lost { ComponentVerdict::Unhealthy } else { ComponentVerdict::Progressing };
        return (status, trouble.message.clone());
    }
    // Where pods are missing, `ready` says so already.
    if workload.was_available && missing > 0 {
        return (ComponentVerdict::Unhealthy, "not all of its pods are ready any more".into());
    }
    if missing > 0 {
        return (ComponentVerdict::Progressing, String::new());
    }
    let what = if updated < desired {
        format!("{updated} of {desired} pods are of the newest template")
    } else {
        format!("{outdated} pods of an older template are still there")
    };
    (ComponentVerdict::Progressing, what)
}

/// Whether it runs everywhere but on nodes that are not there: nothing of it is wrong then.
fn misses_only_lost_nodes(workload: &Workload) -> bool {
    let Workload { kind, desired, ready, updated, .. } = *workload;
    let lost = i32::try_from(workload.lost_nodes.len()).unwrap_or(i32::MAX);
    kind == WorkloadKind::DaemonSet && lost > 0 && ready > 0 && desired - ready <= lost && desired - updated <= lost
}

/// `node n3 is NotReady`, in one line however many there are.
pub fn lost_nodes(nodes: &[String]) -> String {
    const NAMED: usize = 3;
    match nodes {
        [one] => format!("node {one} is NotReady"),
        few if few.len() <= NAMED => format!("nodes {} are NotReady", few.join(", ")),
        many => format!("nodes {} and {} more are NotReady", many[..NAMED].join(", "), many.len() - NAMED),
    }
}

/// Why a `DaemonSet` runs nowhere, with how many nodes there are, where that is known.
pub fn no_nodes(workload: &Workload, nodes: Option<usize>) -> String {
    let of = nodes.map_or_else(|| "no node".to_owned(), |nodes| format!("none of {nodes} nodes"));
    match workload.selects.as_str() {
        "" => format!("{of} is one that its DaemonSet selects"),
        labels => format!("{of} has {labels}, which its DaemonSet selects"),
    }
}

/// How far a Job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobVerdict {
    /// It is complete.
    Complete,
    /// It runs, or its pod waits or starts.
    Running(String),
    /// Its pods fail, and Kubernetes goes on trying.
    Failing(String),
    /// Kubernetes has given up on it.
    Failed(String),
}

/// The verdict on a Job; the text says why it is not complete.
pub fn job(job: &JobSeen) -> JobVerdict {
    let message = |otherwise: String| job.trouble.as_ref().map_or(otherwise, |trouble| trouble.message.clone());
    let stuck = job.trouble.as_ref().is_some_and(|trouble| trouble.stuck);
    if job.complete {
        JobVerdict::Complete
    } else if job.failed {
        JobVerdict::Failed(message("it has failed".into()))
    } else if stuck || job.failures > 0 {
        JobVerdict::Failing(message(format!("{} of its pods have failed", job.failures)))
    } else {
        JobVerdict::Running(message(String::new()))
    }
}

#[cfg(test)]
mod tests;
