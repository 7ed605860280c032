//! What is told of a maintenance.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{Act, Again, Case, Compute, Decision, Now, there};
use crate::api::{
    InstancesStatus, MaintenancePhase, MaintenanceStep, NodeMaintenanceStatus, StepState, StepStatus,
    maintenance_condition as condition,
};

/// What is gathered on the way through the steps.
pub(super) struct Told<'a> {
    case: &'a Case<'a>,
    steps: Vec<StepStatus>,
    pub(super) phase: MaintenancePhase,
    pub(super) instances: Option<InstancesStatus>,
    pub(super) compute: Option<String>,
    pub(super) agents: Vec<String>,
    pub(super) act: Option<Act>,
    /// What is said when all steps are done.
    pub(super) closing: String,
    again: Option<Again>,
    /// What it waits for, or does.
    message: Option<String>,
    blocked: bool,
}

impl<'a> Told<'a> {
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

    /// The same with the steps there as they stood: those that were not done are given up.
    pub(super) fn given_up(case: &'a Case<'a>) -> Self {
        let mut told = Self::new(case);
        for known in case.status.steps.iter().filter(|known| there::STEPS.contains(&known.name)) {
            let (state, message) = match known.state {
                StepState::Done | StepState::Skipped => (known.state, known.message.clone()),
                // It may have been done in the moment before, or before nova was away.
                _ if known.name == MaintenanceStep::DisableCompute && case.may_have_disabled() => {
                    (StepState::Done, String::new())
                }
                StepState::Active if known.name == MaintenanceStep::Cordon => (StepState::Done, String::new()),
                StepState::Active | StepState::Waiting | StepState::Pending => {
                    (StepState::Skipped, "given up".to_owned())
                }
            };
            told.note(known.name, state, message);
        }
        told
    }

    /// Notes a step; returns whether it is the one that is to be done now.
    pub(super) fn take(&mut self, step: MaintenanceStep, now: Now) -> bool {
        let (state, message, again) = match now {
            Now::Done(message) => (StepState::Done, message, None),
            Now::Skipped(_) if self.case.touched(step) => (StepState::Done, String::new(), None),
            Now::Skipped(message) => (StepState::Skipped, message, None),
            Now::Act(act, message) => {
                // A migration goes on after it was asked for; what else is done is done at once.
                let goes_on = matches!(act, Act::Migrate(_));
                self.act = Some(act);
                (StepState::Active, message, goes_on.then_some(Again::Soon))
            }
            Now::Wait(message, again, person) => {
                self.blocked = person;
                let moves = again == Again::Soon;
                (if moves { StepState::Active } else { StepState::Waiting }, message, Some(again))
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

/// The time as the API server writes it.
pub(super) fn seconds(case: &Case<'_>) -> String {
    case.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What is to be done and told.
pub(super) fn report(mut told: Told<'_>) -> Decision {
    let rest: Vec<_> =
        there::STEPS.into_iter().filter(|step| !told.steps.iter().any(|known| known.name == *step)).collect();
    if !told.case.is_returning() {
        for step in rest {
            told.note(step, StepState::Pending, String::new());
        }
    }
    let message = told.message.clone().filter(|message| !message.is_empty()).unwrap_or_else(|| match told.message {
        Some(_) => "its turn has come".into(),
        None => told.closing.clone(),
    });
    let ready = told.phase == MaintenancePhase::ReadyToDrain;
    if let Some(instances) = told.instances.as_mut().filter(|_| matches!(told.case.facts.compute, Compute::Known(_))) {
        instances.looked = ready.then(|| seconds(told.case));
    }
    let status = &told.case.status;
    let ready_since = status.ready_since.clone().or_else(|| ready.then(|| seconds(told.case)));
    let roles = told.case.facts.node.iter().flat_map(|node| node.roles.iter().cloned()).collect::<Vec<_>>();
    let roles = if roles.is_empty() { status.roles.clone() } else { roles };
    let reason = format!("{:?}", told.phase);
    let conditions = vec![
        told.condition(condition::READY_TO_DRAIN, ready, &reason, &message),
        told.condition(
            condition::BLOCKED,
            told.blocked,
            if told.blocked { &reason } else { "AsExpected" },
            if told.blocked { &message } else { "" },
        ),
    ];
    let status = NodeMaintenanceStatus {
        observed_generation: told.case.generation,
        phase: Some(told.phase),
        message,
        instances: told.instances,
        compute: told.compute,
        agents: told.agents,
        roles,
        ready_since,
        steps: told.steps,
        conditions,
    };
    Decision { act: told.act, again: told.again, wake: None, status }
}
