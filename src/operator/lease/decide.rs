//! Decides when a process may take the Lease. This module does no I/O.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};

use super::{DURATION, RETRY_PERIOD};
use crate::helm::ProcessState;

/// The delay before a process that has taken an expired Lease writes anything or starts helm.
///
/// The guard of the previous holder kills the holder's helm processes 2 s before the Lease expires. With this wait, the
/// new holder starts helm at least 4 s after this kill. These 4 s are a reserve, because machines may be slow and their
/// clocks may run at different speeds.
pub(super) const TAKEOVER_GRACE: Duration = Duration::from_secs(2);

/// The content of the Lease when this process last read it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    content: LeaseSpec,
    /// When this process first saw this content, by its own clock. osdpl ignores the times that the Lease contains,
    /// because they come from the clocks of other machines.
    since: Instant,
}

/// The next step of a process that does not hold the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Take the Lease, and then wait for this time before any other write.
    Take(Duration),
    /// Wait for this time, then check the Lease again.
    Wait(Duration),
}

impl Seen {
    /// Returns what this process knows about the Lease after reading `lease`, which is `None` if the Lease does not
    /// exist.
    ///
    /// `before` is what the process knew before the read. If someone has deleted the Lease, the function returns
    /// `before`, because the process that held the Lease stays active until it notices the deletion.
    pub(super) fn after_read(before: Option<Self>, lease: Option<&Lease>, now: Instant) -> Option<Self> {
        let Some(lease) = lease else { return before };
        let content = lease.spec.clone().unwrap_or_default();
        match before {
            Some(before) if before.content == content => Some(before),
            _ => Some(Self { content, since: now }),
        }
    }

    /// Returns the holder of the Lease; `None` if the last holder has released it.
    pub(super) fn holder(&self) -> Option<&str> {
        self.content.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    /// Returns how long the Lease remains valid if its holder does not renew it.
    fn remaining(&self, now: Instant) -> Duration {
        let duration = self.content.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        // Even if the Lease contains a shorter duration, wait for [`DURATION`]: the holder's helm processes can run
        // until shortly before the end of this time.
        let duration = duration.map_or(DURATION, Duration::from_secs).max(DURATION);
        (self.since + duration).saturating_duration_since(now)
    }
}

/// Returns the next step of a process that waits for the Lease. `own` is the identity of this process, and `holder` is
/// the state of the process that holds the Lease.
pub(super) fn next_step(seen: Option<&Seen>, own: &str, holder: ProcessState, now: Instant) -> Step {
    let Some((seen, name)) = seen.and_then(|seen| Some((seen, seen.holder()?))) else {
        return Step::Take(Duration::ZERO);
    };
    if name == own {
        // An earlier request of this process took the Lease, but the process did not get the response. Wait before the
        // first write, because helm processes of the previous holder could still be running.
        return Step::Take(TAKEOVER_GRACE);
    }
    let remaining = seen.remaining(now);
    match holder {
        ProcessState::Ended => Step::Take(Duration::ZERO),
        // Take an expired Lease even from a process that still runs, because that process may be frozen.
        ProcessState::Running | ProcessState::Elsewhere if remaining.is_zero() => Step::Take(TAKEOVER_GRACE),
        ProcessState::Running | ProcessState::Elsewhere => Step::Wait(RETRY_PERIOD.min(remaining)),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use ProcessState::{Elsewhere, Ended, Running};

    const OWN: &str = "own";

    fn lease(holder: &str, renewed: i64) -> Lease {
        let renew_time = Some(MicroTime(Timestamp::from_second(renewed).unwrap()));
        let content = LeaseSpec { holder_identity: Some(holder.into()), renew_time, ..LeaseSpec::default() };
        Lease { spec: Some(content), ..Lease::default() }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn takes_a_missing_or_released_lease_at_once() {
        let now = Instant::now();
        assert_eq!(next_step(None, OWN, Elsewhere, now), Step::Take(Duration::ZERO));
        let released = Seen::after_read(None, Some(&lease("", 1)), now);
        assert_eq!(next_step(released.as_ref(), OWN, Elsewhere, now), Step::Take(Duration::ZERO));
    }

    #[test]
    fn waits_for_the_duration_after_the_last_observed_renewal() {
        let start = Instant::now();
        // The renewal time that the Lease contains must have no effect on the next step, even if it is far in the past
        // or in the future.
        for renewed in [0, 32_503_680_000] {
            let first = Seen::after_read(None, Some(&lease("a", renewed)), start);
            let same = Seen::after_read(first, Some(&lease("a", renewed)), start + seconds(14));
            assert_eq!(next_step(same.as_ref(), OWN, Elsewhere, start + seconds(1)), Step::Wait(RETRY_PERIOD));
            assert_eq!(next_step(same.as_ref(), OWN, Elsewhere, start + seconds(14)), Step::Wait(seconds(1)));
            assert_eq!(next_step(same.as_ref(), OWN, Elsewhere, start + seconds(15)), Step::Take(TAKEOVER_GRACE));
            let renewed = Seen::after_read(same, Some(&lease("a", renewed + 2)), start + seconds(15));
            assert_eq!(next_step(renewed.as_ref(), OWN, Elsewhere, start + seconds(29)), Step::Wait(seconds(1)));
        }
    }

    #[test]
    fn the_deletion_of_the_lease_does_not_end_the_time_of_its_holder() {
        let start = Instant::now();
        let seen = Seen::after_read(None, Some(&lease("a", 1)), start);
        let deleted = Seen::after_read(seen, None, start + seconds(1));
        assert_eq!(next_step(deleted.as_ref(), OWN, Elsewhere, start + seconds(1)), Step::Wait(RETRY_PERIOD));
        assert_eq!(next_step(deleted.as_ref(), OWN, Elsewhere, start + seconds(15)), Step::Take(TAKEOVER_GRACE));
    }

    #[test]
    fn takes_the_lease_of_a_local_process_when_it_has_ended() {
        let now = Instant::now();
        let seen = Seen::after_read(None, Some(&lease("a", 1)), now);
        assert_eq!(next_step(seen.as_ref(), OWN, Running, now), Step::Wait(RETRY_PERIOD));
        assert_eq!(next_step(seen.as_ref(), OWN, Ended, now), Step::Take(Duration::ZERO));
        assert_eq!(
            next_step(seen.as_ref(), OWN, Running, now + DURATION),
            Step::Take(TAKEOVER_GRACE),
            "the process is frozen"
        );
    }

    #[test]
    fn a_short_duration_in_the_lease_does_not_count() {
        let now = Instant::now();
        for (stored, expected) in [(1, DURATION), (-1, DURATION), (60, seconds(60))] {
            let mut lease = lease("a", 1);
            lease.spec.as_mut().unwrap().lease_duration_seconds = Some(stored);
            assert_eq!(Seen::after_read(None, Some(&lease), now).unwrap().remaining(now), expected);
        }
    }

    #[test]
    fn keeps_the_grace_period_if_the_response_of_the_first_attempt_was_lost() {
        let now = Instant::now();
        let taken = Seen::after_read(None, Some(&lease(OWN, 1)), now);
        assert_eq!(next_step(taken.as_ref(), OWN, Ended, now), Step::Take(TAKEOVER_GRACE));
    }
}
