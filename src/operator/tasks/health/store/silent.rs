//! Who waits without a word: workloads and Jobs that lack pods, claims that lack a volume.

use std::collections::BTreeMap;

use super::mounts::is_due;
use super::{Store, of_job, of_workload};
use crate::tasks::health::said::{CLAIM, Heard, Subject};
use crate::tasks::shard::Shard;
use osdpl_core::catalog::WorkloadKind;
use osdpl_core::cause::{Place, Pods};
use osdpl_core::health::pod::OwnerKind;
use osdpl_core::health::refused::{no_pod, shortened};
use osdpl_core::observed::{ClaimPhase, Workload};

/// What is known of what is said of an object.
#[derive(Default)]
pub(super) struct Silence {
    /// How many times it waited when it was looked.
    looks: u32,
    in_flight: bool,
    said: Option<String>,
}

impl Store {
    /// Whatever waits and does not say why.
    pub(super) fn silent(&self, pods: &Pods<'_>) -> Vec<Subject> {
        let subject =
            |kind, namespace: &str, name: &str| Subject { kind, namespace: namespace.into(), name: name.into() };
        let workloads = self.workloads.iter().flat_map(Shard::entries).map(|(_, workload)| workload);
        let workloads = workloads.filter(|workload| lacks_pods(workload, pods)).filter_map(|workload| {
            let kind = match workload.kind {
                // Its conditions tell.
                WorkloadKind::Deployment => return None,
                WorkloadKind::StatefulSet => "StatefulSet",
                WorkloadKind::DaemonSet => "DaemonSet",
            };
            Some(subject(kind, &workload.namespace, &workload.name))
        });
        let jobs = self.revised_jobs().filter(|job| !job.complete && !job.failed && !pods.contains_key(&of_job(job)));
        let jobs = jobs.map(|job| subject("Job", &job.namespace, &job.name));
        let claims = self.claims.iter().flat_map(Shard::entries).map(|(_, claim)| claim);
        let claims = claims.filter(|claim| claim.phase == ClaimPhase::Pending && claim.release.is_some());
        workloads.chain(jobs).chain(claims.map(|claim| subject(CLAIM, &claim.namespace, &claim.name))).collect()
    }

    /// Takes one more look at them, and returns those of which is to be asked now what is said.
    pub(in crate::tasks::health) fn listen(&mut self) -> Vec<Subject> {
        let mut before = std::mem::take(&mut self.silences);
        let mut due = Vec::new();
        for subject in self.silent(&self.pods_by_owner()) {
            let mut known = before.remove(&subject).unwrap_or_default();
            known.looks = known.looks.saturating_add(1);
            if is_due(known.looks, known.in_flight, known.said.is_some()) {
                known.in_flight = true;
                due.push(subject.clone());
            }
            self.silences.insert(subject, known);
        }
        due
    }

    /// Keeps what was heard.
    pub(in crate::tasks::health) fn keep_heard(&mut self, Heard { subject, said }: Heard) {
        if let Some(silence) = self.silences.get_mut(&subject) {
            let words = |said: String| if subject.kind == CLAIM { shortened(&said) } else { no_pod(&said) };
            silence.in_flight = false;
            silence.said = said.map(words);
        }
    }

    /// Why no pods of a workload or Job can be made.
    pub(super) fn refused(&self) -> BTreeMap<Place<'_>, &str> {
        let deployments = self.workloads.iter().flat_map(Shard::entries);
        let deployments = deployments.filter_map(|(_, workload)| {
            let trouble = workload.trouble.as_ref()?;
            Some((of_workload(workload), trouble.message.as_str()))
        });
        let heard = self.silences.iter().filter_map(|(subject, silence)| {
            let kind = match subject.kind {
                "StatefulSet" => OwnerKind::StatefulSet,
                "DaemonSet" => OwnerKind::DaemonSet,
                "Job" => OwnerKind::Job,
                _ => return None,
            };
            Some(((subject.namespace.as_str(), kind, subject.name.as_str()), silence.said.as_deref()?))
        });
        deployments.chain(heard).collect()
    }

    /// Why claims have no volume, in their provisioners' words.
    pub(super) fn provisioners(&self) -> BTreeMap<(&str, &str), &str> {
        let claims = self.silences.iter().filter(|(subject, _)| subject.kind == CLAIM);
        let said = claims.filter_map(|(subject, silence)| {
            Some(((subject.namespace.as_str(), subject.name.as_str()), silence.said.as_deref()?))
        });
        said.collect()
    }
}

/// Whether its controller should be making pods, and none is to be seen.
fn lacks_pods(workload: &Workload, pods: &Pods<'_>) -> bool {
    let newest_is_seen = workload.observed_generation >= workload.generation;
    newest_is_seen && workload.ready < workload.desired && !pods.contains_key(&of_workload(workload))
}

#[cfg(test)]
mod tests;
