//! How long a failed release waits before it is tried again.

use k8s_openapi::jiff::SignedDuration;

use crate::observed::Key;
use crate::values::digest;

/// Ten seconds, doubled with each failure in a row up to ten minutes, and up to a quarter more, so that many releases that failed together
/// do not come back together. The spread follows from the release's name and the count: the same inputs give the same plan.
pub fn delay(key: &Key, count: u32) -> SignedDuration {
    let seconds = 10_i64.saturating_mul(1 << count.saturating_sub(1).min(6)).min(600);
    let spread = digest([key.to_string().as_str(), &count.to_string()]);
    let share = i64::from_str_radix(&spread[..4], 16).unwrap_or_default();
    SignedDuration::from_millis(seconds * 1000 + seconds * 250 * share / 0xffff)
}
