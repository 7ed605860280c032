//! Decides whether a release that has the desired inputs is ready. For this purpose, osdpl checks the release's
//! workloads, the Jobs of its newest revision, and its API.

use super::Step;
use crate::api::{ComponentHealth, REPAIR};
use crate::catalog::{Component, WorkloadKind};
use crate::desired::DesiredRelease;
use crate::health;
use crate::observed::{DaemonSetGroup, Observed, ObservedRelease, ReleaseKey, Workload};

/// Whether a component of the release `key` is available. If so, helm can install or upgrade the other releases that
/// need the component.
pub(crate) fn component_available(component: &Component, key: &ReleaseKey, observed: &Observed) -> bool {
    // A component has several DaemonSets if the spec sets values for single nodes. A DaemonSet that selects no node
    // runs no pods, so ignore it.
    let own =
        workloads(key, observed).filter(|workload| workload.component == *component && !health::has_no_nodes(workload));
    let mut own = own.peekable();
    own.peek().is_some() && own.all(health::is_available)
}

fn workloads<'a>(key: &'a ReleaseKey, observed: &'a Observed) -> impl Iterator<Item = &'a Workload> {
    observed.workloads.iter().filter(|workload| workload.namespace == key.namespace && workload.release == key.name)
}

/// Returns the step of a release with the desired inputs: `Ready`, or `Settling` with the reasons why the release is
/// not ready yet.
pub fn settle_step(release: &DesiredRelease, record: &ObservedRelease, observed: &Observed) -> Step {
    let Some(body) = &record.body else {
        return Step::Settling(vec!["osdpl is still reading the release record".into()]);
    };
    let mut lines = Vec::new();
    for (kind, namespace, name) in &body.workloads {
        let is =
            |workload: &&Workload| workload.kind == *kind && workload.namespace == *namespace && workload.name == *name;
        let Some(workload) = observed.workloads.iter().find(is) else {
            lines.push(format!(
                "{kind:?} {name} does not exist; if someone deleted the object, annotate the OpenStackDeployment with \
                 {REPAIR}=<release>"
            ));
            continue;
        };
        if observed.is_scaled_to_zero(workload) {
            lines.push(format!("{} {}", workload.component, health::scaled_to_zero(workload).reason));
            continue;
        }
        let needed = release.components.contains_key(&workload.component);
        if !is_ready(workload) && !is_renewed(workload, observed) && (needed || !is_idle(workload)) {
            lines.push(describe(workload));
        }
    }
    for (namespace, name) in &body.jobs {
        let job = observed.jobs.iter().find(|job| job.namespace == *namespace && job.name == *name);
        // Do not wait for a missing Job. If the Job is a hook, it has completed: helm records a revision as deployed
        // only after its hooks have completed. If it is a plain Job, its absence is drift, which the plan treats
        // separately (`drift_action`).
        if let Some(job) = job.filter(|job| !job.complete) {
            let why = job.trouble.as_ref().map_or_else(String::new, |trouble| format!(": {}", trouble.message));
            lines.push(format!("Job {name} is not complete{why}"));
        }
    }
    if let Some(trouble) = observed.endpoints.get(&release.key).and_then(|probe| probe.trouble.as_ref()) {
        lines.push(format!("its endpoint does not respond as expected: {trouble}"));
    }
    if lines.is_empty() { Step::Ready } else { Step::Settling(lines) }
}

/// Whether the workload is a `DaemonSet` without nodes.
///
/// A release waits for such a `DaemonSet` only if the catalogue lists the `DaemonSet`'s component as a component of the
/// release.
fn is_idle(workload: &Workload) -> bool {
    workload.kind == WorkloadKind::DaemonSet && workload.desired == 0
}

/// Whether the workload is ready enough for its release to count as ready.
///
/// A degraded workload is ready enough: only its pods on `NotReady` nodes are missing. In a large cluster, some nodes
/// usually are `NotReady`, and the release must not wait for them.
fn is_ready(workload: &Workload) -> bool {
    matches!(health::assess(workload).status, ComponentHealth::Ready | ComponentHealth::Degraded)
}

/// Whether a rollout is the only reason why the workload is not ready: the rollout replaces the workload's pods, at
/// most one batch of pods is missing, and no pod is stuck.
fn is_renewed(workload: &Workload, observed: &Observed) -> bool {
    let Workload { namespace, component, desired, ready, trouble, .. } = workload;
    let daemons = DaemonSetGroup { namespace: namespace.clone(), component: component.clone() };
    let hangs = trouble.as_ref().is_some_and(|trouble| trouble.stuck);
    workload.on_delete.is_some()
        && !hangs
        && observed.rolling_batches.get(&daemons).is_some_and(|most| desired - ready <= *most)
}

/// Describes a workload that is not ready: its component, its ready pods and the reason.
fn describe(workload: &Workload) -> String {
    let health = health::assess(workload);
    let reason = if health.reason.is_empty() { String::new() } else { format!(": {}", health.reason) };
    format!("{} {}{reason}", workload.component, health.ready)
}
