//! A Service and Endpoints for a service outside: upstream's pods wait for ready addresses of a Service by its name, and an
//! `ExternalName` Service has none. The Service is headless, so that every port of the host is reached, not the named one alone:
//! upstream's rabbit-init speaks to the broker's management port as well.

mod address;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{Cluster, Error, Explain, MANAGER};
use address::{Lookups, Steady, addresses, newest};
use osdpl_core::api::DEPLOYMENT_LABEL;
use osdpl_core::catalog::Level;
use osdpl_core::desired::{ExternalService, Finding};
use osdpl_core::release;

/// How long it counts what a look at an external service brought: no watch tells that a name has another address, or what became of a Service
/// that is not ours.
const COUNTS: SignedDuration = SignedDuration::from_secs(15);

/// The annotation that tells whose addresses Endpoints have: after a restart a name server may fail, and the spec may name another host by then.
const HOST: &str = "osdpl.dev/host";

/// What came of the external services.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Externals {
    /// Those that pods can find.
    pub ready: BTreeSet<String>,
    /// What is wrong with the others, one line each.
    pub problems: Vec<String>,
    /// What should be known of those that are ready.
    pub doubts: Vec<Finding>,
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
    /// How lookups went since it had any.
    lookups: Option<Lookups>,
    /// What is wrong with a host that never had any.
    refused: Option<Steady<String>>,
    /// Until when that counts.
    until: Timestamp,
    /// Whether a pass has taken it for granted since, which may have been poked for what became of the Service.
    is_remembered: bool,
}

impl Looked {
    /// Before anything came of it, with what lookups came to before.
    fn now(external: &ExternalService, before: Option<&Self>, now: Timestamp) -> Self {
        Self {
            external: external.clone(),
            addresses: Vec::new(),
            problem: None,
            lookups: before.and_then(|before| before.lookups),
            refused: before.and_then(|before| before.refused.clone()),
            until: now,
            is_remembered: false,
        }
    }

    /// Takes in how one more lookup went of a host that has addresses. What is said of it is always the same, and why it failed is in the log.
    fn hear(&mut self, wrong: Option<&str>, now: Timestamp) {
        let heard = Lookups::heard(self.lookups, wrong.is_some(), now);
        if let Some(problem) = wrong.filter(|_| Lookups::is_news(self.lookups, heard)) {
            let host = &self.external.host;
            tracing::info!(host, problem, "an external service can't be looked up; pods are led where they were");
        }
        self.lookups = Some(heard);
    }

    /// Whether it is to be looked at again: what is wrong, or the addresses of a name, may be another thing later.
    fn passes(&self) -> bool {
        self.problem.is_some() || self.is_remembered || self.external.host.parse::<IpAddr>().is_err()
    }

    /// The same, for a pass that does not look.
    fn remembered(&self) -> Self {
        Self { is_remembered: true, ..self.clone() }
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
                known.remembered()
            } else {
                self.look(deployment, name, external, known).await
            };
            all.insert(name.clone(), looked);
        }
        let found = told(&all);
        *self.looked() = all;
        found
    }

    /// Looks up a host of which this was known last, and publishes what it has.
    async fn look(&self, deployment: &str, name: &str, external: &ExternalService, before: Option<&Looked>) -> Looked {
        let found = addresses(&external.host, external.port).await;
        let wrong = found.as_ref().err().cloned();
        let mut known = before.map(|before| before.addresses.clone()).unwrap_or_default();
        if wrong.is_some() && known.is_empty() {
            known = self.standing(deployment, external).await;
        }
        let now = super::now();
        let mut looked = Looked::now(external, before, now);
        match newest(found, known) {
            Err(problem) => {
                let heard = Steady::heard(looked.refused.take(), problem, now);
                looked.problem = Some(format!("spec.services.{name}.external.host: {}", heard.said()));
                looked.refused = Some(heard);
            }
            Ok(addresses) => {
                looked.hear(wrong.as_deref(), now);
                let published = self.publish_external(deployment, external, &addresses).await;
                // What the API server refuses here must not hold up everything else.
                let problem = published.unwrap_or_else(|error| Some(error.to_string()));
                looked.problem = problem.map(|problem| format!("spec.services.{name}.external: {problem}"));
                (looked.addresses, looked.refused) = (addresses, None);
            }
        }
        looked.until = super::now().checked_add(COUNTS).unwrap_or(now);
        looked
    }

    /// The addresses that stand in the cluster for this host: what was known of it ended with the operator before. Where the API server does not tell,
    /// it is still told what is wrong with the host.
    async fn standing(&self, deployment: &str, external: &ExternalService) -> Vec<IpAddr> {
        let endpoints: Api<Endpoints> = Api::namespaced(self.client.clone(), &external.namespace);
        let standing = endpoints.get_opt(&external.service).await.ok().flatten();
        standing.map(|standing| addresses_of(&standing, deployment, &external.host)).unwrap_or_default()
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
        let ExternalService { service, namespace, port, port_name, host } = external;
        let labels = json!({DEPLOYMENT_LABEL: deployment, "app.kubernetes.io/managed-by": MANAGER});
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
        if !known.is_some_and(|known| leads_to(&known, addresses, external)) {
            let addresses: Vec<_> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
            let subsets = json!([{"addresses": addresses, "ports": ports}]);
            let mut body = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets});
            body["metadata"]["annotations"] = json!({HOST: host});
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
        let selector = ListParams::default().labels(&format!("{DEPLOYMENT_LABEL}={deployment}"));
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
    let doubts = ready.iter().filter_map(|(name, looked)| {
        let field = format!("spec.services.{name}.external.host");
        let message = looked.lookups?.doubt(&looked.external.host, &looked.addresses)?;
        Some(Finding::new(Level::Warning, field, message))
    });
    Externals {
        doubts: doubts.collect(),
        ready: ready.into_iter().map(|(name, _)| name.clone()).collect(),
        problems: wrong.into_iter().filter_map(|(_, looked)| looked.problem.clone()).collect(),
        again: all.values().filter(|looked| looked.passes()).map(|looked| looked.until).min(),
    }
}

/// Why a Service of that name can't be ours, and what to do.
fn in_the_way(service: &Service, deployment: &str) -> Option<String> {
    if service.labels().get("app.kubernetes.io/managed-by").is_some_and(|manager| manager == "Helm") {
        let owner = release::helm_owner(&service.metadata).map_or_else(|| "unknown".into(), |owner| owner.to_string());
        return Some(format!("belongs to helm release {owner}; uninstall that release, or take `external` out"));
    }
    let ours = service.labels().get(DEPLOYMENT_LABEL).is_some_and(|owner| owner == deployment);
    let foreign = || {
        format!("is not ours (it lacks the label {DEPLOYMENT_LABEL}={deployment}); delete it, or take `external` out")
    };
    (!ours).then(foreign)
}

/// Whether our port is among its ports: what someone else added is theirs.
fn has_port(service: &Service, port: u16, name: &str) -> bool {
    let mut ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.any(|one| one.port == i32::from(port) && one.name.as_deref() == Some(name))
}

fn leads_to(endpoints: &Endpoints, addresses: &[IpAddr], external: &ExternalService) -> bool {
    let ExternalService { host, port, port_name, .. } = external;
    let Some([subset]) = endpoints.subsets.as_deref() else { return false };
    let known: BTreeSet<&str> = subset.addresses.iter().flatten().map(|address| address.ip.as_str()).collect();
    let wanted: BTreeSet<String> = addresses.iter().map(ToString::to_string).collect();
    let ports = subset.ports.as_deref().unwrap_or_default();
    let same = matches!(ports, [only] if only.port == i32::from(*port) && only.name.as_ref() == Some(port_name));
    same && endpoints.annotations().get(HOST) == Some(host) && known == wanted.iter().map(String::as_str).collect()
}

/// The addresses that we gave these Endpoints for this host; none where they are of another.
fn addresses_of(endpoints: &Endpoints, deployment: &str, host: &str) -> Vec<IpAddr> {
    let is = |value: Option<&String>, wanted: &str| value.is_some_and(|value| value == wanted);
    if !is(endpoints.labels().get(DEPLOYMENT_LABEL), deployment) || !is(endpoints.annotations().get(HOST), host) {
        return Vec::new();
    }
    let subsets = endpoints.subsets.iter().flatten();
    let addresses = subsets.flat_map(|subset| subset.addresses.iter().flatten());
    addresses.filter_map(|address| address.ip.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
