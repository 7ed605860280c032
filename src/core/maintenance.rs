//! Maintenance of nodes: decides the next action and the status.
//!
//! ```text
//! there   turn → disable the compute service → instances → quorum → cordon: ready to drain
//! back    uncordon → node, DaemonSet pods and agents are up → enable the compute service
//! turn    windows and limits by role               guests  which instances to migrate, and which cannot be migrated
//! guard   quorums and disruption budgets           report  the status
//! setting the settings of the cloud                agents  checks on the way back
//! ```
//!
//! Pure module (no I/O). The next action follows from the observed state (the compute service with its
//! `disabled_reason`, the instances on the host, our annotation on the node), so it continues after a restart. A
//! compute service or node that someone else disabled or cordoned is left unchanged.

mod agents;
mod drain;
mod facts;
pub mod guard;
mod guests;
mod report;
mod restore;
mod setting;
mod turn;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

pub use facts::{Compute, Facts, Host, NodeSeen, Rival};
use setting::NO_CLOUD;
pub use setting::{Setting, UNREAD, setting};

use crate::api::{MaintenanceStep, NodeMaintenanceSpec, NodeMaintenanceStatus, StepState, maintenance_condition};

/// A maintenance with its observed state.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The resource's name.
    pub name: &'a str,
    /// The spec.
    pub spec: &'a NodeMaintenanceSpec,
    /// The current status.
    pub status: &'a NodeMaintenanceStatus,
    /// The spec's generation.
    pub generation: Option<i64>,
    /// Whether it has started, which our finalizer marks.
    pub begun: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether failed steps are to be retried.
    pub retry: bool,
    /// The settings of the cloud; `None` before they were read.
    pub setting: Option<&'a Setting>,
    /// The observed state.
    pub facts: &'a Facts,
    /// The current time.
    pub now: Timestamp,
}

/// The next action.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Add the finalizer.
    AddFinalizer,
    /// Disable the compute service.
    Disable {
        /// Its UUID.
        id: String,
        /// The reason stored in nova, which contains our mark.
        reason: String,
    },
    /// Live-migrate these instances.
    Migrate(Vec<String>),
    /// Remove the annotation that requested a retry.
    ClearRetry,
    /// Cordon the node, with our mark.
    Cordon,
    /// Uncordon the node.
    Uncordon,
    /// Enable the compute service.
    Enable {
        /// Its UUID.
        id: String,
    },
    /// Remove the finalizer.
    RemoveFinalizer,
}

/// The requeue delay for state that no watch reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequeueDelay {
    /// While an operation is in progress.
    Soon,
    /// While waiting for something.
    Later,
}

/// The next action and the status.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The action to execute now.
    pub act: Option<Act>,
    /// The requeue delay, if it waits for state that no watch reports.
    pub requeue: Option<RequeueDelay>,
    /// When to requeue for its window or a periodic check.
    pub requeue_at: Option<Timestamp>,
    /// The next status.
    pub status: NodeMaintenanceStatus,
}

/// How often nova is queried for a node that is ready to drain: someone may enable its compute service or force an
/// instance onto it.
const READY_CHECK_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

/// The result of a step.
#[derive(Debug)]
enum Now {
    Done(String),
    Skipped(String),
    Act(Act, String),
    /// It waits; the flag states whether a person is needed.
    Wait(String, RequeueDelay, bool),
}

fn awaits(message: String) -> Now {
    Now::Wait(message, RequeueDelay::Later, false)
}

/// Whether the window permits the maintenance at this time.
pub fn is_open(spec: &NodeMaintenanceSpec, now: Timestamp) -> bool {
    turn::start(spec).is_none_or(|start| start <= now) && turn::end(spec).is_none_or(|end| end > now)
}

/// Decides the next action.
pub fn decide(case: &Case<'_>) -> Decision {
    if case.is_returning() { restore::decide(case) } else { drain::decide(case) }
}

impl Case<'_> {
    /// Whether it returns the node: it is being deleted, or its window ended before the node was ready to drain.
    pub fn is_returning(&self) -> bool {
        self.deleting || self.has_expired()
    }

    /// Whether only the node must be checked, because everything is done and it is no compute node.
    pub fn is_idle(&self) -> bool {
        self.is_settled() && !self.is_known_compute()
    }

    /// When to query nova next, if the node is ready to drain and nova was queried recently.
    pub fn next_nova_check(&self) -> Option<Timestamp> {
        let last_check: Timestamp = self.status.instances.as_ref()?.looked.as_ref()?.parse().ok()?;
        let until = last_check.checked_add(READY_CHECK_INTERVAL).ok()?;
        (self.is_settled() && until > self.now).then_some(until)
    }

    fn is_settled(&self) -> bool {
        let known = self.status.observed_generation == self.generation;
        known && !self.deleting && self.is_ready() && self.is_node_cordoned()
    }

    /// Whether to query nova. On the way back nova must always be queried if the maintenance has started, because only
    /// nova knows whether we disabled the service.
    pub fn needs_nova(&self) -> bool {
        !self.is_returning() || self.begun
    }

    /// Whether nova reported a compute service before, which counts even if nova is unreachable now.
    pub fn is_known_compute(&self) -> bool {
        self.status.compute.is_some() || self.status.instances.is_some()
    }

    /// Whether it may start as far as it does not depend on nova. Nova is not queried before.
    pub fn may_start(&self) -> bool {
        !matches!(turn::turn(self), Now::Wait(..))
    }

    fn has_expired(&self) -> bool {
        let late = turn::end(self.spec).is_some_and(|end| end <= self.now);
        late && !self.was_ready()
    }

    /// Whether the node was ready to drain once. It may be partly drained since.
    fn was_ready(&self) -> bool {
        self.status.ready_since.is_some() || self.is_ready()
    }

    fn is_ready(&self) -> bool {
        let ready = |condition: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
            condition.type_ == maintenance_condition::READY_TO_DRAIN && condition.status == "True"
        };
        self.status.conditions.iter().any(|condition| ready(&condition))
    }

    fn is_node_cordoned(&self) -> bool {
        self.facts.node.as_ref().is_some_and(|node| node.cordoned)
    }

    fn state(&self, step: MaintenanceStep) -> Option<StepState> {
        self.status.steps.iter().find(|known| known.name == step).map(|known| known.state)
    }

    /// Whether a step was or may have been executed: the status is written before each action.
    fn was_started(&self, step: MaintenanceStep) -> bool {
        matches!(self.state(step), Some(StepState::Active | StepState::Done))
    }

    /// Whether this maintenance may have disabled the compute service, whatever its steps report now.
    fn may_have_disabled(&self) -> bool {
        // The status is written before the maintenance starts, so a status without steps was lost.
        let lost = self.begun && self.status.steps.is_empty();
        self.status.compute.is_some() || self.was_started(MaintenanceStep::DisableCompute) || lost
    }

    /// The reason stored in nova.
    fn mark(&self) -> String {
        let mark = format!("osdpl: maintenance {}", self.name);
        if self.spec.reason.is_empty() { mark } else { format!("{mark}: {}", self.spec.reason) }
    }

    /// Whether a reason contains our mark.
    fn is_ours(&self, reason: Option<&str>) -> bool {
        let rest = reason.and_then(|reason| reason.strip_prefix("osdpl: maintenance ")?.strip_prefix(self.name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    }
}

#[cfg(test)]
mod tests;
