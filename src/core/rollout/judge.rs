//! One component: what now, or why not.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::part::{Part, is_changing};
use super::{Eviction, Scene};
use crate::api::RolloutPhase;
use crate::plan::{Step, Wait};

/// What is to be done for a component now, or what it waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Not enough of it is seen yet.
    Unseen,
    /// For a person: so many nodes, so many at a time.
    Approval {
        /// How many nodes have pods of an older template.
        nodes: i32,
        /// How many go at a time.
        batch: i32,
    },
    /// A batch is being made anew: nodes, what the first of them waits for, and until when that is no reason to stop.
    Batch(Vec<String>, String, Option<Timestamp>),
    /// A pod of the new revision is unhealthy: on which node, why, and the batch.
    Stopped(String, String, Vec<String>),
    /// A batch is done; the next one begins then.
    Pause(Timestamp),
    /// So many pods run where their `DaemonSet` would put none.
    Misplaced(i32),
    /// A pod is on its way that nobody touched: a node has come.
    Joining,
    /// Another component is rolled first.
    Turn(String),
    /// Its release, or one before it, is not as wanted yet.
    Release(String),
    /// The cloud, or its release, is paused.
    Paused,
    /// What is left is on nodes that are `NotReady`.
    Skipped(Vec<String>),
    /// These go now.
    Evict(Vec<Eviction>),
    /// Every node has its pod.
    Done,
}

impl State {
    /// When only time has to pass: until when.
    pub fn wake(&self) -> Option<Timestamp> {
        match self {
            Self::Pause(until) => Some(*until),
            Self::Batch(_, _, until) => *until,
            _ => None,
        }
    }

    /// In one word.
    pub fn phase(&self) -> RolloutPhase {
        match self {
            Self::Unseen | Self::Joining => RolloutPhase::Pending,
            Self::Approval { .. } => RolloutPhase::AwaitingApproval,
            Self::Batch(..) | Self::Evict(_) => RolloutPhase::Rolling,
            Self::Stopped(..) => RolloutPhase::Stopped,
            Self::Pause(_) => RolloutPhase::Pausing,
            Self::Misplaced(_) | Self::Turn(_) | Self::Release(_) | Self::Paused | Self::Skipped(_) => {
                RolloutPhase::Waiting
            }
            Self::Done => RolloutPhase::Complete,
        }
    }

    /// The nodes whose pods are being made anew.
    pub fn batch(&self) -> Vec<String> {
        match self {
            Self::Batch(nodes, ..) | Self::Stopped(_, _, nodes) => nodes.clone(),
            Self::Evict(pods) => pods.iter().map(|pod| pod.node.clone()).collect(),
            _ => Vec::new(),
        }
    }
}

/// The component that is rolled now: one with pods on their way, else the first that may begin, or go on.
pub(super) fn turn(scene: &Scene<'_>, on: &[&Part<'_>]) -> Option<String> {
    let busy = |part: &&&Part<'_>| part.approved && part.tally.is_in_flight();
    let may = |part: &&&Part<'_>| part.approved && part.rolling.is_some() && held(scene, part).is_none();
    let due = |part: &&&Part<'_>| may(part) && !part.tally.stale.is_empty();
    on.iter().find(busy).or_else(|| on.iter().find(due)).map(|part| part.name())
}

/// The first of these that holds.
pub(super) fn judge(scene: &Scene<'_>, part: &Part<'_>, turn: Option<&str>) -> State {
    let tally = &part.tally;
    if !tally.observed || part.rolling.is_none() || tally.revision.is_empty() {
        return State::Unseen;
    }
    let flies = tally.is_in_flight();
    let begun = part.before.is_some_and(|said| said.phase.has_begun());
    if flies && !begun && tally.stale.is_empty() && tally.skipped.is_empty() {
        return State::Joining;
    }
    if !flies && tally.misplaced > 0 {
        return State::Misplaced(tally.misplaced);
    }
    if !flies && !tally.agrees() {
        return State::Unseen;
    }
    if !flies && tally.stale.is_empty() && tally.skipped.is_empty() {
        return State::Done;
    }
    if !part.approved {
        return State::Approval { nodes: tally.stale_said, batch: scene.settings.batch(tally.total) };
    }
    if flies {
        return in_flight(part);
    }
    if let Some(held) = held(scene, part) {
        return held;
    }
    if tally.stale.is_empty() {
        return State::Skipped(tally.skipped.iter().cloned().collect());
    }
    if let Some(other) = turn.filter(|other| *other != part.name()) {
        return State::Turn(other.to_owned());
    }
    pause(scene, part).map_or_else(|| evict(scene, part), State::Pause)
}

fn in_flight(part: &Part<'_>) -> State {
    let tally = &part.tally;
    let mut nodes: Vec<String> = tally.batch.keys().cloned().collect();
    if tally.missing > 0 {
        // Of a pod that is gone and has no successor yet its node is known from what was said.
        let said = part.before.map(|said| said.batch.as_slice()).unwrap_or_default();
        nodes.extend(said.iter().filter(|node| !tally.batch.contains_key(*node)).cloned());
        nodes.sort();
    }
    if let Some((node, why)) = &tally.unhealthy {
        return State::Stopped(node.clone(), why.clone(), nodes);
    }
    let why = tally.batch.values().find(|why| !why.is_empty()).cloned().unwrap_or_default();
    State::Batch(nodes, why, tally.patience)
}

/// What keeps a component from going on, whatever its pods say: nothing may be made anew of a template that is about to be another one.
fn held(scene: &Scene<'_>, part: &Part<'_>) -> Option<State> {
    let step = |name: &str| scene.plan.decisions.get(name).map(|decision| &decision.step);
    if scene.policy.paused || part.wanted.paused || step(part.release) == Some(&Step::Wait(Wait::Paused)) {
        return Some(State::Paused);
    }
    if !matches!(step(part.release), Some(Step::Ready | Step::Settle(_))) {
        return Some(State::Release(part.release.to_owned()));
    }
    let before = scene.catalog.rollout.iter().take_while(|name| *name != part.release);
    let mut changing = before.filter(|name| step(name).is_some_and(is_changing));
    changing.next().map(|name| State::Release(name.clone()))
}

fn pause(scene: &Scene<'_>, part: &Part<'_>) -> Option<Timestamp> {
    let pause = SignedDuration::from_secs(scene.settings.pause().into());
    // A node's clock may go far ahead of ours.
    let last = part.tally.last.filter(|last| scene.now.duration_since(*last) >= -pause)?;
    last.checked_add(pause).ok().filter(|until| *until > scene.now)
}

fn evict(scene: &Scene<'_>, part: &Part<'_>) -> State {
    let batch = usize::try_from(scene.settings.batch(part.tally.total)).unwrap_or(1);
    let pods = part.tally.stale.iter().take(batch).map(|pod| Eviction {
        namespace: part.wanted.key.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        node: pod.node.clone(),
    });
    State::Evict(pods.collect())
}
