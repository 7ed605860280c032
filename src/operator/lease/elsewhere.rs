//! Finds an active operator in another namespace. It holds another Lease, so the election does not exclude it.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::ListParams;
use kube::{Api, Client};
use osdpl_values::CollectSorted;

use super::{DURATION, NAME, RETRY_PERIOD, request};

/// Returns the held Leases named [`NAME`], by namespace.
pub(super) async fn held(client: &Client) -> Result<BTreeMap<String, LeaseSpec>, kube::Error> {
    let named = ListParams::default().fields(&format!("metadata.name={NAME}"));
    let leases = Api::<Lease>::all(client.clone()).list(&named).await?.items;
    let held = leases.into_iter().filter_map(|lease| Some((lease.metadata.namespace?, lease.spec?)));
    Ok(held.filter(|(_, lease)| lease.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty())).collect_map())
}

/// Returns the holder of a Lease in a namespace other than `own`, with the namespace, if this holder is alive.
///
/// A holder is alive if it renews its Lease while this function waits. The Lease of a killed operator stays. So this
/// function waits as long as a standby waits before it takes such a Lease. The function compares no times, because they
/// come from the clocks of other machines.
///
/// Without permission to list Leases in all namespaces, or if the API server does not respond, returns `None`. The
/// operator's chart does not grant this permission; a person who starts an operator by hand often has it.
pub(super) async fn find_active(api: &Api<Lease>, own: &str) -> Option<String> {
    let client = api.clone().into_client();
    let others = async || {
        let mut others = request(held(&client)).await.ok()?;
        others.remove(own);
        Some(others)
    };
    let before = others().await?;
    let longest = DURATION + RETRY_PERIOD * 2;
    let checks = if before.is_empty() { 0 } else { longest.as_secs().div_ceil(RETRY_PERIOD.as_secs()) };
    for _ in 0..checks {
        tokio::time::sleep(RETRY_PERIOD).await;
        let now = others().await.unwrap_or_default();
        let renewed = now.into_iter().find(|(namespace, lease)| before.get(namespace).is_some_and(|old| old != lease));
        if let Some((namespace, lease)) = renewed {
            let holder = lease.holder_identity.unwrap_or_default();
            return Some(format!("{holder} renews the Lease {NAME} in the namespace {namespace}"));
        }
    }
    None
}
