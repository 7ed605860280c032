//! Determines which OpenStack APIs the operator probes, and the URL of each API.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::Login;
use crate::catalog::{Catalog, Component, Endpoint};
use crate::desired::{Desired, DesiredRelease};
use crate::health::{has_no_nodes, is_available};
use crate::observed::{Observed, ReleaseKey, Workload};
use crate::release::Status;
use osdpl_values::{CollectSorted, Values};

/// The DNS domain of the Kubernetes cluster that upstream's charts use by default. The release's values may set another
/// domain at `endpoints.cluster_domain_suffix`.
const SUFFIX: &str = "cluster.local";

/// An OpenStack API that the operator probes, and what osdpl expects of its response.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The value of the label `application` of the component that serves the API.
    pub application: String,
    /// The name of the Kubernetes Service in front of the API.
    pub service: String,
    /// The URL that the probe requests.
    pub url: Url,
    /// The HTTP status codes with which a healthy API may respond.
    pub accept: Vec<u16>,
    /// Whether the API is Keystone's. If so, its response must describe version 3 of Keystone's API.
    pub versions: bool,
    /// The type of the API in Keystone's service catalogue, such as `key-manager`.
    pub type_: String,
    /// Whether Keystone's service catalogue must contain the API. This is true while the newest revision of the release
    /// has the status `deployed`, because the Jobs that register the API are then complete.
    pub registered: bool,
    /// The credentials with which osdpl gets a token from Keystone; `None` if the API is not Keystone's, if the newest
    /// revision of Keystone's release does not have the status `deployed`, or if the values contain no password.
    pub login: Option<Login>,
    /// The generation and the number of ready pods of each workload that serves the API. If one of these numbers
    /// changes, osdpl probes the API again.
    pub state: Vec<(i64, i32)>,
}

/// The URL of an OpenStack API, split into the parts that osdpl needs to connect to the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether the scheme of the URL is https. If not, the scheme is http.
    pub tls: bool,
    /// The host name of the URL.
    pub host: String,
    /// The TCP port of the URL.
    pub port: u16,
    /// The path of the URL, with leading `/`.
    pub path: String,
}

impl Url {
    /// Parses an absolute URL; `None` if its scheme is neither `http` nor `https`, or if it has no host.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let (tls, default_port) = match scheme {
            "http" => (false, 80),
            "https" => (true, 443),
            _ => return None,
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // An IPv6 address is in brackets, and contains colons.
        let (host, port) = match authority.strip_prefix('[').and_then(|address| address.split_once(']')) {
            Some((address, port)) => (address, port.strip_prefix(':')),
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Some(default_port), |port| port.parse().ok())?;
        let path = if path.is_empty() { "/" } else { path };
        (!host.is_empty()).then(|| Self { tls, host: host.to_owned(), port, path: path.to_owned() })
    }

    /// Returns the host and the port as in a URL: `keystone.example.org:443`, or `[fd00::1]:443` for an IPv6 address.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// Returns the name and the namespace of the Kubernetes Service that the host name belongs to, as in
    /// `keystone-api.openstack.svc.cluster.local`; `None` for other hosts.
    ///
    /// Source: <https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#services>
    pub fn service(&self) -> Option<(&str, &str)> {
        let mut labels = self.host.split('.');
        let (name, namespace) = (labels.next()?, labels.next()?);
        labels.next().filter(|label| *label == "svc").map(|_| (name, namespace))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "http{}://{}{}", if self.tls { "s" } else { "" }, self.authority(), self.path)
    }
}

/// Returns the APIs that the operator probes, by release. Leaves out an API if one of its workloads is not available.
pub fn targets(catalog: &Catalog, desired: &Desired, observed: &Observed) -> BTreeMap<ReleaseKey, Target> {
    let known = desired.releases.iter().filter_map(|(name, release)| {
        let endpoint = catalog.release(name)?.1.endpoint.as_ref()?;
        let state = state(&endpoint.component, &release.key, observed)?;
        Some((release.key.clone(), target(endpoint, release, state, observed)))
    });
    known.collect_map()
}

fn target(endpoint: &Endpoint, release: &DesiredRelease, state: Vec<(i64, i32)>, observed: &Observed) -> Target {
    let record = observed.releases.get(&release.key);
    let registered = record.is_some_and(|record| record.status == Status::Deployed);
    Target {
        application: endpoint.component.application.clone(),
        service: endpoint.service.clone(),
        url: internal(endpoint, &release.values, &release.key.namespace),
        accept: endpoint.accept.clone(),
        versions: endpoint.keystone,
        type_: endpoint.service_type(),
        registered,
        login: Login::from_values(&release.values).filter(|_| endpoint.keystone && registered),
        state,
    }
}

/// Returns the generation and the number of ready pods of each workload of a component; `None` if a workload is not
/// available, or if the component has no workload.
fn state(component: &Component, key: &ReleaseKey, observed: &Observed) -> Option<Vec<(i64, i32)>> {
    let own = |w: &&Workload| w.namespace == key.namespace && w.release == key.name && w.component == *component;
    let own: Vec<&Workload> =
        observed.workloads.iter().filter(own).filter(|workload| !has_no_nodes(workload)).collect();
    let all = !own.is_empty() && own.iter().all(|workload| is_available(workload));
    all.then(|| own.iter().map(|workload| (workload.generation, workload.ready)).collect())
}

/// A kind of endpoint of an OpenStack API. Upstream's charts register endpoints of several kinds in Keystone for each
/// API; osdpl uses only the kinds below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// The endpoint for programs in the Kubernetes cluster.
    Internal,
    /// The endpoint for users outside of the cluster. In a cloud without public endpoints, this is the same as the
    /// internal endpoint.
    Public,
}

impl Interface {
    /// Returns the name of the interface in Keystone's service catalogue.
    pub fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::Public => "public",
        }
    }

    /// Returns the value of a setting of an API, such as `scheme`, for this kind of endpoint; `None` if the setting has
    /// no value. `values` is the whole setting, as the release's values contain it.
    ///
    /// In upstream's charts, a setting is either one value for all endpoints of the API, or a map with one value for
    /// each kind of endpoint. The map can contain a `default` for the kinds without a value.
    fn value(self, values: Option<&Value>) -> Option<&Value> {
        let values = values?;
        if values.is_object() {
            let of = |class: &str| values.get(class).filter(|value| !value.is_null());
            of(self.name()).or_else(|| of("default"))
        } else {
            Some(values).filter(|value| !value.is_null())
        }
    }
}

/// Returns the URL of an API for programs in the Kubernetes cluster. [`url`] explains the parameters.
pub fn internal(endpoint: &Endpoint, values: &Values, own_namespace: &str) -> Url {
    url(endpoint, values, own_namespace, Interface::Internal)
}

/// Returns the internal or the public URL of an API, as `interface` says. `endpoint` is the API in the catalogue,
/// `values` are the values of the API's release, and `own_namespace` is the namespace of this release.
///
/// The path comes from the catalogue. osdpl takes every other part of the URL from the release's values. If the values
/// do not set a part, osdpl takes this part from the catalogue or from upstream's defaults.
pub fn url(endpoint: &Endpoint, values: &Values, own_namespace: &str, interface: Interface) -> Url {
    let all = values.get("endpoints");
    let own = all.and_then(|all| all.get(&endpoint.endpoint));
    let value_at = |path: &[&str]| path.iter().try_fold(own?, |value, key| value.get(key));
    let tls = interface.value(value_at(&["scheme"])).and_then(Value::as_str) == Some("https");
    let port = interface
        .value(value_at(&["port", &endpoint.port_name]))
        .and_then(Value::as_u64)
        .and_then(|port| u16::try_from(port).ok());
    let host = interface
        .value(value_at(&["host_fqdn_override"]))
        .and_then(|host| host.as_str().or_else(|| host.get("host")?.as_str()));
    let namespace = value_at(&["namespace"]).and_then(Value::as_str).unwrap_or(own_namespace);
    let suffix = all.and_then(|all| all.get("cluster_domain_suffix")?.as_str()).unwrap_or(SUFFIX);
    let service_host = || format!("{}.{namespace}.svc.{suffix}", endpoint.service);
    Url {
        tls,
        host: host.map_or_else(service_host, str::to_owned),
        port: port.unwrap_or(endpoint.port),
        path: endpoint.path.clone(),
    }
}
