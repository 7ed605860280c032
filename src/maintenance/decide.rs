//! Decides the next action and the status of a maintenance.
//!
//! ```text
//! drain            wait for the turn → disable the compute service → empty the host → check quorums → cordon the node
//! restore          uncordon → wait for the node, its pods and agents → enable the compute service
//! turn             whether a maintenance may start: its window, limits by role, older maintenances
//! instances        which instances to migrate, and which cannot be migrated
//! eviction_checks  quorums and disruption budgets
//! agents           checks before the compute service is enabled
//! observed         the observed state
//! report           the status
//! ```
//!
//! This module does no I/O. The next action follows from the observed state: the compute service with its
//! `disabled_reason`, the instances on the host, and osdpl's annotation on the node. A maintenance therefore continues
//! after a restart of the operator. A maintenance neither enables a compute service that someone else disabled nor
//! uncordons a node that someone else cordoned.

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

/// All data that the decision about a maintenance uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot<'a> {
    /// The name of the NodeMaintenance resource.
    pub name: &'a str,
    /// The spec of the NodeMaintenance resource.
    pub spec: &'a NodeMaintenanceSpec,
    /// The status of the maintenance before this decision.
    pub status: &'a NodeMaintenanceStatus,
    /// The resource's `metadata.generation`.
    pub generation: Option<i64>,
    /// Whether the maintenance has started: the NodeMaintenance has osdpl's finalizer.
    pub started: bool,
    /// Whether the NodeMaintenance is being deleted.
    pub deleting: bool,
    /// Whether a person has requested, with an annotation, to retry failed steps.
    pub retry: bool,
    /// The cloud's settings for maintenance; `None` until the operator has read and accepted the cloud's
    /// OpenStackDeployment.
    pub setting: Option<&'a CloudSettings>,
    /// The state of the node, its pods, its compute host and all other NodeMaintenances, as the controller observed it.
    pub observed: &'a ObservedState,
    /// The current time.
    pub now: Timestamp,
}

/// The next action of a maintenance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Start the maintenance: add osdpl's finalizer to the NodeMaintenance.
    AddFinalizer,
    /// Disable the compute service in Nova, so that the scheduler places no new instances on the node.
    Disable {
        /// The UUID of the compute service in Nova.
        id: String,
        /// The reason that Nova stores with the disabled service. The reason begins with a mark that names this
        /// maintenance. By this mark, later passes recognize that this maintenance disabled the service.
        reason: String,
    },
    /// Live-migrate the instances with these UUIDs.
    Migrate(Vec<String>),
    /// Remove the annotation that requested a retry.
    ClearRetry,
    /// Cordon the node, and annotate it with the name of the maintenance.
    Cordon,
    /// Uncordon the node, and remove the annotation with the name of the maintenance.
    Uncordon,
    /// Enable the compute service in Nova.
    Enable {
        /// The UUID of the compute service in Nova.
        id: String,
    },
    /// Remove osdpl's finalizer from the NodeMaintenance, because the maintenance has returned its node to service.
    RemoveFinalizer,
}

/// The delay until the next pass of a maintenance that waits.
///
/// The delay is necessary because the maintenance may wait for a change that no watch reports, such as a change in
/// Nova.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RequeueDelay {
    /// The next pass starts in two seconds or less, because a migration is in progress.
    Soon,
    /// The next pass starts after the delay that the operator gave to [`run`](crate::run).
    Later,
}

/// The next action and the next status of a maintenance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// The action to execute now; `None` if the maintenance waits or is complete.
    pub action: Option<Action>,
    /// The delay until the next pass, if the maintenance waits for a change that no watch reports.
    pub requeue: Option<RequeueDelay>,
    /// The time at which the next pass must start at the latest; `None` if the next pass may wait until a watch reports
    /// a change.
    ///
    /// At this time, the window of the maintenance begins or ends, or the next query of Nova is due.
    pub requeue_at: Option<Timestamp>,
    /// The status that the controller writes before it executes the action.
    pub status: NodeMaintenanceStatus,
}

/// The time between two queries of Nova about a node that is ready to drain.
///
/// The queries continue because a person may enable the compute service of the node, or force an instance onto the
/// node, at any time.
const READY_CHECK_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

/// The result of one step of a maintenance.
#[derive(Debug)]
enum StepResult {
    /// The step is done. Contains the message for the status.
    Done(String),
    /// The step is not necessary or not possible. Contains the reason.
    Skipped(String),
    /// The step needs an action now. Contains the action, and the message for the status.
    Act(Action, String),
    /// The step waits. Contains the reason, the delay until the next pass, and whether a person must act.
    Wait(String, RequeueDelay, bool),
}

/// Returns the result of a step that waits, and for which no person must act.
fn wait_for(message: String) -> StepResult {
    StepResult::Wait(message, RequeueDelay::Later, false)
}

/// Decides the next action and the status of the maintenance of a node.
pub(crate) fn decide(snapshot: &Snapshot<'_>) -> Decision {
    if snapshot.is_returning() { restore::decide(snapshot) } else { drain::decide(snapshot) }
}

impl Snapshot<'_> {
    /// Whether the maintenance returns its node to service, because the NodeMaintenance is being deleted or the
    /// maintenance has expired.
    ///
    /// A maintenance has expired if its window ended before the node was ready to drain.
    pub(crate) fn is_returning(&self) -> bool {
        self.deleting || self.has_expired()
    }

    /// Whether a pass has nothing to decide, because the node is ready to drain and is not a compute node.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_settled() && !self.is_known_compute()
    }

    /// Returns the time at which the controller must query Nova next; `None` if the current pass may query Nova.
    ///
    /// While the node is ready to drain, the controller queries Nova once a minute. While the node is not ready to
    /// drain, each pass may query Nova.
    pub(crate) fn next_nova_check(&self) -> Option<Timestamp> {
        let last_check: Timestamp = self.status.instances.as_ref()?.checked.as_ref()?.parse().ok()?;
        let until = last_check.checked_add(READY_CHECK_INTERVAL).ok()?;
        (self.is_settled() && until > self.now).then_some(until)
    }

    fn is_settled(&self) -> bool {
        let known = self.status.observed_generation == self.generation;
        known && !self.deleting && self.is_ready() && self.is_node_cordoned()
    }

    /// Whether the decision can depend on data from Nova.
    ///
    /// Before a started maintenance returns its node to service, osdpl must ask Nova whether the maintenance disabled
    /// the compute service. A maintenance that ends before it has started needs no query, because it changed nothing.
    pub(crate) fn needs_nova(&self) -> bool {
        !self.is_returning() || self.started
    }

    /// Whether Nova reported a compute service for the node in an earlier pass. The status of the maintenance contains
    /// this information, so it is available even while Nova is unreachable.
    pub(crate) fn is_known_compute(&self) -> bool {
        self.status.compute.is_some() || self.status.instances.is_some()
    }

    /// Whether the maintenance has started, or is allowed to start.
    ///
    /// The controller calls this function before it queries Nova, and queries Nova only if the result is `true`.
    pub(crate) fn may_start(&self) -> bool {
        !matches!(turn::check_turn(self), StepResult::Wait(..))
    }

    fn has_expired(&self) -> bool {
        let late = turn::window_end(self.spec).is_some_and(|end| end <= self.now);
        late && !self.was_ready()
    }

    /// Whether the node was ready to drain in an earlier pass. If so, someone may have begun to drain the node.
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

    /// Whether this maintenance may have executed the action of a step: its status marks the step as active or done.
    ///
    /// The controller marks a step as active in the status before it executes the action of the step.
    fn was_started(&self, step: MaintenanceStep) -> bool {
        matches!(self.state(step), Some(StepState::Active | StepState::Done))
    }

    /// Whether this maintenance may have disabled the compute service: its status says so, or the status was lost.
    fn may_have_disabled(&self) -> bool {
        // The controller writes the status of a maintenance before it adds the finalizer. So if the NodeMaintenance has
        // the finalizer, but its status contains no steps, the status was lost.
        let lost = self.started && self.status.steps.is_empty();
        self.status.compute.is_some() || self.was_started(MaintenanceStep::DisableCompute) || lost
    }

    /// Returns the reason that osdpl gives to Nova when this maintenance disables the compute service.
    ///
    /// The reason begins with a mark that names the maintenance. By this mark, later passes recognize that this
    /// maintenance disabled the service.
    fn disabled_reason(&self) -> String {
        let mark = format!("osdpl: maintenance {}", self.name);
        if self.spec.reason.is_empty() { mark } else { format!("{mark}: {}", self.spec.reason) }
    }

    /// Whether the reason that Nova stores with a disabled compute service begins with the mark of this maintenance.
    fn is_ours(&self, reason: Option<&str>) -> bool {
        let rest = reason.and_then(|reason| reason.strip_prefix("osdpl: maintenance ")?.strip_prefix(self.name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    }
}

#[cfg(test)]
mod tests;
