//! Verdicts on workloads.

use crate::api::{ComponentStatus, ComponentVerdict};
use crate::observed::Workload;

/// Whether a need on the workload's component is met.
pub fn available(workload: &Workload) -> bool {
    workload.ready > 0
}

/// The verdict on one workload.
pub fn verdict(workload: &Workload) -> ComponentStatus {
    let current = workload.observed_generation >= workload.generation;
    let done = current && workload.desired > 0 && workload.ready >= workload.desired && workload.updated >= workload.desired;
    let trouble = workload.trouble.as_ref();
    ComponentStatus {
        status: match (done, trouble) {
            (true, _) => ComponentVerdict::Ready,
            (false, Some(trouble)) if trouble.stuck => ComponentVerdict::Unhealthy,
            _ => ComponentVerdict::Progressing,
        },
        generation: Some(workload.generation),
        ready: format!("{}/{}", workload.ready, workload.desired),
        reason: trouble.map(|trouble| trouble.message.clone()).unwrap_or_default(),
    }
}

/// The verdict on a component with several workloads: the worst one, pods summed.
pub fn aggregate(workloads: &[&Workload]) -> ComponentStatus {
    let worst = workloads.iter().map(|workload| verdict(workload)).max_by_key(|status| match status.status {
        ComponentVerdict::Ready => 0,
        ComponentVerdict::Unknown => 1,
        ComponentVerdict::Progressing => 2,
        ComponentVerdict::Unhealthy => 3,
    });
    let sum = |count: fn(&Workload) -> i32| workloads.iter().map(|workload| count(workload)).sum::<i32>();
    let ready = format!("{}/{}", sum(|workload| workload.ready), sum(|workload| workload.desired));
    let worst = worst.unwrap_or(ComponentStatus {
        status: ComponentVerdict::Unknown,
        generation: None,
        ready: String::new(),
        reason: String::new(),
    });
    ComponentStatus { ready, ..worst }
}
