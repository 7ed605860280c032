//! The operator's clocks.
//!
//! The operator takes the times that it compares with each other, such as the end of a backoff, from [`steady`]:
//! someone may correct the wall clock by hours, and the operator must not wait for hours then. Only times that people
//! or other programs read come from [`wall`].

#![allow(clippy::disallowed_methods, reason = "the one place where passes and tasks read the clock")]

use std::sync::LazyLock;
use std::time::Instant;

use k8s_openapi::jiff::Timestamp;

/// The wall clock and the monotonic clock at the first call of [`steady`].
static START: LazyLock<(Timestamp, Instant)> = LazyLock::new(|| (Timestamp::now(), Instant::now()));

/// Returns the time of a clock that nobody can set. It started at the time of the wall clock, and has followed the
/// monotonic clock since then.
pub(crate) fn steady() -> Timestamp {
    let (wall, monotonic) = *START;
    wall.checked_add(monotonic.elapsed()).unwrap_or(Timestamp::MAX)
}

/// Returns the time of the wall clock.
pub(crate) fn wall() -> Timestamp {
    Timestamp::now()
}
