//! Resolves the hosts of external services, and writes the Services and Endpoints through which pods reach these hosts.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use kube::Api;
use kube::api::{Patch, PatchParams};
use osdpl_values::CollectSorted;
use serde_json::{Value, json};

use super::{Cluster, Error, ErrorContext, MANAGER};
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::desired::ExternalService;
use osdpl_decide::HOST_ANNOTATION;

/// The timeout of a DNS lookup. It is short, because a pass waits for the lookup.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the IP addresses of the host of an external service.
///
/// # Errors
/// The error says why pods can't reach the host, and what to do.
pub(super) async fn resolve_host(host: &str, port: u16) -> Result<Vec<IpAddr>, String> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return match address {
            // Refuse an address that the API server does not accept in Endpoints: loopback, unspecified or multicast.
            address if address.is_loopback() || address.is_unspecified() || address.is_multicast() => {
                Err(format!("{host} can't be reached from other hosts; give an address that pods can reach"))
            }
            address => Ok(vec![address]),
        };
    }
    let found = tokio::time::timeout(RESOLVE_TIMEOUT, osdpl_client::resolve(host, port)).await;
    let found = found.map_err(|_| {
        format!(
            "{host} could not be resolved within {} s; osdpl retries; if the retries fail, give an IP address",
            RESOLVE_TIMEOUT.as_secs()
        )
    })?;
    let found =
        found.map_err(|error| format!("{host} has no address ({error}); correct the name or give an IP address"))?;
    let addresses: BTreeSet<IpAddr> =
        found.iter().map(SocketAddr::ip).filter(|address| !address.is_loopback()).collect_set();
    if addresses.is_empty() {
        return Err(format!("{host} has no address that pods can reach; correct the name or give an IP address"));
    }
    Ok(addresses.into_iter().collect())
}

impl Cluster {
    /// Applies the headless Service whose DNS name pods use to reach an external service.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn publish_service(&self, owner: &str, external: &ExternalService) -> Result<(), Error> {
        let ExternalService { service, namespace, .. } = external;
        let spec = json!({"clusterIP": "None", "ports": ports(external)});
        let metadata = metadata(owner, external);
        let body = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
        let api: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        let patched = api.patch_metadata(service, &PatchParams::apply(MANAGER).force(), &Patch::Apply(body)).await;
        patched.map(drop).with_context(|| format!("publishing external service {namespace}/{service}"))
    }

    /// Applies the Endpoints object of an external service. It contains the IP addresses of the service's host.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(crate) async fn publish_endpoints(
        &self,
        owner: &str,
        external: &ExternalService,
        addresses: &[IpAddr],
    ) -> Result<(), Error> {
        let ExternalService { service, namespace, host, .. } = external;
        let addresses: Vec<_> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
        let subsets = json!([{"addresses": addresses, "ports": ports(external)}]);
        let mut metadata = metadata(owner, external);
        metadata["annotations"] = json!({HOST_ANNOTATION: host});
        let body = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets});
        let api: Api<Endpoints> = Api::namespaced(self.client.clone(), namespace);
        let patched = api.patch_metadata(service, &PatchParams::apply(MANAGER).force(), &Patch::Apply(body)).await;
        patched.map(drop).with_context(|| format!("publishing external service {namespace}/{service}"))
    }
}

fn ports(external: &ExternalService) -> Value {
    json!([{"name": external.port_name, "port": external.port, "protocol": "TCP"}])
}

fn metadata(owner: &str, external: &ExternalService) -> Value {
    let labels = json!({DEPLOYMENT_LABEL: owner, "app.kubernetes.io/managed-by": MANAGER});
    json!({"name": external.service, "namespace": external.namespace, "labels": labels})
}
