//! Whether a release in sync is done: its workloads, this revision's Jobs, and its API where that can be asked.

use super::Step;
use crate::api::{ComponentVerdict, REPAIR};
use crate::catalog::{Component, WorkloadKind};
use crate::desired::DesiredRelease;
use crate::health;
use crate::observed::{Daemons, Key, Observed, ReleaseSeen, Workload};

/// Whether a component of the release `key` is available to those that need it.
pub fn component_available(component: &Component, key: &Key, observed: &Observed) -> bool {
    // A DaemonSet that per-node overrides emptied stands beside those that took its nodes over.
    let own =
        workloads(key, observed).filter(|workload| workload.component == *component && !health::has_no_nodes(workload));
    let mut own = own.peekable();
    own.peek().is_some() && own.all(health::available)
}

fn workloads<'a>(key: &'a Key, observed: &'a Observed) -> impl Iterator<Item = &'a Workload> {
    observed.workloads.iter().filter(|workload| workload.namespace == key.namespace && workload.release == key.name)
}

/// The step of a release in sync: ready, or what is not ready yet.
pub fn settling(release: &DesiredRelease, seen: &ReleaseSeen, observed: &Observed) -> Step {
    let Some(body) = &seen.body else { return Step::Settle(vec!["its release record is being read".into()]) };
    let mut lines = Vec::new();
    for (kind, namespace, name) in &body.workloads {
        let is =
            |workload: &&Workload| workload.kind == *kind && workload.namespace == *namespace && workload.name == *name;
        let Some(workload) = observed.workloads.iter().find(is) else {
            lines.push(format!("{kind:?} {name} is not there; if it was deleted, annotate {REPAIR}=<release>"));
            continue;
        };
        if observed.is_scaled_away(workload) {
            lines.push(format!("{} {}", workload.component, health::scaled_away(workload).reason));
            continue;
        }
        let needed = release.components.contains_key(&workload.component);
        if !is_ready(workload) && !is_renewed(workload, observed) && (needed || !is_idle(workload)) {
            lines.push(line(workload));
        }
    }
    for (namespace, name) in &body.jobs {
        let job = observed.jobs.iter().find(|job| job.namespace == *namespace && job.name == *name);
        // A Job that is gone was complete before helm recorded the revision as deployed, or is a plain one that is still to come.
        if let Some(job) = job.filter(|job| !job.complete) {
            let why = job.trouble.as_ref().map_or_else(String::new, |trouble| format!(": {}", trouble.message));
            lines.push(format!("Job {name} is not complete{why}"));
        }
    }
    if let Some(trouble) = observed.endpoints.get(&release.key).and_then(|seen| seen.trouble.as_ref()) {
        lines.push(format!("its endpoint does not answer as it should: {trouble}"));
    }
    if lines.is_empty() { Step::Ready } else { Step::Settle(lines) }
}

/// A `DaemonSet` without nodes that no preset asked for is nothing to wait for.
fn is_idle(workload: &Workload) -> bool {
    workload.kind == WorkloadKind::DaemonSet && workload.desired == 0
}

/// A node that is not there is told of, and holds nothing up: of three hundred one mostly is.
fn is_ready(workload: &Workload) -> bool {
    matches!(health::verdict(workload).status, ComponentVerdict::Ready | ComponentVerdict::Degraded)
}

/// What is made anew batch by batch is missing on no more nodes than a batch has, and does not hang: nothing waits for it.
fn is_renewed(workload: &Workload, observed: &Observed) -> bool {
    let Workload { namespace, component, desired, ready, trouble, .. } = workload;
    let daemons = Daemons { namespace: namespace.clone(), component: component.clone() };
    let hangs = trouble.as_ref().is_some_and(|trouble| trouble.stuck);
    workload.on_delete.is_some()
        && !hangs
        && observed.renewed.get(&daemons).is_some_and(|most| desired - ready <= *most)
}

fn line(workload: &Workload) -> String {
    let verdict = health::verdict(workload);
    let reason = if verdict.reason.is_empty() { String::new() } else { format!(": {}", verdict.reason) };
    format!("{} {}{reason}", workload.component, verdict.ready)
}
