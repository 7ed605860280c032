//! Measures how long pods have been starting or ready, by the clock of this process. The times in the pods' status come
//! from clocks of other machines, which may be wrong by hours.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use osdpl_values::CollectSorted;

use osdpl_core::observed::{DaemonPod, PodState};

/// For each pod (by its uid): whether the pod is ready, and when this process first saw the pod in this state.
///
/// Kept because the cluster contains these times only by other clocks. A restart of the operator loses the times: they
/// begin again, so a rollout waits longer for new pods, and reports a pod that does not become ready later.
#[derive(Default)]
pub(super) struct PodTimes(BTreeMap<String, (bool, Timestamp)>);

impl PodTimes {
    /// Returns the pod with the time at which this process first saw the pod in its current state. `now` is the current
    /// time by this process's clock.
    pub(super) fn with_own_time(&mut self, mut pod: DaemonPod, now: Timestamp) -> DaemonPod {
        let (is_ready, since) = match &mut pod.state {
            PodState::Ready(since) => (true, since),
            PodState::Starting(_, since) => (false, since),
            PodState::Unhealthy(_) | PodState::Terminating => return pod,
        };
        let known = self.0.get(&pod.uid).filter(|(was_ready, _)| *was_ready == is_ready).map(|(_, since)| *since);
        let first = known.unwrap_or(now);
        self.0.insert(pod.uid.clone(), (is_ready, first));
        *since = Some(first);
        pod
    }

    /// Forgets all pods that are not in `existing`, so that the map does not grow for ever. Does nothing until the map
    /// contains more deleted than existing pods.
    pub(super) fn forget_others<'a>(&mut self, existing: impl Iterator<Item = &'a DaemonPod>) {
        let existing: BTreeSet<&str> = existing.map(|pod| pod.uid.as_str()).collect_set();
        if self.0.len() > 2 * existing.len() {
            self.0.retain(|uid, _| existing.contains(uid.as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_the_time_of_a_state_by_the_own_clock() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let pod = |state| DaemonPod {
            name: "a".into(),
            uid: "u".into(),
            set: "s".into(),
            node: "n".into(),
            revision: "r".into(),
            state,
        };
        let mut times = PodTimes::default();
        let mut observe = |state, now| times.with_own_time(pod(state), at(now)).state;
        let starting = |why: &str, since| PodState::Starting(why.into(), Some(at(since)));
        // The times in the pods' status must have no effect, even if they are an hour behind or ahead of this process's
        // clock.
        assert_eq!(observe(starting("", 400), 4000), starting("", 4000));
        assert_eq!(observe(starting("pulls its image", 400), 4007), starting("pulls its image", 4000));
        assert_eq!(observe(PodState::Ready(Some(at(8000))), 4009), PodState::Ready(Some(at(4009))));
        assert_eq!(observe(PodState::Ready(Some(at(8000))), 4020), PodState::Ready(Some(at(4009))));
        assert_eq!(observe(PodState::Unhealthy("down".into()), 4030), PodState::Unhealthy("down".into()));
        assert_eq!(observe(starting("", 400), 4040), starting("", 4040));
    }

    #[test]
    fn forgets_pods_that_no_longer_exist() {
        let pod = |uid: &str| DaemonPod {
            name: uid.into(),
            uid: uid.into(),
            set: "s".into(),
            node: "n".into(),
            revision: "r".into(),
            state: PodState::Ready(None),
        };
        let mut times = PodTimes::default();
        for uid in ["a", "b", "c"] {
            times.with_own_time(pod(uid), Timestamp::UNIX_EPOCH);
        }
        times.forget_others([pod("a"), pod("b")].iter());
        assert_eq!(times.0.len(), 3);
        times.forget_others([pod("a")].iter());
        assert_eq!(times.0.keys().collect::<Vec<_>>(), ["a"]);
    }
}
