//! Backoff of failed releases.

use k8s_openapi::jiff::SignedDuration;

use crate::observed::{Fix, ReleaseKey};
use osdpl_values::digest;

/// The first and the longest delay in seconds; `None` if no time helps. The delay doubles with each failure in a row.
fn bounds(mend: Fix) -> Option<(i64, i64)> {
    match mend {
        Fix::Time => Some((10, 600)),
        // Every attempt touches all objects of the release and adds a revision, so retries are rare. They never stop,
        // because no watch reports that the object was deleted or the quota raised.
        Fix::Manual => Some((120, 3600)),
        Fix::Inputs => None,
    }
}

/// The delay after `count` failures in a row, plus up to a quarter of jitter.
///
/// The jitter is derived from the release name and the count, so that equal inputs give the same plan.
pub fn backoff_delay(key: &ReleaseKey, count: u32, mend: Fix) -> Option<SignedDuration> {
    let (first, longest) = bounds(mend)?;
    let seconds = first.saturating_mul(1 << count.saturating_sub(1).min(6)).min(longest);
    let spread = digest([key.to_string().as_str(), &count.to_string()]);
    let share = i64::from_str_radix(&spread[..4], 16).unwrap_or_default();
    Some(SignedDuration::from_millis(seconds * 1000 + seconds * 250 * share / 0xffff))
}
