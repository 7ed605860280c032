//! A Service and Endpoints for a service outside: upstream's pods wait for ready addresses of a Service by its name, and an
//! `ExternalName` Service has none. The Service is headless, so that every port of the host is reached, not the named one alone:
//! upstream's rabbit-init speaks to the broker's management port as well.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{Cluster, Error, Explain, MANAGER};
use crate::api::MANAGED;
use crate::desired::ExternalService;
use crate::release;

/// How long it counts what a look at an external service brought: no watch tells that a name has another address, or what became of a Service
/// that is not ours.
const COUNTS: SignedDuration = SignedDuration::from_secs(15);

/// What came of the external services.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Externals {
    /// Those that pods can find.
    pub ready: BTreeSet<String>,
    /// What is wrong with the others, one line each.
    pub problems: Vec<String>,
    /// When to look again.
    pub again: Option<Timestamp>,
}

/// What is known of an external service.
#[derive(Clone)]
pub(super) struct Looked {
    external: ExternalService,
    /// The addresses that its host had last.
    addresses: Vec<IpAddr>,
    problem: Option<String>,
    /// Until when that counts.
    until: Timestamp,
}

impl Looked {
    /// Whether what is wrong, or the addresses of a name, may be another thing later.
    fn passes(&self) -> bool {
        self.problem.is_some() || self.external.host.parse::<IpAddr>().is_err()
    }
}

/// What was looked at, by service.
pub(super) type AllLooked = BTreeMap<String, Looked>;

impl Cluster {
    /// Publishes the external services. What is wrong with one concerns that one alone.
    pub async fn external(&self, deployment: &str, services: &BTreeMap<String, ExternalService>) -> Externals {
        let now = super::now();
        let before = std::mem::take(&mut *self.looked());
        let mut all = AllLooked::new();
        for (name, external) in services {
            let known = before.get(name).filter(|known| known.external == *external);
            let looked = if let Some(known) = known.filter(|known| now < known.until) {
                known.clone()
            } else {
                let known = known.map(|known| known.addresses.clone()).unwrap_or_default();
                self.look(deployment, name, external, known).await
            };
            all.insert(name.clone(), looked);
        }
        let found = told(&all);
        *self.looked() = all;
        found
    }

    async fn look(&self, deployment: &str, name: &str, external: &ExternalService, known: Vec<IpAddr>) -> Looked {
        let found = newest(addresses(&external.host, external.port).await, known);
        let problem = match &found {
            Err(problem) => Some(format!("spec.services.{name}.external.host: {problem}")),
            Ok(addresses) => {
                let published = self.publish_external(deployment, external, addresses).await;
                // What the API server refuses here must not hold up everything else.
                let problem = published.unwrap_or_else(|error| Some(error.to_string()));
                problem.map(|problem| format!("spec.services.{name}.external: {problem}"))
            }
        };
        let now = super::now();
        let until = now.checked_add(COUNTS).unwrap_or(now);
        Looked { external: external.clone(), addresses: found.unwrap_or_default(), problem, until }
    }

    fn looked(&self) -> MutexGuard<'_, AllLooked> {
        self.external.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is in the way, if anything is.
    async fn publish_external(
        &self,
        deployment: &str,
        external: &ExternalService,
        addresses: &[IpAddr],
    ) -> Result<Option<String>, Error> {
        let ExternalService { service, namespace, port, port_name, .. } = external;
        let labels = json!({MANAGED: deployment, "app.kubernetes.io/managed-by": MANAGER});
        let metadata = json!({"name": service, "namespace": namespace, "labels": labels});
        let ports = json!([{"name": port_name, "port": port, "protocol": "TCP"}]);
        let params = PatchParams::apply(MANAGER).force();
        let services: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        let what = || format!("publishing external service {namespace}/{service}");
        let known = services.get_opt(service).await.because(what)?;
        if let Some(problem) = known.as_ref().and_then(|known| in_the_way(known, deployment)) {
            return Ok(Some(format!("Service {namespace}/{service} {problem}")));
        }
        if known.is_none() {
            self.ensure_namespace(namespace).await?;
        }
        if !known.as_ref().is_some_and(|known| has_port(known, *port, port_name)) {
            let spec = json!({"clusterIP": "None", "ports": ports});
            let body = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
            services.patch(service, &params, &Patch::Apply(body)).await.because(what)?;
        }
        let endpoints: Api<Endpoints> = Api::namespaced(self.client.clone(), namespace);
        let known = endpoints.get_opt(service).await.because(what)?;
        if !known.is_some_and(|known| leads_to(&known, addresses, *port, port_name)) {
            let addresses: Vec<_> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
            let subsets = json!([{"addresses": addresses, "ports": ports}]);
            let body = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets});
            endpoints.patch(service, &params, &Patch::Apply(body)).await.because(what)?;
        }
        Ok(None)
    }

    /// Removes the Services of external services that are not wanted any more; their Endpoints go with them.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn remove_external(&self, deployment: &str, kept: &BTreeSet<(String, String)>) -> Result<(), Error> {
        self.looked().clear();
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

/// What was found, and when to look again.
fn told(all: &AllLooked) -> Externals {
    let (ready, wrong): (Vec<_>, Vec<_>) = all.iter().partition(|(_, looked)| looked.problem.is_none());
    Externals {
        ready: ready.into_iter().map(|(name, _)| name.clone()).collect(),
        problems: wrong.into_iter().filter_map(|(_, looked)| looked.problem.clone()).collect(),
        again: all.values().filter(|looked| looked.passes()).map(|looked| looked.until).min(),
    }
}

/// The newest word: a name server that does not answer takes no service away that runs.
fn newest(found: Result<Vec<IpAddr>, String>, known: Vec<IpAddr>) -> Result<Vec<IpAddr>, String> {
    found.or_else(|problem| if known.is_empty() { Err(problem) } else { Ok(known) })
}

/// Why a Service of that name can't be ours, and what to do.
fn in_the_way(service: &Service, deployment: &str) -> Option<String> {
    if service.labels().get("app.kubernetes.io/managed-by").is_some_and(|manager| manager == "Helm") {
        let owner = release::owner(&service.metadata).map_or_else(|| "unknown".into(), |owner| owner.to_string());
        return Some(format!("belongs to helm release {owner}; uninstall that release, or take `external` out"));
    }
    let ours = service.labels().get(MANAGED).is_some_and(|owner| owner == deployment);
    let foreign =
        || format!("is not ours (it lacks the label {MANAGED}={deployment}); delete it, or take `external` out");
    (!ours).then(foreign)
}

fn has_port(service: &Service, port: u16, name: &str) -> bool {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    matches!(ports, [only] if only.port == i32::from(port) && only.name.as_deref() == Some(name))
}

fn leads_to(endpoints: &Endpoints, addresses: &[IpAddr], port: u16, name: &str) -> bool {
    let Some([subset]) = endpoints.subsets.as_deref() else { return false };
    let known: BTreeSet<&str> = subset.addresses.iter().flatten().map(|address| address.ip.as_str()).collect();
    let wanted: BTreeSet<String> = addresses.iter().map(ToString::to_string).collect();
    let ports = subset.ports.as_deref().unwrap_or_default();
    let same = matches!(ports, [only] if only.port == i32::from(port) && only.name.as_deref() == Some(name));
    same && known == wanted.iter().map(String::as_str).collect()
}

/// How long a name server may take: a pass waits for it.
const PATIENCE: Duration = Duration::from_secs(2);

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
    let found = tokio::time::timeout(PATIENCE, tokio::net::lookup_host((host, port))).await;
    let found = found.map_err(|_| {
        format!(
            "{host} could not be looked up within {} s; it is tried again, or give an IP address",
            PATIENCE.as_secs()
        )
    })?;
    let found =
        found.map_err(|error| format!("{host} has no address ({error}); correct the name or give an IP address"))?;
    let addresses: BTreeSet<IpAddr> =
        found.map(|address| address.ip()).filter(|address| !address.is_loopback()).collect();
    if addresses.is_empty() {
        return Err(format!("{host} has no address that pods can reach; correct the name or give an IP address"));
    }
    Ok(addresses.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(labels: &serde_json::Value) -> Service {
        let ports = json!([{"name": "mysql", "port": 3306}]);
        serde_json::from_value(json!({"metadata": {"name": "mariadb", "labels": labels}, "spec": {"ports": ports}}))
            .unwrap()
    }

    #[test]
    fn a_service_of_somebody_else_is_in_the_way_and_our_own_is_not() {
        let why = |labels| in_the_way(&service(&labels), "cloud");
        assert_eq!(why(json!({MANAGED: "cloud"})), None);
        let foreign = "is not ours (it lacks the label osdpl.dev/deployment=cloud); delete it, or take `external` out";
        assert_eq!(why(json!({})).as_deref(), Some(foreign));
        assert_eq!(why(json!({MANAGED: "other"})).as_deref(), Some(foreign));
        let helms = why(json!({"app.kubernetes.io/managed-by": "Helm"}));
        assert!(helms.is_some_and(|why| why.starts_with("belongs to helm release unknown; uninstall")));
    }

    #[test]
    fn a_service_is_written_again_when_its_port_or_that_ports_name_is_another() {
        let known = service(&json!({MANAGED: "cloud"}));
        assert!(has_port(&known, 3306, "mysql"));
        assert!(!has_port(&known, 3307, "mysql") && !has_port(&known, 3306, "db"));
        let ports = json!([{"name": "mysql", "port": 3306}]);
        let subsets = json!([{"addresses": [{"ip": "10.0.0.2"}, {"ip": "10.0.0.1"}], "ports": ports}]);
        let known: Endpoints = serde_json::from_value(json!({"metadata": {}, "subsets": subsets})).unwrap();
        let addresses = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
        assert!(leads_to(&known, &addresses, 3306, "mysql"));
        assert!(!leads_to(&known, &addresses[..1], 3306, "mysql") && !leads_to(&known, &addresses, 3306, "db"));
    }

    #[test]
    fn a_host_is_looked_up_again_and_a_name_server_that_fails_takes_nothing_away() {
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        let failed = || Err("db.example has no address".to_owned());
        assert_eq!(newest(failed(), vec![address]), Ok(vec![address]));
        assert_eq!(newest(failed(), Vec::new()), failed());
        let looked = |host: &str, problem: Option<&str>| {
            let external = ExternalService {
                service: "mariadb".into(),
                namespace: "openstack".into(),
                host: host.into(),
                port: 3306,
                port_name: "mysql".into(),
            };
            let problem = problem.map(str::to_owned);
            Looked { external, addresses: vec![address], problem, until: Timestamp::UNIX_EPOCH }
        };
        let again = |host: &str, problem| told(&[("mariadb".to_owned(), looked(host, problem))].into()).again;
        assert_eq!(again("10.0.0.1", None), None, "an address stays what it is");
        assert_eq!(again("db.example", None), Some(Timestamp::UNIX_EPOCH));
        assert_eq!(again("10.0.0.1", Some("in the way")), Some(Timestamp::UNIX_EPOCH));
    }
}
