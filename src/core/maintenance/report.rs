//! The status of a maintenance.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{Act, Case, Compute, Decision, Now, RequeueDelay, drain};
use crate::api::{
    InstancesStatus, MaintenancePhase, MaintenanceStep, NodeMaintenanceStatus, StepState, StepStatus,
    maintenance_condition as condition,
};

/// The progress that is collected step by step.
pub(super) struct Progress<'a> {
    case: &'a Case<'a>,
    steps: Vec<StepStatus>,
    pub(super) phase: MaintenancePhase,
    pub(super) instances: Option<InstancesStatus>,
    pub(super) compute: Option<String>,
    pub(super) agents: Vec<String>,
    pub(super) act: Option<Act>,
    /// The message after all steps are done.
    pub(super) closing: String,
    again: Option<RequeueDelay>,
    /// The current action or the reason to wait.
    message: Option<String>,
    blocked: bool,
}

impl<'a> Progress<'a> {
    pub(super) fn new(case: &'a Case<'a>) -> Self {
        let node = &case.spec.node;
        Self {
            case,
            steps: Vec::new(),
            phase: MaintenancePhase::ReadyToDrain,
            instances: case.status.instances.clone(),
            compute: case.status.compute.clone(),
            agents: case.status.agents.clone(),
            act: None,
            closing: format!(
                "{node} can be drained (kubectl drain {node} --ignore-daemonsets --delete-emptydir-data); delete this NodeMaintenance when it is back"
            ),
            again: None,
            message: None,
            blocked: false,
        }
    }

    /// Returns the progress with the previous steps of the way there. Unfinished steps are skipped.
    pub(super) fn from_previous_steps(case: &'a Case<'a>) -> Self {
        let mut progress = Self::new(case);
        for known in case.status.steps.iter().filter(|known| drain::STEPS.contains(&known.name)) {
            let (state, message) = match known.state {
                StepState::Done | StepState::Skipped => (known.state, known.message.clone()),
                // It may have been executed just before, or before nova became unreachable.
                _ if known.name == MaintenanceStep::DisableCompute && case.may_have_disabled() => {
                    (StepState::Done, String::new())
                }
                StepState::Active if known.name == MaintenanceStep::Cordon => (StepState::Done, String::new()),
                StepState::Active | StepState::Waiting | StepState::Pending => {
                    (StepState::Skipped, "cancelled".to_owned())
                }
            };
            progress.note(known.name, state, message);
        }
        progress
    }

    /// Records the result of a step; returns whether it is the current step.
    pub(super) fn take(&mut self, step: MaintenanceStep, now: Now) -> bool {
        let (state, message, again) = match now {
            Now::Done(message) => (StepState::Done, message, None),
            Now::Skipped(_) if self.case.was_started(step) => (StepState::Done, String::new(), None),
            Now::Skipped(message) => (StepState::Skipped, message, None),
            Now::Act(act, message) => {
                // A migration continues after the request; other actions are complete at once.
                let continues = matches!(act, Act::Migrate(_));
                self.act = Some(act);
                (StepState::Active, message, continues.then_some(RequeueDelay::Soon))
            }
            Now::Wait(message, again, person) => {
                self.blocked = person;
                let in_progress = again == RequeueDelay::Soon;
                (if in_progress { StepState::Active } else { StepState::Waiting }, message, Some(again))
            }
        };
        self.again = again;
        let current = matches!(state, StepState::Active | StepState::Waiting);
        if current {
            self.message = Some(message.clone());
        }
        self.note(step, state, message);
        current
    }

    fn note(&mut self, name: MaintenanceStep, state: StepState, message: String) {
        let known = self.case.status.steps.iter().find(|known| known.name == name && known.state == state);
        let since = known.map_or_else(|| seconds(self.case), |known| known.since.clone());
        self.steps.push(StepStatus { name, state, since, message });
    }

    fn condition(&self, type_: &str, holds: bool, reason: &str, message: &str) -> Condition {
        let status = if holds { "True" } else { "False" };
        let known = self.case.status.conditions.iter().find(|known| known.type_ == type_ && known.status == status);
        let now = Time(seconds(self.case).parse().unwrap_or(self.case.now));
        Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            observed_generation: self.case.generation,
            last_transition_time: known.map_or(now, |known| known.last_transition_time.clone()),
        }
    }
}

/// The time in the format of the API server.
pub(super) fn seconds(case: &Case<'_>) -> String {
    case.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Builds the decision.
pub(super) fn report(mut progress: Progress<'_>) -> Decision {
    let rest: Vec<_> =
        drain::STEPS.into_iter().filter(|step| !progress.steps.iter().any(|known| known.name == *step)).collect();
    if !progress.case.is_returning() {
        for step in rest {
            progress.note(step, StepState::Pending, String::new());
        }
    }
    let message =
        progress.message.clone().filter(|message| !message.is_empty()).unwrap_or_else(|| match progress.message {
            Some(_) => "ready to begin".into(),
            None => progress.closing.clone(),
        });
    let ready = progress.phase == MaintenancePhase::ReadyToDrain;
    if let Some(instances) =
        progress.instances.as_mut().filter(|_| matches!(progress.case.facts.compute, Compute::Known(_)))
    {
        instances.looked = ready.then(|| seconds(progress.case));
    }
    let status = &progress.case.status;
    let ready_since = status.ready_since.clone().or_else(|| ready.then(|| seconds(progress.case)));
    let roles = progress.case.facts.node.iter().flat_map(|node| node.roles.iter().cloned()).collect::<Vec<_>>();
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
        observed_generation: progress.case.generation,
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
    Decision { act: progress.act, requeue: progress.again, requeue_at: None, status }
}
