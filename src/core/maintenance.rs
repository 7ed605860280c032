//! Maintenance of nodes: from a wish and what is to the next step, and to what a person reads of it.
//!
//! ```text
//! there   turn → disable the compute service → instances → quorum → cordon: ready to drain
//! back    uncordon → node, daemons and agents are up → enable the compute service; agents says when they are
//! turn    windows, limits by role, who came first      guests  which instance is moved next, and which does not move
//! guard   quorums and disruption budgets               report  the status
//! setting what the cloud says of it
//! ```
//!
//! Pure room. The next step follows from what is (nova's word on the compute service with its `disabled_reason`, the instances on the host, the
//! node with our annotation), so that it goes on after a restart where it was, and what others did stays theirs: a compute service that someone
//! else has disabled and a node that someone else has cordoned are left as they are.

mod agents;
mod back;
mod facts;
pub mod guard;
mod guests;
mod report;
mod setting;
mod there;
mod turn;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

pub use facts::{Compute, Facts, Host, NodeSeen, Rival};
use setting::NO_CLOUD;
pub use setting::{Setting, UNREAD, setting};

use crate::api::{MaintenanceStep, NodeMaintenanceSpec, NodeMaintenanceStatus, StepState, maintenance_condition};

/// A maintenance, and all that is known around it.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The resource's name.
    pub name: &'a str,
    /// What is asked for.
    pub spec: &'a NodeMaintenanceSpec,
    /// The status as it stands.
    pub status: &'a NodeMaintenanceStatus,
    /// The spec's generation.
    pub generation: Option<i64>,
    /// Whether something was begun: our finalizer is there.
    pub begun: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether what failed is to be tried again.
    pub retry: bool,
    /// What the cloud says; `None` before that was read.
    pub setting: Option<&'a Setting>,
    /// What is.
    pub facts: &'a Facts,
    /// The time.
    pub now: Timestamp,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// The finalizer is put on.
    Begin,
    /// The compute service is disabled.
    Disable {
        /// Its UUID.
        id: String,
        /// What nova is told as the reason: it carries our mark.
        reason: String,
    },
    /// These instances are migrated.
    Migrate(Vec<String>),
    /// The annotation that asks for another try is taken away.
    Forgive,
    /// The node is cordoned, with our mark.
    Cordon,
    /// The node is uncordoned.
    Uncordon,
    /// The compute service is enabled.
    Enable {
        /// Its UUID.
        id: String,
    },
    /// The finalizer is taken away.
    Finish,
}

/// How long it waits until it looks again at what nobody tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Again {
    /// Something is moving.
    Soon,
    /// Something is awaited.
    Later,
}

/// What is to be done, and what is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What is to be done now.
    pub act: Option<Act>,
    /// When to look again, where it waits for what nobody tells.
    pub again: Option<Again>,
    /// When to look again, because of its window.
    pub wake: Option<Timestamp>,
    /// What is told.
    pub status: NodeMaintenanceStatus,
}

/// How seldom nova is asked about a node that can be drained: someone may enable its compute service, or move an instance there by force.
const LOOK_AT_READY: SignedDuration = SignedDuration::from_secs(60);

/// What a step comes to.
#[derive(Debug)]
enum Now {
    Done(String),
    Skipped(String),
    Act(Act, String),
    /// It waits, and whether for a person.
    Wait(String, Again, bool),
}

fn awaits(message: String) -> Now {
    Now::Wait(message, Again::Later, false)
}

/// Whether a maintenance may be carried out at this time.
pub fn is_open(spec: &NodeMaintenanceSpec, now: Timestamp) -> bool {
    turn::start(spec).is_none_or(|start| start <= now) && turn::end(spec).is_none_or(|end| end > now)
}

/// The next step.
pub fn decide(case: &Case<'_>) -> Decision {
    if case.is_returning() { back::decide(case) } else { there::decide(case) }
}

impl Case<'_> {
    /// Whether it leads back: it is deleted, or its window ended before the node could be drained.
    pub fn is_returning(&self) -> bool {
        self.deleting || self.has_expired()
    }

    /// Whether all is done that is to be done, and only the node has to be looked at: of a compute nova is asked from time to time.
    pub fn is_at_rest(&self) -> bool {
        self.rests() && !self.is_known_compute()
    }

    /// Until when nova need not be asked, where the node can be drained and nova was asked a moment ago.
    pub fn rests_until(&self) -> Option<Timestamp> {
        let looked: Timestamp = self.status.instances.as_ref()?.looked.as_ref()?.parse().ok()?;
        let until = looked.checked_add(LOOK_AT_READY).ok()?;
        (self.rests() && until > self.now).then_some(until)
    }

    fn rests(&self) -> bool {
        let known = self.status.observed_generation == self.generation;
        known && !self.deleting && self.is_ready() && self.holds_node()
    }

    /// Whether nova is to be asked: always on the way back of what was begun, because nova's own word says whether anything is ours there.
    pub fn asks_nova(&self) -> bool {
        !self.is_returning() || self.begun
    }

    /// Whether nova has told of a compute before: it is one though nova may not say so now.
    pub fn is_known_compute(&self) -> bool {
        self.status.compute.is_some() || self.status.instances.is_some()
    }

    /// Whether it has its turn, as far as nova has no say in that: before, nova is not asked.
    pub fn has_its_turn(&self) -> bool {
        !matches!(turn::turn(self), Now::Wait(..))
    }

    fn has_expired(&self) -> bool {
        let late = turn::end(self.spec).is_some_and(|end| end <= self.now);
        late && !self.was_ready()
    }

    /// Whether the node could be drained once: it may be half drained since, whatever the last look could not tell.
    fn was_ready(&self) -> bool {
        self.status.ready_since.is_some() || self.is_ready()
    }

    fn is_ready(&self) -> bool {
        let ready = |condition: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
            condition.type_ == maintenance_condition::READY_TO_DRAIN && condition.status == "True"
        };
        self.status.conditions.iter().any(|condition| ready(&condition))
    }

    fn holds_node(&self) -> bool {
        self.facts.node.as_ref().is_some_and(|node| node.cordoned)
    }

    fn state(&self, step: MaintenanceStep) -> Option<StepState> {
        self.status.steps.iter().find(|known| known.name == step).map(|known| known.state)
    }

    /// Whether a step was done, or may have been: what is told is written before anything is done.
    fn touched(&self, step: MaintenanceStep) -> bool {
        matches!(self.state(step), Some(StepState::Active | StepState::Done))
    }

    /// Whether the compute service may have been disabled by this maintenance, whatever its steps tell now.
    fn may_have_disabled(&self) -> bool {
        // Begin is told before it is done: a status without steps is one that was lost.
        let lost = self.begun && self.status.steps.is_empty();
        self.status.compute.is_some() || self.touched(MaintenanceStep::DisableCompute) || lost
    }

    /// What nova is told as the reason.
    fn mark(&self) -> String {
        let mark = format!("osdpl: maintenance {}", self.name);
        if self.spec.reason.is_empty() { mark } else { format!("{mark}: {}", self.spec.reason) }
    }

    /// Whether a reason is ours.
    fn is_ours(&self, reason: Option<&str>) -> bool {
        let rest = reason.and_then(|reason| reason.strip_prefix("osdpl: maintenance ")?.strip_prefix(self.name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    }
}

#[cfg(test)]
mod tests;
