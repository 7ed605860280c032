//! Decides how osdpl adopts releases that someone else installed, and how it stops managing releases.

use super::step::{Action, Reason, Step, Wait, locked_wait};
use super::{Context, Policy, State};
use crate::api::reason;
use crate::desired::DesiredRelease;
use crate::observed::{ComparisonResult, ObservedRelease};
use crate::release::{ADOPTED, Status};

impl Context<'_> {
    /// Returns the result of comparing the newest revision of a release with the desired state; `None` until the
    /// operator has compared exactly this revision with the current desired inputs.
    fn comparison(&self, release: &DesiredRelease, record: &ObservedRelease) -> Option<&ComparisonResult> {
        let known = self.observed.comparisons.get(&release.key)?;
        (known.revision == record.revision && known.inputs == release.inputs).then_some(&known.result)
    }

    /// Whether the newest revision, which someone else made, equals the desired state. If so, osdpl need not run helm:
    /// it only labels the record of the revision.
    pub(super) fn matches_desired(&self, release: &DesiredRelease, record: &ObservedRelease) -> bool {
        self.comparison(release, record) == Some(&ComparisonResult::Same)
    }

    /// Returns the step of a release with `managed: false` in the spec.
    ///
    /// If an interrupted operation left the newest record pending, osdpl first unlocks the record. In a later pass,
    /// osdpl removes its labels from the records. If no record has osdpl's labels, or if osdpl can't use the records,
    /// there is nothing to do, and the step is `Ready`.
    pub(super) fn unmanage_step(state: State<'_>) -> Step {
        match state {
            State::Locked(record, until) => Step::Wait(locked_wait(record, until)),
            State::Abandoned(record) => Step::Do(Action::Unlock, Reason::Abandoned(record.status)),
            State::Uninstalling(_) | State::Failed(_) | State::OutOfDate(_) | State::InSync(_) | State::Foreign(_) => {
                Step::Do(Action::Unmanage, Reason::Unmanaged)
            }
            State::Absent | State::Running(_) | State::Unmanaged(_) | State::Undecodable(_) => Step::Ready,
        }
    }

    /// Returns the step of a release of which osdpl made no revision.
    ///
    /// osdpl adopts the release only if a person requested the adoption. osdpl adopts even a paused release, because an
    /// adoption changes only labels of the record, and nothing in the cloud.
    pub(super) fn unmanaged_step(&self, name: &str, release: &DesiredRelease, record: &ObservedRelease) -> Step {
        let result = self.comparison(release, record);
        if !Policy::selects(&self.policy.adopt, name) {
            return Step::Wait(Wait::Unmanaged(result.cloned()));
        }
        if let Some(blocked) = Self::blocked(release) {
            return blocked;
        }
        let refused = |message: String| Step::Wait(Wait::Blocked { reason: reason::FOREIGN.into(), message });
        if record.status != Status::Deployed {
            return refused(format!(
                "revision {} is {}: osdpl adopts only deployed releases; repair the release with helm first",
                record.revision, record.status
            ));
        }
        match result {
            None => Step::Settling(vec!["osdpl is still comparing the newest revision with the desired state".into()]),
            Some(ComparisonResult::Owned(message) | ComparisonResult::Unknown(message)) => refused(message.clone()),
            Some(ComparisonResult::Same) => Step::Do(Action::Adopt { in_sync: true }, Reason::Matches),
            Some(ComparisonResult::Differs { .. }) => {
                Step::Do(Action::Adopt { in_sync: false }, Reason::AdoptRequested)
            }
        }
    }
}

/// Whether osdpl adopted the newest revision although it differs from the desired state.
pub(super) fn is_adopted(record: &ObservedRelease) -> bool {
    record.catalog.as_deref() == Some(ADOPTED)
}
