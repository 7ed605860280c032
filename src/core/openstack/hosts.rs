//! Finds new compute hosts in Nova, and compute hosts whose Kubernetes node was deleted.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use osdpl_values::CollectSorted;

use super::Access;
use super::nova::{Hypervisor, Service, find_service};

/// The input of the query that lists Nova's hosts. When any field changes, the operator queries Nova again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostQuery {
    /// The URLs of the cloud's APIs, and the administrator's login.
    pub access: Access,
    /// For each workload that runs nova-compute: its generation, and the number of its ready pods.
    pub state: Vec<(i64, i32)>,
    /// When the `CronJob` of Nova's host discovery, which maps new hosts to a cell, last succeeded.
    pub last_success: Option<Timestamp>,
    /// The names of the existing nodes; `None` if the operator cannot list the nodes. With `None`, the operator treats
    /// no node as deleted.
    pub nodes: Option<BTreeSet<String>>,
    /// The nodes that a person declared as permanently removed. The operator deletes the hosts of these nodes from Nova
    /// and Neutron.
    pub removed_nodes: BTreeSet<String>,
}

impl HostQuery {
    /// Returns the number of ready nova-compute pods. If Nova reports fewer hosts as up than this number, the operator
    /// queries Nova again.
    pub fn ready(&self) -> usize {
        self.state.iter().map(|(_, ready)| usize::try_from(*ready).unwrap_or_default()).sum()
    }
}

/// A query of Nova's hosts, with the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostObservation {
    /// The query that the operator sent.
    pub query: HostQuery,
    /// The hosts that Nova reported, or why the query failed.
    pub response: Result<HostResponse, String>,
}

/// The hosts that Nova reported, and the result of the operator's attempts to delete the hosts of removed nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostResponse {
    /// The hosts that Nova has not mapped to a cell, the number of hosts that are up, and the hosts without a
    /// Kubernetes node.
    pub hosts: Hosts,
    /// The removed nodes whose hosts the operator failed to delete from Nova and Neutron, each with the reason.
    pub not_deleted: BTreeMap<String, String>,
    /// The removed nodes whose hosts the operator deleted, each with a description of the deleted host.
    pub deleted: BTreeMap<String, DeletedHost>,
}

/// A host that the operator deleted from Nova and Neutron.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedHost {
    /// The host's name in Nova.
    pub host: String,
    /// The number of the host's Neutron agents that the operator deleted.
    pub agents: usize,
}

/// The hosts that Nova has not mapped to a cell, the number of hosts that are up, and the hosts without a Kubernetes
/// node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Hosts that Nova has not mapped to a cell, so that Nova places no instances on them. These hosts are up and have
    /// a node, but Nova lists no hypervisor for them.
    ///
    /// The keys are the names of the hosts, and the values are the UUIDs of their nova-compute services. If a host
    /// has another UUID than before, the host was deleted and added again under the same name.
    pub unmapped: BTreeMap<String, String>,
    /// The number of hosts that Nova reports as up and that have a node.
    pub up: usize,
    without_node: Vec<Service>,
}

impl Hosts {
    /// Compares Nova's compute services and hypervisors with `nodes`, the names of the Kubernetes nodes. If `nodes` is
    /// `None`, assumes that every host has a node.
    pub fn from_services(services: Vec<Service>, hypervisors: &[Hypervisor], nodes: Option<&BTreeSet<String>>) -> Self {
        let with_node: Option<BTreeSet<String>> = nodes.map(|nodes| {
            let of = |node: &String| find_service(&services, node).map(|service| service.id.clone());
            nodes.iter().filter_map(of).collect_set()
        });
        let has_node = |service: &Service| with_node.as_ref().is_none_or(|there| there.contains(&service.id));
        let (there, without_node): (Vec<_>, Vec<_>) = services.into_iter().partition(has_node);
        let mapped: BTreeSet<&str> =
            hypervisors.iter().map(|hypervisor| hypervisor.service.host.as_str()).collect_set();
        let up = || there.iter().filter(|service| service.is_up());
        let unmapped = up().filter(|service| !mapped.contains(service.host.as_str()));
        Self {
            unmapped: unmapped.map(|service| (service.host.clone(), service.id.clone())).collect_map(),
            up: up().count(),
            // Omit the time of each host's last report to Nova. With this time, every report of a host would change the
            // observed state and so trigger a reconcile pass.
            without_node: without_node.into_iter().map(|service| Service { updated: None, ..service }).collect(),
        }
    }

    /// Returns the names of the hosts that are down and have no node.
    pub fn without_node(&self) -> impl Iterator<Item = &str> {
        self.without_node.iter().filter(|service| !service.is_up()).map(|service| service.host.as_str())
    }

    /// Whether Nova reports a host as up although the host has no node.
    ///
    /// The report may be outdated: Nova reports a stopped nova-compute as down only after a minute
    /// (`service_down_time`).
    pub fn has_stale_hosts(&self) -> bool {
        self.without_node.iter().any(Service::is_up)
    }

    /// Returns the nova-compute service that Nova still has for the deleted node `node`; `None` if Nova has no such
    /// service.
    pub fn host_of_deleted_node(&self, node: &str) -> Option<&Service> {
        find_service(&self.without_node, node)
    }

    /// Removes a host from the list of hosts without a node. The caller knows that Nova no longer has the host.
    pub fn drop_host(&mut self, host: &str) {
        self.without_node.retain(|service| service.host != host);
    }
}

/// A run of Nova's host discovery, the Job that maps new hosts to a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The hosts that were not mapped when the run started, with the UUIDs of their nova-compute services.
    pub hosts: BTreeMap<String, String>,
    /// The number of times that osdpl has started the host discovery for the hosts in `hosts`. This run counts, too.
    pub tries: u32,
    /// When the host discovery last succeeded before this run started. osdpl starts a further run for the hosts in
    /// `hosts` only after the discovery has succeeded again.
    pub last_success: Option<Timestamp>,
}

/// The maximum number of runs of the host discovery that osdpl starts for one set of unmapped hosts.
///
/// One run may not suffice: the discovery maps only hosts whose hypervisor Nova has recorded, and Nova may report a
/// nova-compute as up shortly before it records the hypervisor.
const MAX_RUNS: u32 = 2;

/// The operator's next action for hosts that Nova has not mapped to a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Do nothing: there are no unmapped hosts.
    None,
    /// Wait: a run of the host discovery is active, or the discovery has not succeeded since the last run for these
    /// hosts started.
    Wait,
    /// Start a run of the host discovery, and keep the run's [`Mapping`] for the next decision.
    Run(Mapping),
    /// Start no further run and report the hosts, because `MAX_RUNS` runs did not map them to a cell.
    GaveUp,
}

/// Decides what to do about hosts that Nova has not mapped to a cell.
///
/// `known` is the last run of the host discovery that the operator started. `ran` is the time at which the discovery
/// last succeeded. `running` says whether a run is active. During an active run, the operator waits, because runs must
/// not overlap (upstream's `CronJob` sets `concurrencyPolicy: Forbid`). Before a further run for the same hosts, the
/// operator also waits until the discovery has succeeded after the last run started.
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
        assert_eq!(
            hosts.without_node().count(),
            0,
            "a host counts only if it is down and has no node: `n3` has a node, and `elsewhere` is up"
        );
        assert!(hosts.has_stale_hosts());
    }

    #[test]
    fn silent_host_without_node_is_gone() {
        let services = || vec![service("N1.example.org", "down"), service("n2.example.org", "down")];
        let hosts = Hosts::from_services(services(), &[], Some(&names(&["n1"])));
        assert_eq!(hosts.without_node().collect::<Vec<_>>(), ["n2.example.org"]);
        assert_eq!(hosts.host_of_deleted_node("n2").unwrap().host, "n2.example.org");
        assert!(
            hosts.host_of_deleted_node("n1").is_none(),
            "node n1 exists, so its host is not the host of a deleted node"
        );
        assert_eq!(Hosts::from_services(services(), &[], None).without_node().count(), 0);
    }

    #[test]
    fn maps_new_hosts_at_most_twice() {
        let at = |second| Timestamp::from_second(second).ok();
        let (one, two) = (unmapped(&["n1"]), unmapped(&["n1", "n2"]));
        assert_eq!(next(None, &BTreeMap::new(), at(1), false), Next::None);
        let Next::Run(first) = next(None, &one, at(1), false) else { panic!("no run") };
        assert_eq!(next(Some(&first), &one, at(1), true), Next::Wait, "no run starts while another run is active");
        assert_eq!(
            next(Some(&first), &one, at(1), false),
            Next::Wait,
            "no second run starts before the operator knows that the first run succeeded"
        );
        assert_eq!(next(Some(&first), &two, at(1), true), Next::Wait, "runs do not overlap");
        let Next::Run(second) = next(Some(&first), &one, at(2), false) else { panic!("no second run") };
        assert_eq!(second.tries, 2);
        assert_eq!(next(Some(&second), &one, at(3), false), Next::GaveUp);
        assert!(matches!(next(Some(&second), &two, at(3), false), Next::Run(Mapping { tries: 1, .. })));
    }
}
