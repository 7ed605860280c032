//! What pods mount whose containers are not created: asked for only when that takes longer than it does when all is well.

use super::Store;
use crate::tasks::health::mounts::{Found, Sought};
use osdpl_core::cause::Pods;
use osdpl_core::health::pod::Mount;

/// What is known of the mounts of a pod.
#[derive(Default)]
pub(super) struct Looked {
    /// How many times it was there when it was looked.
    looks: u32,
    in_flight: bool,
    absent: Vec<Mount>,
}

impl Looked {
    pub(super) fn absent(&self) -> &[Mount] {
        &self.absent
    }
}

/// At the second look, and then ever more seldom, but each time while something was found.
pub(super) fn is_due(looks: u32, in_flight: bool, found: bool) -> bool {
    !in_flight && looks > 1 && (found || (looks - 1).is_power_of_two())
}

/// Whether containers of any pod are being created.
pub(super) fn has_mounts(pods: &Pods<'_>) -> bool {
    pods.values().any(|pods| pods.first().is_some_and(|pod| !pod.wants.mounts.is_empty()))
}

impl Store {
    /// Takes one more look at the pods that each owner is told by, and returns those whose mounts are to be asked for now.
    pub(in crate::tasks::health) fn look(&mut self) -> Vec<Sought> {
        let pods = self.pods_by_owner();
        let first = pods.iter().filter_map(|(place, pods)| Some((place.0, *pods.first()?)));
        let first: Vec<Sought> = first
            .filter(|(_, pod)| !pod.wants.mounts.is_empty())
            .map(|(namespace, pod)| Sought {
                namespace: namespace.into(),
                uid: pod.uid.clone(),
                mounts: pod.wants.mounts.clone(),
            })
            .collect();
        let mut before = std::mem::take(&mut self.looked);
        let mut due = Vec::new();
        for sought in first {
            let mut known = before.remove(&sought.uid).unwrap_or_default();
            known.looks = known.looks.saturating_add(1);
            let uid = sought.uid.clone();
            if is_due(known.looks, known.in_flight, !known.absent.is_empty()) {
                known.in_flight = true;
                due.push(sought);
            }
            self.looked.insert(uid, known);
        }
        due
    }

    /// Keeps what was found.
    pub(in crate::tasks::health) fn keep_found(&mut self, found: Found) {
        if let Some(looked) = self.looked.get_mut(&found.uid) {
            looked.in_flight = false;
            looked.absent = found.absent;
        }
    }
}
