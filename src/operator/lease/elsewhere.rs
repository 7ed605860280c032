//! Finds an active operator in another namespace. That operator holds the Lease of its own namespace, so the election
//! in this namespace does not prevent that both operators are active.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::ListParams;
use kube::{Api, Client};
use osdpl_values::CollectSorted;

use super::{DURATION, NAME, RETRY_PERIOD, request};

/// Returns the Leases named [`NAME`] that have a holder, by namespace.
pub(super) async fn held(client: &Client) -> Result<BTreeMap<String, LeaseSpec>, kube::Error> {
    let named = ListParams::default().fields(&format!("metadata.name={NAME}"));
    let leases = Api::<Lease>::all(client.clone()).list(&named).await?.items;
    let held = leases.into_iter().filter_map(|lease| Some((lease.metadata.namespace?, lease.spec?)));
    Ok(held.filter(|(_, lease)| lease.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty())).collect_map())
}

/// Returns a text that names an active operator in a namespace other than `own`; `None` if the function finds none.
///
/// An operator is active if it renews its Lease while this function waits. The Lease alone does not prove that its
/// holder is active, because the Lease of a killed operator remains. The function waits as long as a standby waits
/// before it takes the Lease of a killed operator. The function ignores the times in Leases, because they come from the
/// clocks of other machines.
///
/// The result is also `None` if the API server does not respond, or if the operator lacks the permission to list Leases
/// in all namespaces. The operator's chart does not grant this permission; a person who starts an operator by hand
/// often has it.
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
