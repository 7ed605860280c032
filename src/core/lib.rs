//! Contains the domain logic of osdpl: the custom resources, the catalogue, the desired and the observed state, the
//! plan and the status.
//!
//! All functions of this crate are pure: they use no Kubernetes client, no async runtime and no clock. The only
//! exception is the module [`files`], which reads the catalogue's files.
//!
//! The documentation of the binary `osdpl` contains the glossary.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start programs, read files and look at the clock"))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(unreachable_pub)]

pub mod adopt;
pub mod api;
pub mod catalog;
pub mod cause;
pub mod ceph;
pub mod credentials;
pub mod desired;
pub mod difference;
pub mod drift;
pub mod endpoint;
pub mod files;
pub mod finding;
pub mod health;
pub mod maintenance;
pub mod nodes;
pub mod observed;
pub mod openstack;
pub mod placeholder;
pub mod plan;
pub mod release;
pub mod rollout;
pub mod schema;
pub mod scrub;
pub mod status;
#[doc(hidden)]
pub mod testing;
