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
