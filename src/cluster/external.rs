//! A Service and Endpoints for a service outside: upstream's pods wait for ready addresses of a Service by its name, and an
//! `ExternalName` Service has none. The Service is headless, so that every port of the host is reached, not the named one alone:
//! upstream's rabbit-init speaks to the broker's management port as well.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{Cluster, Error, Explain, MANAGER};
use crate::api::MANAGED;
use crate::desired::ExternalService;
use crate::release;

impl Cluster {
    /// Publishes the external services; returns those that pods can find, and what is wrong with the others.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn external(
        &self,
        deployment: &str,
        services: &BTreeMap<String, ExternalService>,
    ) -> Result<(BTreeSet<String>, Vec<String>), Error> {
        let mut ready = BTreeSet::new();
        let mut problems = Vec::new();
        for (name, external) in services {
            match addresses(&external.host, external.port).await {
                Ok(addresses) => match self.publish_external(deployment, external, &addresses).await? {
                    Ok(()) => drop(ready.insert(name.clone())),
                    Err(problem) => problems.push(format!("spec.services.{name}.external: {problem}")),
                },
                Err(problem) => problems.push(format!("spec.services.{name}.external.host: {problem}")),
            }
        }
        Ok((ready, problems))
    }

    async fn publish_external(
        &self,
        deployment: &str,
        external: &ExternalService,
        addresses: &[IpAddr],
    ) -> Result<Result<(), String>, Error> {
        let ExternalService { service, namespace, port, port_name, .. } = external;
        let labels = json!({MANAGED: deployment, "app.kubernetes.io/managed-by": MANAGER});
        let metadata = json!({"name": service, "namespace": namespace, "labels": labels});
        let ports = json!([{"name": port_name, "port": port, "protocol": "TCP"}]);
        let body = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"clusterIP": "None", "ports": ports}});
        let params = PatchParams::apply(MANAGER).force();
        let services: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        let what = || format!("publishing external service {namespace}/{service}");
        let known = services.get_opt(service).await.because(what)?;
        if let Some(owner) = known.as_ref().and_then(helms) {
            return Ok(Err(format!(
                "Service {namespace}/{service} belongs to helm release {owner}; uninstall that release, or take `external` out"
            )));
        }
        let known_port =
            known.as_ref().and_then(|known| known.spec.as_ref()?.ports.as_ref()?.first().map(|first| first.port));
        if known_port != Some(i32::from(*port)) {
            services.patch(service, &params, &Patch::Apply(body)).await.because(what)?;
        }
        let endpoints: Api<Endpoints> = Api::namespaced(self.client.clone(), namespace);
        let known = endpoints.get_opt(service).await.because(what)?;
        let subset = known.and_then(|known| known.subsets?.into_iter().next());
        let known: BTreeSet<String> = subset
            .iter()
            .flat_map(|subset| subset.addresses.iter().flatten())
            .map(|address| address.ip.clone())
            .collect();
        let known_port = subset.as_ref().and_then(|subset| subset.ports.as_ref()?.first().map(|first| first.port));
        let wanted: BTreeSet<String> = addresses.iter().map(ToString::to_string).collect();
        if known != wanted || known_port != Some(i32::from(*port)) {
            let addresses: Vec<_> = wanted.iter().map(|ip| json!({"ip": ip})).collect();
            let subsets = json!([{"addresses": addresses, "ports": ports}]);
            let body = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets});
            endpoints.patch(service, &params, &Patch::Apply(body)).await.because(what)?;
        }
        Ok(Ok(()))
    }

    /// Removes the Services of external services that are not wanted any more; their Endpoints go with them.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn remove_external(&self, deployment: &str, kept: &BTreeSet<(String, String)>) -> Result<(), Error> {
        let services: Api<Service> = Api::all(self.client.clone());
        let selector = ListParams::default().labels(&format!("{MANAGED}={deployment}"));
        for service in services.list(&selector).await.because(|| "listing external services".into())? {
            let (Some(namespace), Some(name)) = (service.metadata.namespace, service.metadata.name) else { continue };
            if !kept.contains(&(namespace.clone(), name.clone())) {
                let api: Api<Service> = Api::namespaced(self.client.clone(), &namespace);
                super::remove::gone(api.delete(&name, &DeleteParams::default()).await, || {
                    format!("deleting Service {namespace}/{name}")
                })?;
            }
        }
        Ok(())
    }
}

/// The helm release that an object belongs to.
fn helms(service: &Service) -> Option<String> {
    let is_helms = service.labels().get("app.kubernetes.io/managed-by").is_some_and(|manager| manager == "Helm");
    is_helms.then(|| release::owner(&service.metadata).map_or_else(|| "unknown".into(), |owner| owner.to_string()))
}

/// The addresses of a host; a name is looked up each time it is asked for.
async fn addresses(host: &str, port: u16) -> Result<Vec<IpAddr>, String> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return match address {
            // The API server refuses these in Endpoints.
            address if address.is_loopback() || address.is_unspecified() || address.is_multicast() => {
                Err(format!("{host} can't be reached from other hosts; give an address that pods can reach"))
            }
            address => Ok(vec![address]),
        };
    }
    let found = tokio::net::lookup_host((host, port)).await;
    let found =
        found.map_err(|error| format!("{host} has no address ({error}); correct the name or give an IP address"))?;
    let addresses: BTreeSet<IpAddr> =
        found.map(|address| address.ip()).filter(|address| !address.is_loopback()).collect();
    if addresses.is_empty() {
        return Err(format!("{host} has no address that pods can reach; correct the name or give an IP address"));
    }
    Ok(addresses.into_iter().collect())
}
