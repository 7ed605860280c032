//! Watches the pods of `DaemonSets` and the revisions of their pod templates, while osdpl rolls out a new pod template
//! to the nodes.
//!
//! Each pass sets the components to watch ([`crate::tasks::Tasks::watch_rollouts`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher;
use kube::{Api, Client};
use osdpl_values::CollectSorted;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::cache::WatchCache;
use super::partial::{ControllerRevision, Partial, Pod};
use super::problems::Problems;
use super::watch::follow;
use super::{Spawner, publish};
use crate::clock::steady;
use osdpl_core::health::pod;
use osdpl_core::observed::{DaemonPod, DaemonSetGroup, PodState, RolloutPods};
use osdpl_core::scrub::Scrubber;

/// The time for which the task collects changes of watched objects before it evaluates them together.
const DEBOUNCE: Duration = Duration::from_millis(15);

/// The components whose `DaemonSets` the task watches. Each pass sets them.
pub(super) type Wanted = BTreeSet<DaemonSetGroup>;

/// The pods and the pod template revisions of each watched component. The map contains a component only after the
/// component's watches have listed its pods and its revisions.
pub(super) type Found = BTreeMap<DaemonSetGroup, RolloutPods>;

/// A revision of a `DaemonSet`'s pod template, which Kubernetes stores as a `ControllerRevision`.
#[derive(Debug, PartialEq)]
struct Revision {
    /// The uid of the `DaemonSet` that owns the revision.
    set: String,
    hash: String,
    /// The number of the revision. Kubernetes gives the newest revision the highest number, even if someone restores an
    /// old pod template.
    number: i64,
}

/// The caches of the pods and the pod template revisions of one component.
///
/// After a restart of the operator, the watches list the pods and revisions again; [`PodTimes`] says what is lost.
#[derive(Default)]
struct Caches {
    pods: WatchCache<DaemonPod>,
    times: PodTimes,
    revisions: WatchCache<Revision>,
}

/// The watches of one component, and the caches that they fill. Dropping this value stops the watches.
struct Watched {
    caches: Arc<Mutex<Caches>>,
    watches: JoinSet<()>,
}

/// Starts the rollouts task. Returns the sender of the components to watch, and the receiver of the components' pods
/// and pod template revisions.
pub(super) fn spawn(
    spawner: &mut Spawner,
    client: &Client,
    scrubber: &watch::Receiver<Arc<Scrubber>>,
    problems: &Problems,
    trigger: &Arc<Notify>,
) -> (watch::Sender<Wanted>, watch::Receiver<Arc<Found>>) {
    let (targets, wanted) = watch::channel(Wanted::new());
    let (sender, found) = watch::channel(Arc::default());
    let (client, scrubber, own_problems) = (client.clone(), scrubber.clone(), problems.clone());
    let trigger = Arc::clone(trigger);
    spawner.spawn("rollouts", problems, move || {
        let (client, scrubber, problems) = (client.clone(), scrubber.clone(), own_problems.clone());
        run(client, scrubber, problems, wanted.clone(), sender.clone(), Arc::clone(&trigger))
    });
    (targets, found)
}

async fn run(
    client: Client,
    scrubber: watch::Receiver<Arc<Scrubber>>,
    problems: Problems,
    mut wanted: watch::Receiver<Wanted>,
    sender: watch::Sender<Arc<Found>>,
    trigger: Arc<Notify>,
) {
    let changed = Arc::new(Notify::new());
    let mut watched: BTreeMap<DaemonSetGroup, Watched> = BTreeMap::new();
    loop {
        let now = wanted.borrow_and_update().clone();
        watched.retain(|daemons, _| now.contains(daemons));
        for daemons in now {
            let start = |daemons: &_| Watched::new(daemons, &client, &scrubber, &problems, &changed);
            watched.entry(daemons).or_insert_with_key(start);
        }
        // A watch ends only if it panics. Then end this task, too: the spawner restarts it, and it lists all objects
        // again.
        if watched.values_mut().any(|watched| watched.watches.try_join_next().is_some()) {
            return;
        }
        let found = watched.iter().filter_map(|(daemons, watched)| Some((daemons.clone(), watched.found()?)));
        publish(Arc::new(found.collect_map()), &sender, &trigger);
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return },
            () = changed.notified() => tokio::time::sleep(DEBOUNCE).await,
        }
    }
}

impl Watched {
    fn new(
        DaemonSetGroup { namespace, component }: &DaemonSetGroup,
        client: &Client,
        scrubber: &watch::Receiver<Arc<Scrubber>>,
        problems: &Problems,
        changed: &Arc<Notify>,
    ) -> Self {
        let (caches, mut watches) = (Arc::<Mutex<Caches>>::default(), JoinSet::new());
        let labels = format!("application={},component={}", component.application, component.component);
        let selector = watcher::Config::default().labels(&labels);
        let (observed, notify, scrubber) = (Arc::clone(&caches), Arc::clone(changed), scrubber.clone());
        let pods: Api<Partial<Pod>> = Api::namespaced(client.clone(), namespace);
        watches.spawn(follow(pods, selector.clone(), problems.clone(), move |event| {
            let scrubber = scrubber.borrow();
            let Caches { pods, times, .. } = &mut *lock(&observed);
            let read = |pod: &Partial<Pod>| {
                let pod = pod::observe_daemon_pod(&pod.metadata, &pod.spec, &pod.status, &scrubber)?;
                Some(times.with_own_time(pod, steady()))
            };
            if pods.apply(event, read) {
                times.forget_others(pods.entries().map(|(_, pod)| pod));
                notify.notify_one();
            }
        }));
        let (observed, notify) = (Arc::clone(&caches), Arc::clone(changed));
        let revisions: Api<Partial<ControllerRevision>> = Api::namespaced(client.clone(), namespace);
        watches.spawn(follow(revisions, selector, problems.clone(), move |event| {
            if lock(&observed).revisions.apply(event, revision) {
                notify.notify_one();
            }
        }));
        Self { caches, watches }
    }

    /// Returns the component's pods, and the newest pod template revision of each `DaemonSet`; `None` until the watches
    /// have listed all pods and revisions.
    fn found(&self) -> Option<RolloutPods> {
        let caches = lock(&self.caches);
        if !caches.pods.is_listed() || !caches.revisions.is_listed() {
            return None;
        }
        let mut newest: BTreeMap<&str, &Revision> = BTreeMap::new();
        for (_, revision) in caches.revisions.entries() {
            let known = newest.entry(&revision.set).or_insert(revision);
            if known.number < revision.number {
                *known = revision;
            }
        }
        let revisions = newest.into_iter().map(|(set, revision)| (set.to_owned(), revision.hash.clone()));
        Some(RolloutPods {
            pods: caches.pods.entries().map(|(_, pod)| pod.clone()).collect(),
            revisions: revisions.collect_map(),
        })
    }
}

/// Locks the caches of a component, even if a watch panicked while it held the lock, because no panic can leave the
/// caches inconsistent.
fn lock(caches: &Mutex<Caches>) -> MutexGuard<'_, Caches> {
    caches.lock().unwrap_or_else(PoisonError::into_inner)
}

fn revision(object: &Partial<ControllerRevision>) -> Option<Revision> {
    let metadata = &object.metadata;
    let controller = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let hash = metadata.labels.as_ref()?.get(pod::REVISION)?.clone();
    Some(Revision { set: controller.uid.clone(), hash, number: object.revision })
}

/// For each pod (by its uid): whether the pod is ready, and when this process first saw the pod in this state.
///
/// The map measures by the clock of this process how long pods have been starting or ready. The times in the pods'
/// status come from clocks of other machines, which may be wrong by hours.
///
/// A restart of the operator loses these times, and the measurement begins again. Then a rollout waits longer for new
/// pods, and it takes longer until osdpl reports a pod that does not become ready.
#[derive(Default)]
struct PodTimes(BTreeMap<String, (bool, Timestamp)>);

impl PodTimes {
    /// Replaces the time in the pod's state with the time at which this process first saw the pod in this state. `now`
    /// is the current time by this process's clock.
    fn with_own_time(&mut self, mut pod: DaemonPod, now: Timestamp) -> DaemonPod {
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
    fn forget_others<'a>(&mut self, existing: impl Iterator<Item = &'a DaemonPod>) {
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
        // The result must not depend on the times in the pods' status: other clocks set them, and may be an hour off.
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
