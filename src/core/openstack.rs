//! Defines osdpl's requests to the OpenStack APIs of a cloud (Nova and Neutron), and parses the responses.
//!
//! ```text
//! access   the URLs and credentials of the APIs, from the desired values or helm's records
//! call     a request as data, with the parser of its response
//! nova     compute services, instances, migrations, hypervisors (microversion 2.53)
//! neutron  the agents of a host
//! hosts    new Nova hosts, and Nova hosts whose Kubernetes node was deleted
//! error    the errors of requests, most with a remedy
//! ```
//!
//! Pure module (no I/O): `osdpl_maintenance::OpenStackClient` sends the requests. Calls, errors and `Debug` output
//! contain neither the administrator's password nor tokens.

mod access;
mod call;
mod error;
mod hosts;
pub mod neutron;
pub mod nova;

pub use access::{Access, access, has_nova, is_compute, recorded_access, token_expiry};
pub use call::{Api, Call, HttpMethod};
pub use error::{Error, error_message};
pub use hosts::{DeletedHost, HostObservation, HostQuery, HostResponse, Hosts, Mapping, Next, next};

/// The result of asking Nova whether the cloud has instances (virtual machines).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceObservation {
    /// The URLs and credentials with which the operator queried Nova.
    pub access: Access,
    /// The name of one instance; `None` if Nova has no instances. `Err` says why the operator can't query Nova.
    pub found: Result<Option<String>, String>,
}

/// Returns the message that Nova has instances, one of which has the name `name`.
pub fn describe_instance(name: &str) -> String {
    format!("Nova has instances, such as {name}")
}

#[cfg(test)]
mod tests;
