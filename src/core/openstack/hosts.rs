//! Compares Nova's hosts with the nodes: new hosts, and hosts whose node was deleted.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use super::Access;
use super::nova::{Hypervisor, Service, find_service};

/// The input of a query to Nova. Nova is queried again whenever any of it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostQuery {
    /// The URL and credentials.
    pub access: Access,
    /// Generation and ready pods of the compute workloads.
    pub state: Vec<(i64, i32)>,
    /// When Nova's host discovery last succeeded.
    pub last_success: Option<Timestamp>,
    /// The existing nodes; `None` if they cannot be listed. No host counts as deleted then.
    pub nodes: Option<BTreeSet<String>>,
    /// Nodes that a person declared as permanently removed.
    pub removed_nodes: BTreeSet<String>,
}

impl HostQuery {
    /// Returns the number of ready compute pods, which is the number of expected hosts.
    pub fn ready(&self) -> usize {
        self.state.iter().map(|(_, ready)| usize::try_from(*ready).unwrap_or_default()).sum()
    }
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostObservation {
    /// The query.
    pub query: HostQuery,
    /// The report, or why the query failed.
    pub response: Result<HostResponse, String>,
}

/// The hosts that Nova reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostResponse {
    /// The relevant hosts.
    pub hosts: Hosts,
    /// Nodes whose hosts could not be deleted, with the reason.
    pub not_deleted: BTreeMap<String, String>,
    /// Nodes whose hosts were deleted.
    pub deleted: BTreeMap<String, DeletedHost>,
}

/// A host that was deleted from Nova and Neutron.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedHost {
    /// Its name in Nova.
    pub host: String,
    /// The number of its Neutron agents.
    pub agents: usize,
}

/// The relevant hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Hosts that are up and have a node but no hypervisor in Nova's list. They are not mapped to a cell and get no
    /// instances.
    ///
    /// The values are the UUIDs of their nova-compute services. A UUID changes if a deleted host is added again.
    pub unmapped: BTreeMap<String, String>,
    /// The number of hosts that are up and have a node.
    pub up: usize,
    without_node: Vec<Service>,
}

impl Hosts {
    /// Selects the hosts among Nova's services.
    pub fn from_services(services: Vec<Service>, hypervisors: &[Hypervisor], nodes: Option<&BTreeSet<String>>) -> Self {
        let with_node: Option<BTreeSet<String>> = nodes.map(|nodes| {
            let of = |node: &String| find_service(&services, node).map(|service| service.id.clone());
            nodes.iter().filter_map(of).collect()
        });
        let has_node = |service: &Service| with_node.as_ref().is_none_or(|there| there.contains(&service.id));
        let (there, without_node): (Vec<_>, Vec<_>) = services.into_iter().partition(has_node);
        let mapped: BTreeSet<&str> = hypervisors.iter().map(|hypervisor| hypervisor.service.host.as_str()).collect();
        let up = || there.iter().filter(|service| service.is_up());
        let unmapped = up().filter(|service| !mapped.contains(service.host.as_str()));
        Self {
            unmapped: unmapped.map(|service| (service.host.clone(), service.id.clone())).collect(),
            up: up().count(),
            // Clear the time of the last report, because a change of it alone must not trigger a pass.
            without_node: without_node.into_iter().map(|service| Service { updated: None, ..service }).collect(),
        }
    }

    /// Returns the hosts that are down and have no node.
    pub fn without_node(&self) -> impl Iterator<Item = &str> {
        self.without_node.iter().filter(|service| !service.is_up()).map(|service| service.host.as_str())
    }

    /// Whether hosts without a node are still up. Nova reports a stopped one as down after a minute
    /// (`service_down_time`).
    pub fn has_stale_hosts(&self) -> bool {
        self.without_node.iter().any(Service::is_up)
    }

    /// Returns the nova-compute of a deleted node, if Nova has it.
    pub fn host_of_deleted_node(&self, node: &str) -> Option<&Service> {
        find_service(&self.without_node, node)
    }

    /// Removes a host.
    pub fn drop_host(&mut self, host: &str) {
        self.without_node.retain(|service| service.host != host);
    }
}

/// The last run of the host discovery for new hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The new hosts.
    pub hosts: BTreeMap<String, String>,
    /// The number of runs.
    pub tries: u32,
    /// When the previous run succeeded.
    pub last_success: Option<Timestamp>,
}

/// The maximum number of runs for the same hosts. A nova-compute is up a moment before its hypervisor is recorded.
const MAX_RUNS: u32 = 2;

/// The next step for new hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// There are no new hosts.
    None,
    /// The current run is not finished.
    Wait,
    /// Start this run and remember it.
    Run(Mapping),
    /// The runs did not map the hosts.
    GaveUp,
}

/// Decides the next step for new hosts.
///
/// `running` is whether any run is active. Runs must not overlap (upstream: `concurrencyPolicy: Forbid`).
pub fn next(
    known: Option<&Mapping>,
    unmapped: &BTreeMap<String, String>,
    ran: Option<Timestamp>,
    running: bool,
) -> Next {
    let same = known.filter(|known| known.hosts == *unmapped);
    let run = |tries| Next::Run(Mapping { hosts: unmapped.clone(), tries, last_success: ran });
    match same {
        _ if unmapped.is_empty() => Next::None,
        _ if running => Next::Wait,
        None => run(1),
        Some(known) if known.last_success == ran => Next::Wait,
        Some(known) if known.tries < MAX_RUNS => run(known.tries + 1),
        Some(_) => Next::GaveUp,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(host: &str, state: &str) -> Service {
        let id = format!("id-{host}");
        serde_json::from_value(json!({"id": id, "host": host, "status": "enabled", "state": state})).unwrap()
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn mapped(hosts: &[&str]) -> Vec<Hypervisor> {
        let of = |host: &&str| json!({"id": host, "hypervisor_hostname": host, "service": {"host": host}});
        serde_json::from_value(hosts.iter().map(of).collect()).unwrap()
    }

    fn unmapped(hosts: &[&str]) -> BTreeMap<String, String> {
        hosts.iter().map(|host| ((*host).to_owned(), format!("id-{host}"))).collect()
    }

    #[test]
    fn host_without_hypervisor_is_unmapped() {
        let services =
            vec![service("n1", "up"), service("n2", "up"), service("n3", "down"), service("elsewhere", "up")];
        let hosts = Hosts::from_services(services, &mapped(&["n1"]), Some(&names(&["n1", "n2", "n3"])));
        assert_eq!((&hosts.unmapped, hosts.up), (&unmapped(&["n2"]), 2));
        assert_eq!(hosts.without_node().count(), 0, "n3 has its node, and elsewhere is up");
        assert!(hosts.has_stale_hosts());
    }

    #[test]
    fn silent_host_without_node_is_gone() {
        let services = || vec![service("N1.example.org", "down"), service("n2.example.org", "down")];
        let hosts = Hosts::from_services(services(), &[], Some(&names(&["n1"])));
        assert_eq!(hosts.without_node().collect::<Vec<_>>(), ["n2.example.org"]);
        assert_eq!(hosts.host_of_deleted_node("n2").unwrap().host, "n2.example.org");
        assert!(hosts.host_of_deleted_node("n1").is_none(), "its node exists");
        assert_eq!(Hosts::from_services(services(), &[], None).without_node().count(), 0);
    }

    #[test]
    fn maps_new_hosts_at_most_twice() {
        let at = |second| Timestamp::from_second(second).ok();
        let (one, two) = (unmapped(&["n1"]), unmapped(&["n1", "n2"]));
        assert_eq!(next(None, &BTreeMap::new(), at(1), false), Next::None);
        let Next::Run(first) = next(None, &one, at(1), false) else { panic!("no run") };
        assert_eq!(next(Some(&first), &one, at(1), true), Next::Wait, "a run is active");
        assert_eq!(next(Some(&first), &one, at(1), false), Next::Wait, "it failed, or its end is not observed yet");
        assert_eq!(next(Some(&first), &two, at(1), true), Next::Wait, "runs do not overlap");
        let Next::Run(second) = next(Some(&first), &one, at(2), false) else { panic!("no second run") };
        assert_eq!(second.tries, 2);
        assert_eq!(next(Some(&second), &one, at(3), false), Next::GaveUp);
        assert!(matches!(next(Some(&second), &two, at(3), false), Next::Run(Mapping { tries: 1, .. })));
    }
}
