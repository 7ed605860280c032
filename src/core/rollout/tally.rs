//! The pods of a component, counted.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::Scene;
use crate::observed::{DaemonPod, PodState, Rolling, Workload};

/// How long a new pod may take: images of a gigabyte are pulled in that time, and whatever takes longer a person should look at.
const PATIENCE: SignedDuration = SignedDuration::from_mins(15);

/// What is wrong with a node that was touched and is not there any more.
const AWAY: &str = "the node is NotReady since its pod was made anew";

/// What the pods of a component amount to.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Whether the controllers have seen the newest templates.
    pub(super) observed: bool,
    /// How many nodes shall have a pod.
    pub(super) total: i32,
    /// How many of them have none of the newest template, by the controllers' word.
    pub(super) stale_said: i32,
    /// The newest revision of its `DaemonSets` together; empty where one is not known.
    pub(super) revision: String,
    /// Pods of the newest revision, ready or not.
    pub(super) fresh: i32,
    /// How many of them are ready.
    pub(super) ready: i32,
    /// When the last of them became ready.
    pub(super) last: Option<Timestamp>,
    /// Nodes whose pods are being made anew, with what their pods wait for, where that is told.
    pub(super) batch: BTreeMap<String, String>,
    /// How many nodes have no pod at all, or one that was not sent there yet.
    pub(super) missing: i32,
    /// How many pods run where their `DaemonSet` would put none by now: what is made anew there does not come back.
    pub(super) misplaced: i32,
    /// The first node whose pod of the newest revision is unhealthy, and why.
    pub(super) unhealthy: Option<(String, String)>,
    /// Until when the first of those on their way is waited for.
    pub(super) patience: Option<Timestamp>,
    /// Pods of older revisions, in the order in which they go.
    pub(super) stale: Vec<DaemonPod>,
    /// Nodes that are `NotReady` and have a pod of an older revision.
    pub(super) skipped: BTreeSet<String>,
}

impl Tally {
    /// `batch` are the nodes of which was said last that their pods are being made anew.
    pub(super) fn of(scene: &Scene<'_>, sets: &[&Workload], rolling: Option<&Rolling>, batch: &[String]) -> Self {
        let mut tally = Self {
            observed: sets.iter().all(|set| set.observed_generation >= set.generation),
            total: sets.iter().map(|set| set.desired).sum(),
            stale_said: sets.iter().filter_map(|set| set.on_delete.as_ref()).map(|own| own.stale).sum(),
            ..Self::default()
        };
        let Some(rolling) = rolling else { return tally };
        let uids = sets.iter().filter_map(|set| set.on_delete.as_ref()).map(|own| own.uid.as_str());
        let uids: BTreeSet<&str> = uids.collect();
        tally.revision = revision(sets, rolling).unwrap_or_default();
        let own = || rolling.pods.iter().filter(|pod| uids.contains(pod.set.as_str()));
        for pod in own() {
            let is_fresh = rolling.revisions.get(&pod.set) == Some(&pod.revision);
            let is_leaving = pod.state == PodState::Leaving || scene.evicted.contains(&pod.uid);
            tally.count(scene, pod, is_fresh, is_leaving);
        }
        // One that leaves is there yet: its node is in the batch.
        let there: BTreeSet<&str> = own().map(|pod| pod.node.as_str()).collect();
        let exists = |node: &String| scene.nodes.is_none_or(|nodes| nodes.contains_key(node));
        let empty = batch.iter().filter(|node| exists(node) && !there.contains(node.as_str()));
        // A pod where none is wanted must not stand for one that is missing elsewhere.
        let by_count = tally.total.saturating_sub(count(own().count()));
        tally.missing += by_count.max(count(empty.count()));
        let away = own().filter(|pod| is_lost(scene, &pod.node)).count();
        let misscheduled: i32 = sets.iter().map(|set| set.misscheduled).sum();
        tally.misplaced = misscheduled.saturating_sub(count(away)).max(0);
        // A pod that is not ready harms nobody by going.
        tally.stale.sort_by_key(|pod| (matches!(pod.state, PodState::Ready(_)), pod.node.clone(), pod.name.clone()));
        tally
    }

    fn count(&mut self, scene: &Scene<'_>, pod: &DaemonPod, is_fresh: bool, is_leaving: bool) {
        let is_lost = is_lost(scene, &pod.node);
        self.fresh += i32::from(is_fresh && !is_leaving);
        match (&pod.state, is_fresh) {
            // It was well until its pod was made anew: that may be why.
            _ if is_leaving && is_lost => self.fail(pod, AWAY.into()),
            _ if is_leaving => drop(self.batch.insert(named(pod), String::new())),
            (_, false) if is_lost => drop(self.skipped.insert(named(pod))),
            (_, false) => self.stale.push(pod.clone()),
            (PodState::Ready(since), true) => {
                self.ready += 1;
                self.last = self.last.max(*since);
            }
            (_, true) if is_lost => self.fail(pod, AWAY.into()),
            (PodState::Unhealthy(why), true) => self.fail(pod, why.clone()),
            (PodState::Starting(..), true) if pod.node.is_empty() => self.missing += 1,
            (PodState::Starting(why, since), true) => self.start(scene.now, pod, why, *since),
            (PodState::Leaving, true) => {}
        }
    }

    fn fail(&mut self, pod: &DaemonPod, why: String) {
        self.batch.insert(named(pod), why.clone());
        self.unhealthy.get_or_insert_with(|| (named(pod), why));
    }

    /// One that takes longer than anything should is as good as unhealthy.
    fn start(&mut self, now: Timestamp, pod: &DaemonPod, why: &str, since: Option<Timestamp>) {
        let until = since.and_then(|since| since.checked_add(PATIENCE).ok());
        if until.is_some_and(|until| until <= now) {
            let minutes = PATIENCE.as_mins();
            return self
                .fail(pod, format!("not ready for {minutes} minutes{}{why}", if why.is_empty() { "" } else { ": " }));
        }
        self.batch.insert(named(pod), why.to_owned());
        self.patience = self.patience.into_iter().chain(until).min();
    }

    /// Whether pods are on their way.
    pub(super) fn is_in_flight(&self) -> bool {
        !self.batch.is_empty() || self.missing > 0
    }

    /// Whether the pods that are watched say the same as the controllers: two watches tell one after the other.
    pub(super) fn agrees(&self) -> bool {
        self.total - self.stale_said == self.fresh
    }
}

fn count(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

/// All of them together: what one of them is changed to is another one.
fn revision(sets: &[&Workload], rolling: &Rolling) -> Option<String> {
    let somewhere = sets.iter().filter(|set| set.desired > 0).filter_map(|set| set.on_delete.as_ref());
    let mut all = somewhere.map(|own| rolling.revisions.get(&own.uid).cloned()).collect::<Option<Vec<_>>>()?;
    all.sort();
    Some(all.join(","))
}

fn is_lost(scene: &Scene<'_>, node: &str) -> bool {
    scene.nodes.and_then(|nodes| nodes.get(node)).is_some_and(|node| node.missing)
}

/// Its node; itself, before it has one.
fn named(pod: &DaemonPod) -> String {
    if pod.node.is_empty() { pod.name.clone() } else { pod.node.clone() }
}
