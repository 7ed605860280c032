//! Releases that someone else made, or upgraded: taken over where a person asks for it, or where nothing would change.

use super::step::{Action, Step, Wait, Why, locked};
use super::{Context, Policy, State};
use crate::api::reason;
use crate::desired::DesiredRelease;
use crate::observed::{ReleaseSeen, Verdict};
use crate::release::ADOPTED;

impl Context<'_> {
    /// What is known of the newest revision beside what is wanted; `None` where it was not compared yet.
    fn verdict(&self, release: &DesiredRelease, seen: &ReleaseSeen) -> Option<&Verdict> {
        let known = self.observed.likeness.get(&release.key)?;
        (known.revision == seen.revision && known.inputs == release.inputs).then_some(&known.verdict)
    }

    /// Whether someone else's newest revision is just what is wanted: it counts as ours then, and is labelled so.
    pub(super) fn is_alike(&self, release: &DesiredRelease, seen: &ReleaseSeen) -> bool {
        self.verdict(release, seen) == Some(&Verdict::Same)
    }

    /// A release that the spec lets go: what helm is in the middle of is unlocked first, and then it is nobody's. It counts as ready whatever it is.
    pub(super) fn let_go(state: State<'_>) -> Step {
        match state {
            State::Locked(seen, until) => Step::Wait(locked(seen, until)),
            State::Abandoned(seen) => Step::Do(Action::Recover, Why::Abandoned(seen.status.clone())),
            State::Uninstalling(_) | State::Failed(_) | State::OutOfDate(_) | State::InSync(_) | State::Foreign(_) => {
                Step::Do(Action::LetGo, Why::Unmanaged)
            }
            State::Absent | State::Running(_) | State::Unmanaged(_) | State::Undecodable(_) => Step::Ready,
        }
    }

    /// A release that never was ours. Taking it over starts nothing, so that it may be done while everything is paused: its record is labelled, and
    /// whatever is to change of it waits from then on like any other change.
    pub(super) fn unmanaged(&self, name: &str, release: &DesiredRelease, seen: &ReleaseSeen) -> Step {
        let verdict = self.verdict(release, seen);
        if !Policy::names(&self.policy.adopt, name) {
            return Step::Wait(Wait::Unmanaged(verdict.cloned()));
        }
        if let Some(blocked) = Self::blocked(release) {
            return blocked;
        }
        let refused = |message: String| Step::Wait(Wait::Blocked { reason: reason::FOREIGN.into(), message });
        if seen.status != "deployed" {
            return refused(format!(
                "revision {} is {}: only what helm has deployed is taken over; bring it there with helm first",
                seen.revision, seen.status
            ));
        }
        match verdict {
            None => Step::Settle(vec!["its release record is being compared with what is wanted".into()]),
            Some(Verdict::Owned(message) | Verdict::Unknown(message)) => refused(message.clone()),
            Some(Verdict::Same) => Step::Do(Action::Adopt { in_sync: true }, Why::Alike),
            Some(Verdict::Differs { .. }) => Step::Do(Action::Adopt { in_sync: false }, Why::Asked),
        }
    }
}

/// Whether a release was taken over and never upgraded since.
pub(super) fn is_adopted(seen: &ReleaseSeen) -> bool {
    seen.catalog.as_deref() == Some(ADOPTED)
}
