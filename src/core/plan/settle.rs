//! Readiness of a release in sync: its workloads, the Jobs of its revision, and its API if that is probed.

use super::Step;
use crate::api::{ComponentVerdict, REPAIR};
use crate::catalog::{Component, WorkloadKind};
use crate::desired::DesiredRelease;
use crate::health;
use crate::observed::{Daemons, Key, Observed, ReleaseSeen, Workload};

/// Whether a component of release `key` is available to its dependents.
pub fn component_available(component: &Component, key: &Key, observed: &Observed) -> bool {
    // Per-node overrides can leave a DaemonSet without nodes, next to those that took its nodes over.
    let own =
        workloads(key, observed).filter(|workload| workload.component == *component && !health::has_no_nodes(workload));
    let mut own = own.peekable();
    own.peek().is_some() && own.all(health::available)
}

fn workloads<'a>(key: &'a Key, observed: &'a Observed) -> impl Iterator<Item = &'a Workload> {
    observed.workloads.iter().filter(|workload| workload.namespace == key.namespace && workload.release == key.name)
}

/// The step of a release in sync: ready, or the list of what is not ready yet.
pub fn settling(release: &DesiredRelease, seen: &ReleaseSeen, observed: &Observed) -> Step {
    let Some(body) = &seen.body else { return Step::Settle(vec!["its release record is being read".into()]) };
    let mut lines = Vec::new();
    for (kind, namespace, name) in &body.workloads {
        let is =
            |workload: &&Workload| workload.kind == *kind && workload.namespace == *namespace && workload.name == *name;
        let Some(workload) = observed.workloads.iter().find(is) else {
            lines.push(format!("{kind:?} {name} does not exist; if it was deleted, annotate {REPAIR}=<release>"));
            continue;
        };
        if observed.is_scaled_away(workload) {
            lines.push(format!("{} {}", workload.component, health::scaled_away(workload).reason));
            continue;
        }
        let needed = release.components.contains_key(&workload.component);
        if !is_ready(workload) && !is_renewed(workload, observed) && (needed || !is_idle(workload)) {
            lines.push(describe(workload));
        }
    }
    for (namespace, name) in &body.jobs {
        let job = observed.jobs.iter().find(|job| job.namespace == *namespace && job.name == *name);
        // A Job that does not exist was complete before helm recorded the revision as deployed, or is a plain Job that
        // is still to be created.
        if let Some(job) = job.filter(|job| !job.complete) {
            let why = job.trouble.as_ref().map_or_else(String::new, |trouble| format!(": {}", trouble.message));
            lines.push(format!("Job {name} is not complete{why}"));
        }
    }
    if let Some(trouble) = observed.endpoints.get(&release.key).and_then(|seen| seen.trouble.as_ref()) {
        lines.push(format!("its endpoint does not respond as expected: {trouble}"));
    }
    if lines.is_empty() { Step::Ready } else { Step::Settle(lines) }
}

/// Whether it is a `DaemonSet` without nodes. Ignored unless the release requires its component.
fn is_idle(workload: &Workload) -> bool {
    workload.kind == WorkloadKind::DaemonSet && workload.desired == 0
}

/// Whether the workload is ready. A missing node only degrades it: in large clusters some node is usually down.
fn is_ready(workload: &Workload) -> bool {
    matches!(health::verdict(workload).status, ComponentVerdict::Ready | ComponentVerdict::Degraded)
}

/// Whether the workload only misses the pods of the batch that is being replaced, and none of them is stuck.
fn is_renewed(workload: &Workload, observed: &Observed) -> bool {
    let Workload { namespace, component, desired, ready, trouble, .. } = workload;
    let daemons = Daemons { namespace: namespace.clone(), component: component.clone() };
    let hangs = trouble.as_ref().is_some_and(|trouble| trouble.stuck);
    workload.on_delete.is_some()
        && !hangs
        && observed.renewed.get(&daemons).is_some_and(|most| desired - ready <= *most)
}

fn describe(workload: &Workload) -> String {
    let verdict = health::verdict(workload);
    let reason = if verdict.reason.is_empty() { String::new() } else { format!(": {}", verdict.reason) };
    format!("{} {}{reason}", workload.component, verdict.ready)
}
