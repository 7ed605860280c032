//! Finds out whether any operator is active, for the command `osdpl status`.

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;

use super::elsewhere::held_by_operators;
use super::{DURATION, NAME, RETRY_PERIOD, request};

/// The number of times that [`describe_inactivity`] reads the Leases again, to find a renewed Lease. An active operator
/// renews its Lease between two such reads.
const READS: u32 = 3;

/// Returns why no operator is active; `None` if one is active, or if the Leases of all namespaces can't be listed, for
/// example because the caller lacks the right.
///
/// An operator is active if it renews its Lease. If a Lease was renewed just now according to the local clock, the
/// function regards its holder as active and returns at once. Otherwise, it waits for a renewal, because the local
/// clock may differ from the operator's clock.
pub async fn describe_inactivity(client: &Client) -> Option<String> {
    let before = request(held_by_operators(client)).await.ok()?;
    let (now, limit) = (Timestamp::now(), SignedDuration::try_from(DURATION).unwrap_or(SignedDuration::MAX));
    let age = |lease: &LeaseSpec| Some(now.duration_since(lease.renew_time.as_ref()?.0).abs());
    if before.values().filter_map(age).any(|age| age <= limit) {
        return None;
    }
    let reads = if before.is_empty() { 0 } else { READS };
    for _ in 0..reads {
        tokio::time::sleep(RETRY_PERIOD).await;
        let now = request(held_by_operators(client)).await.ok()?;
        if now.iter().any(|(namespace, lease)| before.get(namespace) != Some(lease)) {
            return None;
        }
    }
    let last = before.iter().max_by_key(|(_, lease)| lease.renew_time.as_ref().map(|time| time.0));
    Some(match last {
        Some((namespace, lease)) => {
            let holder = lease.holder_identity.as_deref().unwrap_or_default();
            let time = lease.renew_time.as_ref().map(|time| format!(" since {:.0}", time.0)).unwrap_or_default();
            format!("{holder} has not renewed the Lease {NAME} in the namespace {namespace}{time}")
        }
        None => format!("no process holds a Lease named {NAME}"),
    })
}
