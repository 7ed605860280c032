//! Finds the objects that wait although no watched object shows a reason: workloads and Jobs without pods, and volume
//! claims without a volume.

use std::collections::BTreeMap;

use super::mounts::is_due;
use super::{Store, job_owner, workload_owner};
use crate::tasks::cache::WatchCache;
use crate::tasks::health::events::{CLAIM, EventMessage, Subject};
use osdpl_core::catalog::WorkloadKind;
use osdpl_core::cause::{OwnerRef, Pods};
use osdpl_core::health::pod::OwnerKind;
use osdpl_core::health::pod_creation::{describe_creation_error, shorten};
use osdpl_core::observed::{ClaimPhase, Workload};
use osdpl_values::CollectSorted;

/// The state of the event queries about one object that waits although no watched object shows a reason.
#[derive(Default)]
pub(super) struct EventCheck {
    /// The number of rounds of the health task in which the object waited although no watched object showed a reason.
    rounds: u32,
    in_flight: bool,
    message: Option<String>,
}

impl Store {
    /// Returns the workloads, Jobs and volume claims that wait although no watched object shows a reason.
    pub(super) fn unexplained(&self, pods: &Pods<'_>) -> Vec<Subject> {
        let subject =
            |kind, namespace: &str, name: &str| Subject { kind, namespace: namespace.into(), name: name.into() };
        let workloads = self.workloads.iter().flat_map(WatchCache::entries).map(|(_, workload)| workload);
        let workloads = workloads.filter(|workload| lacks_pods(workload, pods)).filter_map(|workload| {
            let kind = match workload.kind {
                // A Deployment needs no query for events: its own conditions explain why it has no pods.
                WorkloadKind::Deployment => return None,
                WorkloadKind::StatefulSet => "StatefulSet",
                WorkloadKind::DaemonSet => "DaemonSet",
            };
            Some(subject(kind, &workload.namespace, &workload.name))
        });
        let jobs =
            self.revised_jobs().filter(|job| !job.complete && !job.failed && !pods.contains_key(&job_owner(job)));
        let jobs = jobs.map(|job| subject("Job", &job.namespace, &job.name));
        let claims = self.claims.iter().flat_map(WatchCache::entries).map(|(_, claim)| claim);
        let claims = claims.filter(|claim| claim.phase == ClaimPhase::Pending && claim.release.is_some());
        workloads.chain(jobs).chain(claims.map(|claim| subject(CLAIM, &claim.namespace, &claim.name))).collect()
    }

    /// Counts one more round of the health task. Returns the objects about which the task must query events in this
    /// round: they wait although no watched object shows a reason.
    pub(in crate::tasks::health) fn due_event_queries(&mut self) -> Vec<Subject> {
        let mut previous = std::mem::take(&mut self.event_checks);
        let mut due = Vec::new();
        for subject in self.unexplained(&self.pods_by_owner()) {
            let mut known = previous.remove(&subject).unwrap_or_default();
            known.rounds = known.rounds.saturating_add(1);
            if is_due(known.rounds, known.in_flight, known.message.is_some()) {
                known.in_flight = true;
                due.push(subject.clone());
            }
            self.event_checks.insert(subject, known);
        }
        due
    }

    /// Marks all queries of events as not running.
    pub(super) fn forget_event_queries(&mut self) {
        for check in self.event_checks.values_mut() {
            check.in_flight = false;
        }
    }

    /// Stores the message of the event that a query has found.
    pub(in crate::tasks::health) fn store_event(&mut self, EventMessage { subject, message }: EventMessage) {
        if let Some(check) = self.event_checks.get_mut(&subject) {
            let shorten = |message: String| {
                if subject.kind == CLAIM { shorten(&message) } else { describe_creation_error(&message) }
            };
            check.in_flight = false;
            check.message = message.map(shorten);
        }
    }

    /// Returns the workloads and Jobs whose pods Kubernetes can't create, each with the reason.
    pub(super) fn refused(&self) -> BTreeMap<OwnerRef<'_>, &str> {
        let deployments = self.workloads.iter().flat_map(WatchCache::entries);
        let deployments = deployments.filter_map(|(_, workload)| {
            let trouble = workload.trouble.as_ref()?;
            Some((workload_owner(workload), trouble.message.as_str()))
        });
        let from_events = self.event_checks.iter().filter_map(|(subject, check)| {
            let kind = match subject.kind {
                "StatefulSet" => OwnerKind::StatefulSet,
                "DaemonSet" => OwnerKind::DaemonSet,
                "Job" => OwnerKind::Job,
                _ => return None,
            };
            Some(((subject.namespace.as_str(), kind, subject.name.as_str()), check.message.as_deref()?))
        });
        deployments.chain(from_events).collect_map()
    }

    /// Returns the volume claims (by namespace and name) whose volume the provisioner can't create, each with the
    /// reason.
    pub(super) fn provisioners(&self) -> BTreeMap<(&str, &str), &str> {
        let claims = self.event_checks.iter().filter(|(subject, _)| subject.kind == CLAIM);
        let messages = claims.filter_map(|(subject, check)| {
            Some(((subject.namespace.as_str(), subject.name.as_str()), check.message.as_deref()?))
        });
        messages.collect_map()
    }
}

/// Whether the workload needs more ready pods, although none of its pods is starting: Kubernetes seems unable to create
/// its pods.
fn lacks_pods(workload: &Workload, pods: &Pods<'_>) -> bool {
    let newest_is_seen = workload.observed_generation >= workload.generation;
    newest_is_seen && workload.ready < workload.desired && !pods.contains_key(&workload_owner(workload))
}

#[cfg(test)]
mod tests;
