//! Decides what the rollout of one component does next.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::part::{Part, is_changing};
use super::pod_counts::PodCounts;
use super::{Eviction, Input, NAMED, is_automatic};
use crate::api::{RolloutPhase, RolloutStatus};
use crate::plan::{Step, Wait};

/// The state of a component's rollout: its next step, or the reason why the rollout waits.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// The rollout waits for the watches: they have not reported the component's pods or its newest pod template yet,
    /// or their reports do not agree. The rollout also waits if the pods of another component are unknown, because that
    /// component may have a batch in flight.
    Unobserved,
    /// The rollout waits for a person's approval of the newest pod template.
    Approval {
        /// The number of nodes with outdated pods.
        nodes: i32,
        /// The number of nodes in each batch.
        batch: i32,
    },
    /// A batch of pods is being replaced. Contains the nodes of the batch, the reason why one of the new pods is not
    /// ready, and the time at which the rollout stops if a new pod is still not ready then.
    Batch(Vec<String>, String, Option<Timestamp>),
    /// The rollout stopped, because a pod with the newest pod template is unhealthy. Contains the pod's node, the
    /// reason why the pod is unhealthy, and the nodes of the batch.
    Stopped(String, String, Vec<String>),
    /// The rollout pauses after a batch until the time that this variant contains.
    Pause(Timestamp),
    /// The rollout waits until misplaced pods are deleted: pods on nodes that their `DaemonSet` does not select.
    /// Contains the number of these pods.
    Misplaced(i32),
    /// There is no rollout, but a pod is starting on a node that joined the cluster.
    Joining,
    /// The rollout waits until another component is rolled out, because osdpl rolls out one component at a time.
    /// Contains the name of that component.
    WaitsForComponent(String),
    /// The rollout waits until a release has its desired inputs: the component's release, or a release before it in the
    /// order of `values/nodes.yaml`. Contains the name of the release.
    WaitsForRelease(String),
    /// The rollout waits, because the spec pauses the cloud or the release.
    Paused,
    /// The rollout waits until these `NotReady` nodes are ready again. All other nodes have a pod with the newest pod
    /// template.
    Skipped(Vec<String>),
    /// The next batch starts: osdpl evicts these pods.
    Evict(Vec<Eviction>),
    /// The rollout is complete: all nodes have a pod with the newest pod template.
    Done,
}

impl State {
    /// Returns when the pause ends or when a new pod times out; `None` if the rollout waits for no such time.
    pub fn requeue_at(&self) -> Option<Timestamp> {
        match self {
            Self::Pause(until) => Some(*until),
            Self::Batch(_, _, until) => *until,
            _ => None,
        }
    }

    /// Returns the phase that the status shows for this state.
    pub fn phase(&self) -> RolloutPhase {
        match self {
            Self::Unobserved | Self::Joining => RolloutPhase::Pending,
            Self::Approval { .. } => RolloutPhase::AwaitingApproval,
            Self::Batch(..) | Self::Evict(_) => RolloutPhase::Rolling,
            Self::Stopped(..) => RolloutPhase::Stopped,
            Self::Pause(_) => RolloutPhase::Pausing,
            Self::Misplaced(_)
            | Self::WaitsForComponent(_)
            | Self::WaitsForRelease(_)
            | Self::Paused
            | Self::Skipped(_) => RolloutPhase::Waiting,
            Self::Done => RolloutPhase::Complete,
        }
    }

    /// Returns the nodes of the batch: their pods are being replaced, or osdpl evicts these pods now.
    pub fn batch(&self) -> Vec<String> {
        match self {
            Self::Batch(nodes, ..) | Self::Stopped(_, _, nodes) => nodes.clone(),
            Self::Evict(pods) => pods.iter().map(|pod| pod.node.clone()).collect(),
            _ => Vec::new(),
        }
    }
}

/// Returns the only component whose pods osdpl may evict now; `None` if osdpl may evict no pods.
///
/// If a component has a batch in flight, the function returns this component. Otherwise it returns the first component,
/// in the order of `values/nodes.yaml`, whose rollout may start or continue.
///
/// After a restart, the operator does not know whether a batch is in flight until the watches have listed the pods of
/// every component in `active` (the components with outdated pods or an unfinished rollout). Until then, no new batch
/// may start.
pub(super) fn current_component(input: &Input<'_>, active: &[&Part<'_>]) -> Option<String> {
    let is_busy = |part: &&&Part<'_>| part.approved && part.counts.is_in_flight();
    let may_start = |part: &&&Part<'_>| part.approved && blocking_state(input, part).is_none();
    let is_due = |part: &&&Part<'_>| may_start(part) && !part.counts.stale.is_empty();
    let are_listed = active.iter().all(|part| part.rolling.is_some());
    let due = || active.iter().find(is_due).filter(|_| are_listed);
    active.iter().find(is_busy).or_else(due).map(|part| part.name())
}

/// Returns the state of a component's rollout: the first state that applies, in the order of the checks in this
/// function.
///
/// `current` is the only component whose pods osdpl may evict now; `None` if osdpl may evict no pods.
pub(super) fn evaluate(input: &Input<'_>, part: &Part<'_>, current: Option<&str>) -> State {
    let counts = &part.counts;
    if !counts.observed || part.rolling.is_none() || counts.revision.is_empty() {
        return State::Unobserved;
    }
    let in_flight_now = counts.is_in_flight();
    let has_begun = part.before.is_some_and(|status| status.phase.has_begun());
    if in_flight_now && !has_begun && counts.stale.is_empty() && counts.skipped.is_empty() {
        return State::Joining;
    }
    if !in_flight_now && counts.misplaced > 0 {
        return State::Misplaced(counts.misplaced);
    }
    if !in_flight_now && !counts.is_consistent() {
        return State::Unobserved;
    }
    if !in_flight_now && counts.stale.is_empty() && counts.skipped.is_empty() {
        return State::Done;
    }
    if !part.approved {
        return State::Approval { nodes: counts.stale_count, batch: input.settings.batch_size_for(counts.total) };
    }
    if in_flight_now {
        return in_flight(part);
    }
    if let Some(blocked) = blocking_state(input, part) {
        return blocked;
    }
    if counts.stale.is_empty() {
        return State::Skipped(counts.skipped.iter().cloned().collect());
    }
    match current {
        Some(name) if name == part.name() => pause(input, part).map_or_else(|| evict(input, part), State::Pause),
        Some(other) => State::WaitsForComponent(other.to_owned()),
        None => State::Unobserved,
    }
}

fn in_flight(part: &Part<'_>) -> State {
    let counts = &part.counts;
    let mut nodes: Vec<String> = counts.batch.keys().cloned().collect();
    if counts.missing > 0 {
        // A deleted pod that has no replacement yet is not in the list of pods. So the node of such a pod is only in
        // the batch that the previous status lists.
        let previous = part.before.map(|status| status.batch.as_slice()).unwrap_or_default();
        nodes.extend(previous.iter().filter(|node| !counts.batch.contains_key(*node)).cloned());
        nodes.sort();
    }
    if let Some((node, why)) = &counts.unhealthy {
        return State::Stopped(node.clone(), why.clone(), nodes);
    }
    let why = counts.batch.values().find(|why| !why.is_empty()).cloned().unwrap_or_default();
    State::Batch(nodes, why, counts.start_deadline)
}

/// Returns the state of a rollout that the spec pauses, or that waits for an upgrade by helm; `None` if the rollout may
/// start or continue.
///
/// An upgrade may change the pod template. If osdpl evicted pods before the upgrade, it would have to evict the new
/// pods again after the upgrade.
fn blocking_state(input: &Input<'_>, part: &Part<'_>) -> Option<State> {
    let step = |name: &str| input.plan.decisions.get(name).map(|decision| &decision.step);
    if input.policy.paused || part.wanted.paused || step(part.release) == Some(&Step::Wait(Wait::Paused)) {
        return Some(State::Paused);
    }
    if !matches!(step(part.release), Some(Step::Ready | Step::Settling(_))) {
        return Some(State::WaitsForRelease(part.release.to_owned()));
    }
    let before = input.catalog.rollout.iter().take_while(|name| *name != part.release);
    let mut changing = before.filter(|name| step(name).is_some_and(is_changing));
    changing.next().map(|name| State::WaitsForRelease(name.clone()))
}

fn pause(input: &Input<'_>, part: &Part<'_>) -> Option<Timestamp> {
    let pause = SignedDuration::from_secs(input.settings.pause().into());
    // `part.counts.last`, the time at which the last new pod became ready, comes from the clock of a node, which may be
    // ahead of the operator's clock. Ignore a time that is ahead of now by more than the pause, because the rollout
    // would then pause too long.
    let last = part.counts.last.filter(|last| input.now.duration_since(*last) >= -pause)?;
    last.checked_add(pause).ok().filter(|until| *until > input.now)
}

fn evict(input: &Input<'_>, part: &Part<'_>) -> State {
    let batch = usize::try_from(input.settings.batch_size_for(part.counts.total)).unwrap_or(1);
    let pods = part.counts.stale.iter().take(batch).map(|pod| Eviction {
        namespace: part.wanted.key.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        node: pod.node.clone(),
    });
    State::Evict(pods.collect())
}

impl Part<'_> {
    /// Returns the next status of the rollout; `None` if there is no rollout to show. While the operator does not know
    /// all pods yet, the function returns the previous status, and updates only its field `approved_inputs`.
    pub(super) fn next_status(
        &self,
        input: &Input<'_>,
        state: &State,
        approved_inputs: String,
    ) -> Option<RolloutStatus> {
        if *state == State::Unobserved {
            let known = self.before.cloned();
            return known.map(|status| RolloutStatus {
                approved_inputs: first_non_empty(approved_inputs, &status.approved_inputs),
                ..status
            });
        }
        if *state == State::Joining {
            return self.completed();
        }
        let PodCounts { total, revision, ready, .. } = &self.counts;
        let limited = |mut nodes: Vec<String>| {
            nodes.truncate(NAMED);
            nodes
        };
        Some(RolloutStatus {
            phase: state.phase(),
            release: self.release.to_owned(),
            revision: revision.clone(),
            approved: self.approved,
            automatic: is_automatic(input.settings),
            approved_inputs,
            updated: *ready,
            total: *total,
            batch_size: input.settings.batch_size_for(*total),
            batch: limited(state.batch()),
            skipped: limited(self.counts.skipped.iter().cloned().collect()),
            message: state.to_string(),
        })
    }
}

fn first_non_empty(approved_inputs: String, known: &str) -> String {
    if approved_inputs.is_empty() { known.to_owned() } else { approved_inputs }
}
