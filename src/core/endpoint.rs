//! Whether a service's API answers: who is asked, and what an answer is worth.
//!
//! ```text
//! target      catalogue, wish and what is → which APIs are asked: of those whose component is available
//! answer      what came back → what is wrong with it
//! keystone    its versions, a token, the catalogue that comes with it
//! ```
//!
//! Done means more than pods, but nothing is concluded from what the operator cannot reach at all: outside of the cluster's network, as a
//! developer's machine is, no Service answers, and that is nobody's fault.
//!
//! Pure: no client, no clock.

mod answer;
mod keystone;
mod target;

use std::collections::BTreeMap;

pub use answer::{Answer, trouble};
pub use keystone::{Login, Token, Types, types};
pub use target::{Target, Url, internal, targets};

use crate::api::{CauseObject, ComponentStatus, ComponentVerdict};
use crate::observed::{Cause, EndpointSeen, Key};

/// What the component that stands for an API is called.
pub const COMPONENT: &str = "endpoint";

/// The verdict on an API.
pub fn verdict(seen: &EndpointSeen) -> ComponentStatus {
    let (status, ready) = match seen.trouble {
        None => (ComponentVerdict::Ready, "1/1"),
        Some(_) => (ComponentVerdict::Unhealthy, "0/1"),
    };
    ComponentStatus { status, generation: None, ready: ready.into(), reason: seen.trouble.clone().unwrap_or_default() }
}

/// APIs that do not answer as they should are roots: all that is known of is ready.
pub fn causes(found: &BTreeMap<Key, EndpointSeen>) -> Vec<Cause> {
    let cause = |(key, seen): (&Key, &EndpointSeen)| {
        let (namespace, name) = (key.namespace.clone(), seen.service.clone());
        Some(Cause {
            message: format!("{}/{COMPONENT}: {}", seen.application, seen.trouble.as_ref()?),
            objects: vec![CauseObject { kind: "Service".into(), namespace, name }],
            stuck: false,
            told: true,
            releases: [key.clone()].into(),
            victims: Vec::new(),
        })
    };
    found.iter().filter_map(cause).collect()
}

#[cfg(test)]
mod tests;
