//! Counts, for the rollout of a component, the component's outdated, new, missing and unhealthy pods.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use osdpl_values::CollectSorted;

use super::Input;
use crate::observed::{DaemonPod, PodState, RolloutPods, Workload};

/// The time after which osdpl treats a new pod that is not ready as unhealthy. The time is long enough to pull large
/// images.
const START_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);

/// The message about a node that became `NotReady` after osdpl evicted its pod.
const NODE_LOST: &str = "the node became NotReady when its pod was replaced";

/// The number of a component's pods in each state, and the pods and nodes on which the next step of the rollout
/// depends.
#[derive(Debug, Default)]
pub(super) struct PodCounts {
    /// Whether the status of all `DaemonSets` is current: Kubernetes has observed the newest generation of each
    /// `DaemonSet`.
    pub(super) observed: bool,
    /// The number of nodes that should run a pod of the component.
    pub(super) total: i32,
    /// The number of nodes that have no pod with the newest pod template, according to the status of the `DaemonSets`.
    pub(super) stale_count: i32,
    /// The revisions of the newest pod templates, joined to one string; empty if any revision is unknown. Leaves out
    /// `DaemonSets` that select no node.
    pub(super) revision: String,
    /// The number of pods that have the newest pod template and are not being deleted.
    pub(super) fresh: i32,
    /// The number of ready pods that have the newest pod template.
    pub(super) ready: i32,
    /// The latest time at which a pod with the newest pod template became ready; `None` if no such time is known. The
    /// pause between two batches starts at this time.
    pub(super) last: Option<Timestamp>,
    /// The nodes whose pods are being replaced. Each value says why the node's pod is not ready; an empty value means
    /// that the reason is unknown.
    pub(super) batch: BTreeMap<String, String>,
    /// The number of nodes that should have a pod but have none. While a pod is not scheduled yet, its node counts as a
    /// node without a pod.
    pub(super) missing: i32,
    /// The number of pods on nodes that their `DaemonSet` does not select. osdpl does not evict such a pod, because
    /// Kubernetes would not create a new pod on that node.
    pub(super) misplaced: i32,
    /// The first node that has an unhealthy pod with the newest pod template, and the reason why the pod is unhealthy.
    pub(super) unhealthy: Option<(String, String)>,
    /// The earliest time at which a starting pod exceeds its timeout. From then on, osdpl treats that pod as unhealthy.
    pub(super) start_deadline: Option<Timestamp>,
    /// The outdated pods, in the order in which osdpl evicts them.
    pub(super) stale: Vec<DaemonPod>,
    /// The `NotReady` nodes that have an outdated pod. osdpl does not evict these pods until the nodes are ready again.
    pub(super) skipped: BTreeSet<String>,
}

impl PodCounts {
    /// Counts the pods of the `DaemonSets` in `sets`. `rolling` contains the pods; if it is `None`, the function
    /// returns only the numbers from the status of the `DaemonSets`. `batch` lists the nodes of the rollout's current
    /// batch, according to the previous status of the rollout.
    pub(super) fn of(input: &Input<'_>, sets: &[&Workload], rolling: Option<&RolloutPods>, batch: &[String]) -> Self {
        let mut counts = Self {
            observed: sets.iter().all(|set| set.observed_generation >= set.generation),
            total: sets.iter().map(|set| set.desired).sum(),
            stale_count: sets.iter().filter_map(|set| set.on_delete.as_ref()).map(|own| own.stale).sum(),
            ..Self::default()
        };
        let Some(rolling) = rolling else { return counts };
        let uids = sets.iter().filter_map(|set| set.on_delete.as_ref()).map(|own| own.uid.as_str());
        let uids: BTreeSet<&str> = uids.collect_set();
        counts.revision = revision(sets, rolling).unwrap_or_default();
        let own = || rolling.pods.iter().filter(|pod| uids.contains(pod.set.as_str()));
        for pod in own() {
            let is_fresh = rolling.revisions.get(&pod.set) == Some(&pod.revision);
            let is_leaving = pod.state == PodState::Terminating || input.evicted.contains(&pod.uid);
            counts.count(input, pod, is_fresh, is_leaving);
        }
        // `nodes_with_pod` includes each node whose pod is being deleted. Such a node is already in `counts.batch`, so
        // it must not also count as a node without a pod.
        let nodes_with_pod: BTreeSet<&str> = own().map(|pod| pod.node.as_str()).collect_set();
        let exists = |node: &String| input.nodes.is_none_or(|nodes| nodes.contains_key(node));
        let empty = batch.iter().filter(|node| exists(node) && !nodes_with_pod.contains(node.as_str()));
        // `total` counts only the nodes that the `DaemonSets` select. If a pod runs on another node, `total` minus the
        // number of pods is too low. So also count the nodes of the previous batch that have no pod, and use the higher
        // number.
        let by_count = counts.total.saturating_sub(count(own().count()));
        counts.missing += by_count.max(count(empty.count()));
        let on_lost_nodes = own().filter(|pod| is_lost(input, &pod.node)).count();
        let misscheduled: i32 = sets.iter().map(|set| set.misscheduled).sum();
        counts.misplaced = misscheduled.saturating_sub(count(on_lost_nodes)).max(0);
        // Put the pods that are not ready first: their eviction interrupts no service.
        counts.stale.sort_by_key(|pod| (matches!(pod.state, PodState::Ready(_)), pod.node.clone(), pod.name.clone()));
        counts
    }

    fn count(&mut self, input: &Input<'_>, pod: &DaemonPod, is_fresh: bool, is_leaving: bool) {
        let is_lost = is_lost(input, &pod.node);
        self.fresh += i32::from(is_fresh && !is_leaving);
        match (&pod.state, is_fresh) {
            // osdpl evicts pods only from ready nodes, so the node of this pod has become `NotReady` since the
            // eviction. Perhaps the new pod template is the cause, so the rollout must stop.
            _ if is_leaving && is_lost => self.fail(pod, NODE_LOST.into()),
            _ if is_leaving => drop(self.batch.insert(node_or_name(pod), String::new())),
            (_, false) if is_lost => drop(self.skipped.insert(node_or_name(pod))),
            (_, false) => self.stale.push(pod.clone()),
            (PodState::Ready(since), true) => {
                self.ready += 1;
                self.last = self.last.max(*since);
            }
            (_, true) if is_lost => self.fail(pod, NODE_LOST.into()),
            (PodState::Unhealthy(why), true) => self.fail(pod, why.clone()),
            (PodState::Starting(..), true) if pod.node.is_empty() => self.missing += 1,
            (PodState::Starting(why, since), true) => self.start(input.now, pod, why, *since),
            (PodState::Terminating, true) => {}
        }
    }

    fn fail(&mut self, pod: &DaemonPod, why: String) {
        self.batch.insert(node_or_name(pod), why.clone());
        self.unhealthy.get_or_insert_with(|| (node_or_name(pod), why));
    }

    /// Counts a starting pod that has the newest pod template. A pod that exceeds the timeout counts as unhealthy.
    fn start(&mut self, now: Timestamp, pod: &DaemonPod, why: &str, since: Option<Timestamp>) {
        let until = since.and_then(|since| since.checked_add(START_TIMEOUT).ok());
        if until.is_some_and(|until| until <= now) {
            let minutes = START_TIMEOUT.as_mins();
            return self
                .fail(pod, format!("not ready for {minutes} minutes{}{why}", if why.is_empty() { "" } else { ": " }));
        }
        self.batch.insert(node_or_name(pod), why.to_owned());
        self.start_deadline = self.start_deadline.into_iter().chain(until).min();
    }

    /// Whether a batch is in flight: pods of the component are being replaced or are missing.
    pub(super) fn is_in_flight(&self) -> bool {
        !self.batch.is_empty() || self.missing > 0
    }

    /// Whether the watch on pods and the status of the `DaemonSets` agree on the number of pods with the newest pod
    /// template.
    ///
    /// If they do not agree, the rollout must wait: pods and `DaemonSets` have separate watches, and one of these
    /// watches lags behind the other.
    pub(super) fn is_consistent(&self) -> bool {
        self.total - self.stale_count == self.fresh
    }
}

fn count(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

/// Returns the revisions of the `DaemonSets`' newest pod templates, joined to one string; `None` if any revision is
/// unknown.
///
/// The function leaves out `DaemonSets` that select no node.
fn revision(sets: &[&Workload], rolling: &RolloutPods) -> Option<String> {
    let somewhere = sets.iter().filter(|set| set.desired > 0).filter_map(|set| set.on_delete.as_ref());
    let mut all = somewhere.map(|own| rolling.revisions.get(&own.uid).cloned()).collect::<Option<Vec<_>>>()?;
    all.sort();
    Some(all.join(","))
}

fn is_lost(input: &Input<'_>, node: &str) -> bool {
    input.nodes.and_then(|nodes| nodes.get(node)).is_some_and(|node| node.missing)
}

/// Returns the name of a pod's node. If the pod is not scheduled yet, returns the name of the pod instead.
fn node_or_name(pod: &DaemonPod) -> String {
    if pod.node.is_empty() { pod.name.clone() } else { pod.node.clone() }
}
