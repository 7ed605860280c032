//! How long a failed release waits before it is tried again.

use k8s_openapi::jiff::SignedDuration;

use crate::observed::{Key, Mend};
use osdpl_values::digest;

/// Doubled with each failure in a row, from the first to the last, in seconds; `None` where no time helps.
fn bounds(mend: Mend) -> Option<(i64, i64)> {
    match mend {
        Mend::Time => Some((10, 600)),
        // Every attempt touches all objects of the release and makes a revision: seldom, but not never, because nothing tells us when the
        // object is gone or the quota raised.
        Mend::Hand => Some((120, 3600)),
        Mend::Inputs => None,
    }
}

/// How long to wait after so many failures in a row, and up to a quarter more, so that many releases that failed together do not come back
/// together. The spread follows from the release's name and the count: the same inputs give the same plan.
pub fn delay(key: &Key, count: u32, mend: Mend) -> Option<SignedDuration> {
    let (first, most) = bounds(mend)?;
    let seconds = first.saturating_mul(1 << count.saturating_sub(1).min(6)).min(most);
    let spread = digest([key.to_string().as_str(), &count.to_string()]);
    let share = i64::from_str_radix(&spread[..4], 16).unwrap_or_default();
    Some(SignedDuration::from_millis(seconds * 1000 + seconds * 250 * share / 0xffff))
}
