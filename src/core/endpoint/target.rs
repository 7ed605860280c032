//! Which APIs are asked.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::Login;
use crate::catalog::{Catalog, Component, Endpoint};
use crate::desired::{Desired, DesiredRelease};
use crate::health::{available, has_no_nodes};
use crate::observed::{Key, Observed, Workload};
use crate::release::Status;
use osdpl_values::Values;

/// What Services are called below, where the values say nothing else (upstream: `endpoints.cluster_domain_suffix`).
const SUFFIX: &str = "cluster.local";

/// One API that is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The label `application` of the component that answers.
    pub application: String,
    /// The Service.
    pub service: String,
    /// What is asked for.
    pub url: Url,
    /// The codes that are accepted.
    pub accept: Vec<u16>,
    /// Whether the answer must be Keystone's description of its version 3.
    pub versions: bool,
    /// The type of service in Keystone's catalogue.
    pub type_: String,
    /// Whether Keystone's catalogue must know it: its release's Jobs have registered it by now.
    pub registered: bool,
    /// Of Keystone itself: who asks for a token.
    pub login: Option<Login>,
    /// Generation and ready pods of the workloads that answer: when they change, it is asked at once.
    pub state: Vec<(i64, i32)>,
}

/// Where an API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether TLS is spoken.
    pub tls: bool,
    /// The host.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The path, with its `/`.
    pub path: String,
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tls, host, port, path } = self;
        write!(formatter, "http{}://{host}:{port}{path}", if *tls { "s" } else { "" })
    }
}

/// The APIs of releases whose component is available.
pub fn targets(catalog: &Catalog, desired: &Desired, observed: &Observed) -> BTreeMap<Key, Target> {
    let known = desired.releases.iter().filter_map(|(name, release)| {
        let endpoint = catalog.release(name)?.1.endpoint.as_ref()?;
        let state = state(&endpoint.component, &release.key, observed)?;
        Some((release.key.clone(), target(endpoint, release, state, observed)))
    });
    known.collect()
}

fn target(endpoint: &Endpoint, release: &DesiredRelease, state: Vec<(i64, i32)>, observed: &Observed) -> Target {
    let seen = observed.releases.get(&release.key);
    let registered = seen.is_some_and(|seen| seen.status == Status::Deployed.to_string());
    Target {
        application: endpoint.component.application.clone(),
        service: endpoint.service.clone(),
        url: internal(endpoint, &release.values, &release.key.namespace),
        accept: endpoint.accept.clone(),
        versions: endpoint.keystone,
        type_: endpoint.endpoint.clone(),
        registered,
        login: Login::of(&release.values).filter(|_| endpoint.keystone && registered),
        state,
    }
}

/// Of the workloads of a component; `None` where one of them is not available.
fn state(component: &Component, key: &Key, observed: &Observed) -> Option<Vec<(i64, i32)>> {
    let own = |w: &&Workload| w.namespace == key.namespace && w.release == key.name && w.component == *component;
    let own: Vec<&Workload> =
        observed.workloads.iter().filter(own).filter(|workload| !has_no_nodes(workload)).collect();
    let all = !own.is_empty() && own.iter().all(|workload| available(workload));
    all.then(|| own.iter().map(|workload| (workload.generation, workload.ready)).collect())
}

/// The internal endpoint: where the values say something else than the chart does, they count.
pub fn internal(endpoint: &Endpoint, values: &Values, own_namespace: &str) -> Url {
    let all = values.get("endpoints");
    let own = all.and_then(|all| all.get(&endpoint.endpoint));
    let at = |path: &[&str]| path.iter().try_fold(own?, |value, key| value.get(key));
    let tls = class(at(&["scheme"])).and_then(Value::as_str) == Some("https");
    let port =
        class(at(&["port", &endpoint.port_name])).and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
    let host = class(at(&["host_fqdn_override"])).and_then(|host| host.as_str().or_else(|| host.get("host")?.as_str()));
    let namespace = at(&["namespace"]).and_then(Value::as_str).unwrap_or(own_namespace);
    let suffix = all.and_then(|all| all.get("cluster_domain_suffix")?.as_str()).unwrap_or(SUFFIX);
    let inside = || format!("{}.{namespace}.svc.{suffix}", endpoint.service);
    Url {
        tls,
        host: host.map_or_else(inside, str::to_owned),
        port: port.unwrap_or(endpoint.port),
        path: endpoint.path.clone(),
    }
}

/// What holds for the class `internal`: its own, else the default one (helm-toolkit: `endpoints`).
fn class(values: Option<&Value>) -> Option<&Value> {
    let values = values?;
    if values.is_object() {
        let of = |class: &str| values.get(class).filter(|value| !value.is_null());
        of("internal").or_else(|| of("default"))
    } else {
        Some(values).filter(|value| !value.is_null())
    }
}
