//! Finds an active operator in another namespace. Each namespace has its own Lease. So without this search, one
//! operator in each of two namespaces could be active, and both would change the same cloud.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::ListParams;
use kube::{Api, Client};
use osdpl_values::CollectSorted;

use super::{DURATION, Failure, NAME, RETRY_PERIOD, request};

/// The label of all objects of the operator's chart, see `deploy/osdpl/templates/_helpers.tpl`.
pub const CHART_LABEL: &str = "app.kubernetes.io/name=osdpl";

/// Returns the Leases of operators, for commands: the Leases named [`NAME`] that have a holder and are in a namespace
/// with an installation of the operator's chart.
///
/// Otherwise, anyone with the right to write Leases in some namespace could make the commands believe that an operator
/// is active. The function returns the Leases in all namespaces if no installation has a `ClusterRoleBinding`, because
/// an operator then runs without the chart, or without the roles of the chart. It also returns all of them if the
/// caller lacks the right to list `ClusterRoleBinding`s.
pub(super) async fn held_by_operators(client: &Client) -> Result<BTreeMap<String, LeaseSpec>, kube::Error> {
    let mut held = held(client).await?;
    if !held.is_empty() {
        let installed = match installations(client).await {
            Err(kube::Error::Api(status)) if status.is_forbidden() => BTreeSet::new(),
            installed => installed?,
        };
        held.retain(|namespace, _| installed.is_empty() || installed.contains(namespace));
    }
    Ok(held)
}

/// Returns the Leases named [`NAME`] that have a holder, by namespace.
async fn held(client: &Client) -> Result<BTreeMap<String, LeaseSpec>, kube::Error> {
    let named = ListParams::default().fields(&format!("metadata.name={NAME}"));
    let leases = Api::<Lease>::all(client.clone()).list(&named).await?.items;
    let held = leases.into_iter().filter_map(|lease| Some((lease.metadata.namespace?, lease.spec?)));
    Ok(held.filter(|(_, lease)| lease.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty())).collect_map())
}

/// The Leases of operators in other namespaces, as this process first saw them.
pub(super) struct Others {
    client: Client,
    /// The namespace of this operator. This type ignores the Lease in this namespace.
    own: String,
    first: BTreeMap<String, LeaseSpec>,
}

impl Others {
    /// Reads the Leases of the operators in namespaces other than `own`. [`Self::find_changed`] reads the Leases again
    /// later, and compares them with the Leases of this read.
    pub(super) async fn read(api: &Api<Lease>, own: &str) -> Self {
        let (client, own) = (api.clone().into_client(), own.to_owned());
        let first = read(&client, &own).await;
        Self { client, own, first }
    }

    /// Describes an active operator in another namespace; returns `None` if no other operator is active.
    ///
    /// An operator is active if it renews its Lease while this function waits. The Lease alone does not prove that its
    /// holder is active, because the Lease of a killed operator remains. The function waits for as long as a standby
    /// waits before it takes the Lease of a killed operator. The function ignores the times in Leases, because they
    /// come from the clocks of other machines.
    pub(super) async fn find_active(&self) -> Option<String> {
        let longest = DURATION + RETRY_PERIOD * 2;
        let checks = if self.first.is_empty() { 0 } else { longest.as_secs().div_ceil(RETRY_PERIOD.as_secs()) };
        for _ in 0..checks {
            tokio::time::sleep(RETRY_PERIOD).await;
            let active = self.find_changed().await;
            if active.is_some() {
                return active;
            }
        }
        None
    }

    /// Describes an active operator in another namespace; returns `None` if there is none. An operator is active if it
    /// has taken or renewed its Lease since the call of [`Self::read`].
    pub(super) async fn find_changed(&self) -> Option<String> {
        let now = read(&self.client, &self.own).await;
        let (namespace, lease) = now.into_iter().find(|(namespace, lease)| self.first.get(namespace) != Some(lease))?;
        let holder = lease.holder_identity.unwrap_or_default();
        Some(format!("{holder} renews the Lease {NAME} in the namespace {namespace}"))
    }
}

/// Returns the Leases of the operators in namespaces other than `own`. If the API server does not respond, tries again.
///
/// The result is empty if the operator lacks the permission to list these Leases in all namespaces. The operator's
/// chart grants this permission.
async fn read(client: &Client, own: &str) -> BTreeMap<String, LeaseSpec> {
    loop {
        let error = match request(held_elsewhere(client, own)).await {
            Ok(held) => return held,
            Err(error) => error,
        };
        if matches!(&error, Failure::Other(error) if matches!(&**error, kube::Error::Api(why) if why.is_forbidden())) {
            tracing::warn!(
                %error,
                "osdpl can't find out whether an operator is active in another namespace; grant this operator the \
                 rights that the operator's chart grants"
            );
            return BTreeMap::new();
        }
        tracing::warn!(%error, "osdpl can't find out whether an operator is active in another namespace; retrying");
        tokio::time::sleep(RETRY_PERIOD).await;
    }
}

/// Returns the Leases named [`NAME`] that have a holder and are in another namespace with an installation of the
/// operator's chart.
///
/// Ignores Leases named [`NAME`] in namespaces without the chart. Otherwise, anyone with the right to write Leases in
/// some namespace could stop the operator, because the operator ends if it finds another active operator.
async fn held_elsewhere(client: &Client, own: &str) -> Result<BTreeMap<String, LeaseSpec>, kube::Error> {
    let mut held = held(client).await?;
    held.remove(own);
    if !held.is_empty() {
        let installed = installations(client).await?;
        held.retain(|namespace, _| installed.contains(namespace));
    }
    Ok(held)
}

/// Returns the namespaces in which the operator's chart is installed: those of the ServiceAccounts to which the chart's
/// `ClusterRoleBinding`s grant rights.
async fn installations(client: &Client) -> Result<BTreeSet<String>, kube::Error> {
    let of_chart = ListParams::default().labels(CHART_LABEL);
    let bindings = Api::<ClusterRoleBinding>::all(client.clone()).list(&of_chart).await?.items;
    let subjects = bindings.into_iter().flat_map(|binding| binding.subjects.unwrap_or_default());
    Ok(subjects.filter_map(|subject| subject.namespace).collect_set())
}
