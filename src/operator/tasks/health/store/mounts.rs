//! Decides when the health task checks whether the Secrets and ConfigMaps that a pod mounts exist. A check is due only
//! if Kubernetes takes longer than usual to create the pod's containers.

use super::Store;
use crate::tasks::health::mounts::{Found, MountQuery};
use osdpl_core::cause::Pods;
use osdpl_core::health::pod::Mount;

/// The progress of a check for one pod: whether the Secrets and ConfigMaps that the pod mounts exist.
#[derive(Default)]
pub(super) struct MountCheck {
    /// The number of rounds of the health task in which Kubernetes was creating the pod's containers.
    rounds: u32,
    in_flight: bool,
    absent: Vec<Mount>,
}

impl MountCheck {
    pub(super) fn absent(&self) -> &[Mount] {
        &self.absent
    }
}

/// Whether the health task must send a request in this round to find out why an object waits. `rounds` counts the
/// rounds in which the object has waited. `in_flight` says whether a request about the object is still running, and
/// `found` whether the last request has found a reason.
///
/// The first request is due in the second round, later requests at growing intervals. After a request that has found a
/// reason, a request is due in every round, so that osdpl soon notices when the reason is gone.
pub(super) fn is_due(rounds: u32, in_flight: bool, found: bool) -> bool {
    !in_flight && rounds > 1 && (found || (rounds - 1).is_power_of_two())
}

/// Whether any pod mounts Secrets or ConfigMaps whose existence the health task may have to check, because Kubernetes
/// has not created the pod's containers yet.
pub(super) fn has_mounts(pods: &Pods<'_>) -> bool {
    pods.values().any(|pods| pods.first().is_some_and(|pod| !pod.requirements.mounts.is_empty()))
}

impl Store {
    /// Counts one more round of the health task. Returns the checks of mounts that the task runs in this round. For
    /// each workload or Job, the task checks at most the first pod.
    pub(in crate::tasks::health) fn due_mount_queries(&mut self) -> Vec<MountQuery> {
        let pods = self.pods_by_owner();
        let first = pods.iter().filter_map(|(owner, pods)| Some((owner.0, *pods.first()?)));
        let first: Vec<MountQuery> = first
            .filter(|(_, pod)| !pod.requirements.mounts.is_empty())
            .map(|(namespace, pod)| MountQuery {
                namespace: namespace.into(),
                uid: pod.uid.clone(),
                mounts: pod.requirements.mounts.clone(),
            })
            .collect();
        let mut previous = std::mem::take(&mut self.mount_checks);
        let mut due = Vec::new();
        for query in first {
            let mut known = previous.remove(&query.uid).unwrap_or_default();
            known.rounds = known.rounds.saturating_add(1);
            let uid = query.uid.clone();
            if is_due(known.rounds, known.in_flight, !known.absent.is_empty()) {
                known.in_flight = true;
                due.push(query);
            }
            self.mount_checks.insert(uid, known);
        }
        due
    }

    /// Stores the missing Secrets and ConfigMaps that a check of a pod's mounts has found.
    pub(in crate::tasks::health) fn store_missing_mounts(&mut self, found: Found) {
        if let Some(check) = self.mount_checks.get_mut(&found.uid) {
            check.in_flight = false;
            check.absent = found.absent;
        }
    }
}
