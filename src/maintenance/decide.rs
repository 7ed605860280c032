//! Decides the next action and the status of a maintenance.
//!
//! ```text
//! drain            turn → disable the compute service → instances → quorum → cordon: ready to drain
//! restore          uncordon → node, DaemonSet pods and agents are up → enable the compute service
//! turn             windows, limits by role, precedence    instances  which to migrate, and which cannot be migrated
//! eviction_checks  quorums and disruption budgets         agents     checks before the compute service is enabled
//! observed         the observed state                     report     the status
//! ```
//!
//! Pure module (no I/O). The next action follows from the observed state (the compute service with its
//! `disabled_reason`, the instances on the host, our annotation on the node), so it continues after a restart. A
//! compute service or node that someone else disabled or cordoned is left unchanged.

mod agents;
mod drain;
pub(crate) mod eviction_checks;
mod instances;
mod observed;
mod report;
mod restore;
mod turn;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

pub(crate) use observed::{Compute, Host, ObservedNode, ObservedState, OtherMaintenance};
pub(crate) use turn::{UNREAD, is_open};

use osdpl_core::api::{MaintenanceStep, NodeMaintenanceSpec, NodeMaintenanceStatus, StepState, maintenance_condition};
use osdpl_core::maintenance::CloudSettings;

/// Everything that a decision is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot<'a> {
    /// The resource's name.
    pub name: &'a str,
    /// The spec.
    pub spec: &'a NodeMaintenanceSpec,
    /// The current status.
    pub status: &'a NodeMaintenanceStatus,
    /// The spec's generation.
    pub generation: Option<i64>,
    /// Whether it has started, which our finalizer marks.
    pub started: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether failed steps are to be retried.
    pub retry: bool,
    /// The settings of the cloud; `None` before they were read.
    pub setting: Option<&'a CloudSettings>,
    /// The observed state.
    pub observed: &'a ObservedState,
    /// The current time.
    pub now: Timestamp,
}

/// The next action.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
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
pub(crate) enum RequeueDelay {
    /// While an operation is in progress.
    Soon,
    /// While waiting for something.
    Later,
}

/// The next action and the status.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// The action to execute now.
    pub action: Option<Action>,
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
enum StepResult {
    /// It is done, with a message.
    Done(String),
    /// It is not necessary or not possible, with the reason.
    Skipped(String),
    /// It executes an action, with a message.
    Act(Action, String),
    /// It waits, with the reason; the flag states whether a person is needed.
    Wait(String, RequeueDelay, bool),
}

/// Waits for a change, without a person.
fn wait_for(message: String) -> StepResult {
    StepResult::Wait(message, RequeueDelay::Later, false)
}

/// Decides the next action.
pub(crate) fn decide(snapshot: &Snapshot<'_>) -> Decision {
    if snapshot.is_returning() { restore::decide(snapshot) } else { drain::decide(snapshot) }
}

impl Snapshot<'_> {
    /// Whether it returns the node: it is being deleted, or its window ended before the node was ready to drain.
    pub(crate) fn is_returning(&self) -> bool {
        self.deleting || self.has_expired()
    }

    /// Whether only the node must be checked, because everything is done and it is no compute node.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_settled() && !self.is_known_compute()
    }

    /// When to query nova next, if the node is ready to drain and nova was queried recently.
    pub(crate) fn next_nova_check(&self) -> Option<Timestamp> {
        let last_check: Timestamp = self.status.instances.as_ref()?.checked.as_ref()?.parse().ok()?;
        let until = last_check.checked_add(READY_CHECK_INTERVAL).ok()?;
        (self.is_settled() && until > self.now).then_some(until)
    }

    fn is_settled(&self) -> bool {
        let known = self.status.observed_generation == self.generation;
        known && !self.deleting && self.is_ready() && self.is_node_cordoned()
    }

    /// Whether to query nova. A maintenance that has started and returns its node must always query nova, because only
    /// nova knows whether we disabled the service.
    pub(crate) fn needs_nova(&self) -> bool {
        !self.is_returning() || self.started
    }

    /// Whether nova reported a compute service before. This counts even if nova is unreachable now.
    pub(crate) fn is_known_compute(&self) -> bool {
        self.status.compute.is_some() || self.status.instances.is_some()
    }

    /// Whether it may start, apart from conditions that depend on nova. Nova is only queried if it may.
    pub(crate) fn may_start(&self) -> bool {
        !matches!(turn::check_turn(self), StepResult::Wait(..))
    }

    fn has_expired(&self) -> bool {
        let late = turn::window_end(self.spec).is_some_and(|end| end <= self.now);
        late && !self.was_ready()
    }

    /// Whether the node was ready to drain once. It may be partly drained since.
    fn was_ready(&self) -> bool {
        self.status.ready_since.is_some() || self.is_ready()
    }

    fn is_ready(&self) -> bool {
        let is_ready = |condition: &Condition| {
            condition.type_ == maintenance_condition::READY_TO_DRAIN && condition.status == "True"
        };
        self.status.conditions.iter().any(is_ready)
    }

    fn is_node_cordoned(&self) -> bool {
        self.observed.node.as_ref().is_some_and(|node| node.cordoned)
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
        // The status is written before the maintenance starts, so a started one without steps has lost its status.
        let lost = self.started && self.status.steps.is_empty();
        self.status.compute.is_some() || self.was_started(MaintenanceStep::DisableCompute) || lost
    }

    /// The reason to store in nova, which contains our mark.
    fn disabled_reason(&self) -> String {
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
