//! The operator's clocks.
//!
//! All times that the operator compares with each other, such as the end of a backoff, come from [`steady`]. With the
//! wall clock, a correction of the clock by hours could make the operator wait for hours. Times that people or other
//! programs read come from [`wall`].

#![allow(clippy::disallowed_methods, reason = "the one place where passes and tasks read the clock")]

use std::sync::LazyLock;
use std::time::Instant;

use k8s_openapi::jiff::Timestamp;

/// The wall clock and the monotonic clock at the first call of [`steady`].
static START: LazyLock<(Timestamp, Instant)> = LazyLock::new(|| (Timestamp::now(), Instant::now()));

/// Returns the time of a clock that nobody can set.
///
/// At the first call, this clock shows the time of the wall clock. From then on, it follows the monotonic clock.
pub(crate) fn steady() -> Timestamp {
    let (wall, monotonic) = *START;
    wall.checked_add(monotonic.elapsed()).unwrap_or(Timestamp::MAX)
}

/// Returns the time of the wall clock.
pub(crate) fn wall() -> Timestamp {
    Timestamp::now()
}
