//! Determines which OpenStack APIs the operator probes, and what a response says about the health of an API.
//!
//! ```text
//! target           the APIs to probe, and the URL of each API
//! response         whether the response of a probed API is as expected
//! keystone         Keystone's API version, its tokens and the API types of its service catalogue
//! service_catalog  the URL of each API in Keystone's service catalogue
//! ```
//!
//! A release whose API the operator probes is ready only if the API responds as expected. An API that the operator
//! can't reach does not affect its release, because the operator may run outside of the cluster's network, for example
//! on a developer's machine.
//!
//! Pure module (no I/O, no clock).

mod keystone;
mod response;
mod service_catalog;
mod target;

use std::collections::BTreeMap;

pub use keystone::{Login, Token, Types, service_types};
pub use response::{ProbeResponse, find_fault};
pub use service_catalog::{ServiceCatalog, service_catalog};
pub use target::{Interface, Target, Url, internal, targets, url};

use crate::api::{CauseObject, ComponentHealth, ComponentStatus};
use crate::observed::{Cause, EndpointProbe, ReleaseKey};

/// The name under which the status lists the API of a release among the release's components, as in `glance/endpoint`.
pub const COMPONENT: &str = "endpoint";

/// Returns the health of an API, from the result of its last probe.
pub fn assess(probe: &EndpointProbe) -> ComponentStatus {
    let (status, ready) = match probe.trouble {
        None => (ComponentHealth::Ready, "1/1"),
        Some(_) => (ComponentHealth::Unhealthy, "0/1"),
    };
    ComponentStatus { status, generation: None, ready: ready.into(), reason: probe.trouble.clone().unwrap_or_default() }
}

/// Returns one root cause for each failing API. The object to inspect is the Service of the API.
///
/// It is not a workload, because osdpl probes an API only while all workloads of the API are available.
pub fn causes(found: &BTreeMap<ReleaseKey, EndpointProbe>) -> Vec<Cause> {
    let cause = |(key, probe): (&ReleaseKey, &EndpointProbe)| {
        let (namespace, name) = (key.namespace.clone(), probe.service.clone());
        Some(Cause {
            message: format!("{}/{COMPONENT}: {}", probe.application, probe.trouble.as_ref()?),
            objects: vec![CauseObject { kind: "Service".into(), namespace, name }],
            stuck: false,
            is_explained: true,
            releases: [key.clone()].into(),
            affected: Vec::new(),
        })
    };
    found.iter().filter_map(cause).collect()
}

#[cfg(test)]
mod tests;
