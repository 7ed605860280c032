//! Probes of OpenStack APIs: which ones to probe, and how to interpret the responses.
//!
//! ```text
//! target      catalogue, desired and observed state → the APIs to probe: those whose component is available
//! response    a response → the problem
//! keystone    API version, token and service catalogue
//! ```
//!
//! A release is only ready if its API responds as expected. An unreachable API is ignored, because the operator may run
//! outside of the cluster's network, such as on a developer's machine.
//!
//! Pure module (no I/O, no clock).

mod keystone;
mod response;
mod target;

use std::collections::BTreeMap;

pub use keystone::{Login, Token, Types, service_types};
pub use response::{ProbeResponse, find_fault};
pub use target::{Target, Url, internal, targets};

use crate::api::{CauseObject, ComponentHealth, ComponentStatus};
use crate::observed::{Cause, EndpointProbe, ReleaseKey};

/// The component name of an API in the status.
pub const COMPONENT: &str = "endpoint";

/// Returns the health of an API.
pub fn assess(probe: &EndpointProbe) -> ComponentStatus {
    let (status, ready) = match probe.trouble {
        None => (ComponentHealth::Ready, "1/1"),
        Some(_) => (ComponentHealth::Unhealthy, "0/1"),
    };
    ComponentStatus { status, generation: None, ready: ready.into(), reason: probe.trouble.clone().unwrap_or_default() }
}

/// Returns the root causes of failing APIs. Their workloads are ready, so there is no deeper cause.
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
