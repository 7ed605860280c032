//! Builds the status of a maintenance from the results of its steps.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{Action, Compute, Decision, RequeueDelay, Snapshot, StepResult};
use osdpl_core::api::{
    InstancesStatus, MaintenancePhase, MaintenanceStep, NodeMaintenanceStatus, StepState, StepStatus,
    maintenance_condition as condition,
};

/// The steps that prepare a node for draining, in order.
pub(super) const DRAIN_STEPS: [MaintenanceStep; 5] = [
    MaintenanceStep::Turn,
    MaintenanceStep::DisableCompute,
    MaintenanceStep::Instances,
    MaintenanceStep::Quorum,
    MaintenanceStep::Cordon,
];

/// The results of the steps that the current pass has decided so far. [`report`] builds the decision from these
/// results.
pub(super) struct Progress<'a> {
    snapshot: &'a Snapshot<'a>,
    steps: Vec<StepStatus>,
    pub(super) phase: MaintenancePhase,
    pub(super) instances: Option<InstancesStatus>,
    pub(super) compute: Option<String>,
    pub(super) agents: Vec<String>,
    pub(super) action: Option<Action>,
    /// The message that the status has if all steps are done.
    pub(super) final_message: String,
    requeue: Option<RequeueDelay>,
    /// The message of the current step, which says what the step does or why it waits.
    message: Option<String>,
    /// Whether the maintenance can't continue until a person acts.
    blocked: bool,
}

impl<'a> Progress<'a> {
    pub(super) fn new(snapshot: &'a Snapshot<'a>) -> Self {
        let node = &snapshot.spec.node;
        Self {
            snapshot,
            steps: Vec::new(),
            phase: MaintenancePhase::ReadyToDrain,
            instances: snapshot.status.instances.clone(),
            compute: snapshot.status.compute.clone(),
            agents: snapshot.status.agents.clone(),
            action: None,
            final_message: format!(
                "{node} can be drained (kubectl drain {node} --ignore-daemonsets --delete-emptydir-data); delete this NodeMaintenance when the node is back"
            ),
            requeue: None,
            message: None,
            blocked: false,
        }
    }

    /// Creates the progress of a maintenance that is about to return its node to service.
    ///
    /// The progress begins with the steps that prepared the node for draining. Unfinished steps become skipped steps.
    /// Only steps that the maintenance may have to undo become done steps: the disabling of the compute service, and
    /// the cordon.
    pub(super) fn from_previous_steps(snapshot: &'a Snapshot<'a>) -> Self {
        let mut progress = Self::new(snapshot);
        for known in snapshot.status.steps.iter().filter(|known| DRAIN_STEPS.contains(&known.name)) {
            let (state, message) = match known.state {
                StepState::Done | StepState::Skipped => (known.state, known.message.clone()),
                // The maintenance may have disabled the compute service even if this step is not done according to the
                // status: if Nova was unreachable afterwards, the step has changed from done to waiting. Record the
                // step as done, so that later passes still know that they may have to enable the service.
                _ if known.name == MaintenanceStep::DisableCompute && snapshot.may_have_disabled() => {
                    (StepState::Done, String::new())
                }
                StepState::Active if known.name == MaintenanceStep::Cordon => (StepState::Done, String::new()),
                StepState::Active | StepState::Waiting | StepState::Pending => {
                    (StepState::Skipped, "cancelled".to_owned())
                }
            };
            progress.push_step(known.name, state, message);
        }
        progress
    }

    /// Records the result of a step. Returns `true` if the step acts or waits, so the maintenance stays at this step.
    pub(super) fn record(&mut self, step: MaintenanceStep, result: StepResult) -> bool {
        let (state, message, requeue) = match result {
            StepResult::Done(message) => (StepState::Done, message, None),
            // If this maintenance has started the step, report the step as done: later passes must know that they may
            // have to undo it.
            StepResult::Skipped(_) if self.snapshot.was_started(step) => (StepState::Done, String::new(), None),
            StepResult::Skipped(message) => (StepState::Skipped, message, None),
            StepResult::Act(action, message) => {
                // Nova responds to the request for a migration before the migration ends, so the next pass must check
                // the migration soon. Every other action is complete when the controller has executed it.
                let continues = matches!(action, Action::Migrate(_));
                self.action = Some(action);
                (StepState::Active, message, continues.then_some(RequeueDelay::Soon))
            }
            StepResult::Wait(message, requeue, person) => {
                self.blocked = person;
                let in_progress = requeue == RequeueDelay::Soon;
                (if in_progress { StepState::Active } else { StepState::Waiting }, message, Some(requeue))
            }
        };
        self.requeue = requeue;
        let current = matches!(state, StepState::Active | StepState::Waiting);
        if current {
            self.message = Some(message.clone());
        }
        self.push_step(step, state, message);
        current
    }

    fn push_step(&mut self, name: MaintenanceStep, state: StepState, message: String) {
        let known = self.snapshot.status.steps.iter().find(|known| known.name == name && known.state == state);
        let since = known.map_or_else(|| seconds(self.snapshot), |known| known.since.clone());
        self.steps.push(StepStatus { name, state, since, message });
    }

    fn condition(&self, type_: &str, holds: bool, reason: &str, message: &str) -> Condition {
        let status = if holds { "True" } else { "False" };
        let known = self.snapshot.status.conditions.iter().find(|known| known.type_ == type_ && known.status == status);
        let now = Time(seconds(self.snapshot).parse().unwrap_or(self.snapshot.now));
        Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            observed_generation: self.snapshot.generation,
            last_transition_time: known.map_or(now, |known| known.last_transition_time.clone()),
        }
    }
}

/// Returns the current time in the format of the API server's timestamps, in whole seconds.
pub(super) fn seconds(snapshot: &Snapshot<'_>) -> String {
    format!("{:.0}", snapshot.now)
}

/// Builds the decision of a pass from `progress`: the next action, the delay until the next pass, and the status.
pub(super) fn report(mut progress: Progress<'_>) -> Decision {
    let rest: Vec<_> =
        DRAIN_STEPS.into_iter().filter(|step| !progress.steps.iter().any(|known| known.name == *step)).collect();
    if !progress.snapshot.is_returning() {
        for step in rest {
            progress.push_step(step, StepState::Pending, String::new());
        }
    }
    let message =
        progress.message.clone().filter(|message| !message.is_empty()).unwrap_or_else(|| match progress.message {
            Some(_) => "ready to begin".into(),
            None => progress.final_message.clone(),
        });
    let ready = progress.phase == MaintenancePhase::ReadyToDrain;
    if let Some(instances) =
        progress.instances.as_mut().filter(|_| matches!(progress.snapshot.observed.compute, Compute::Known(_)))
    {
        instances.checked = ready.then(|| seconds(progress.snapshot));
    }
    let status = &progress.snapshot.status;
    let ready_since = status.ready_since.clone().or_else(|| ready.then(|| seconds(progress.snapshot)));
    let roles = progress.snapshot.observed.node.iter().flat_map(|node| node.roles.iter().cloned()).collect::<Vec<_>>();
    let roles = if roles.is_empty() { status.roles.clone() } else { roles };
    let reason = format!("{:?}", progress.phase);
    let conditions = vec![
        progress.condition(condition::READY_TO_DRAIN, ready, &reason, &message),
        progress.condition(
            condition::BLOCKED,
            progress.blocked,
            if progress.blocked { &reason } else { "AsExpected" },
            if progress.blocked { &message } else { "" },
        ),
    ];
    let status = NodeMaintenanceStatus {
        observed_generation: progress.snapshot.generation,
        phase: Some(progress.phase),
        message,
        instances: progress.instances,
        compute: progress.compute,
        agents: progress.agents,
        roles,
        ready_since,
        steps: progress.steps,
        conditions,
    };
    Decision { action: progress.action, requeue: progress.requeue, requeue_at: None, status }
}
