//! Nova's hosts beside the nodes: those that are new, and those whose node is gone.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use super::Access;
use super::nova::{Hypervisor, Service, of_node};

/// What Nova is asked, and on account of what: whenever any of it changes it is asked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Where, and as whom.
    pub access: Access,
    /// Generation and ready pods of the workloads that are computes.
    pub state: Vec<(i64, i32)>,
    /// When what makes new hosts known last ended well.
    pub ran: Option<Timestamp>,
    /// The nodes that are there; none where they may not be listed: no host's node is gone then.
    pub nodes: Option<BTreeSet<String>>,
    /// Nodes that are gone for good, in a person's words.
    pub forget: BTreeSet<String>,
}

impl Question {
    /// How many pods of computes are ready: so many hosts are to be heard of.
    pub fn ready(&self) -> usize {
        self.state.iter().map(|(_, ready)| usize::try_from(*ready).unwrap_or_default()).sum()
    }
}

/// What Nova answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// What it was asked.
    pub question: Question,
    /// The hosts that matter.
    pub hosts: Hosts,
    /// Hosts that were to be forgotten and are not: why, in Nova's or Neutron's words.
    pub kept: BTreeMap<String, String>,
    /// Hosts that were forgotten, with how many records of Neutron's.
    pub forgotten: BTreeMap<String, usize>,
}

/// The hosts that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Heard of, with a node, and mapped into no cell: no instance is put there.
    pub unmapped: BTreeSet<String>,
    /// Not heard of, and without a node, with the UUID of their nova-compute.
    pub gone: BTreeMap<String, String>,
    /// How many are heard of.
    pub up: usize,
}

impl Hosts {
    /// Those among Nova's services.
    pub fn of(services: &[Service], hypervisors: &[Hypervisor], nodes: Option<&BTreeSet<String>>) -> Self {
        let with_node: Option<BTreeSet<&str>> = nodes.map(|nodes| {
            let of = |node: &String| of_node(services, node).map(|service| service.id.as_str());
            nodes.iter().filter_map(of).collect()
        });
        let is_there = |service: &&Service| with_node.as_ref().is_none_or(|there| there.contains(service.id.as_str()));
        let mapped: BTreeSet<&str> = hypervisors.iter().map(|hypervisor| hypervisor.service.host.as_str()).collect();
        let up = || services.iter().filter(|service| service.is_up());
        let unmapped = up().filter(is_there).filter(|service| !mapped.contains(service.host.as_str()));
        let gone = services.iter().filter(|service| !service.is_up() && !is_there(service));
        Self {
            unmapped: unmapped.map(|service| service.host.clone()).collect(),
            gone: gone.map(|service| (service.host.clone(), service.id.clone())).collect(),
            up: up().count(),
        }
    }

    /// Those of the hosts without a node that a person called gone for good.
    pub fn to_forget<'a>(&'a self, asked: &'a BTreeSet<String>) -> impl Iterator<Item = (&'a String, &'a String)> {
        self.gone.iter().filter(move |(host, _)| asked.iter().any(|node| is_of(host, node)))
    }
}

/// Whether this is the host of a node of that name: Nova may know it by its full name.
pub fn is_of(host: &str, node: &str) -> bool {
    host == node || host.split('.').next() == Some(node)
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
        let of = |host: &&str| json!({"hypervisor_hostname": host, "service": {"host": host}});
        serde_json::from_value(hosts.iter().map(of).collect()).unwrap()
    }

    #[test]
    fn a_host_that_is_up_with_a_node_and_without_a_hypervisor_is_unmapped() {
        let services = [service("n1", "up"), service("n2", "up"), service("n3", "down"), service("elsewhere", "up")];
        let hosts = Hosts::of(&services, &mapped(&["n1"]), Some(&names(&["n1", "n2", "n3"])));
        assert_eq!((hosts.unmapped, hosts.up), (names(&["n2"]), 3));
        assert!(hosts.gone.is_empty(), "n3 has its node, and elsewhere is heard of");
    }

    #[test]
    fn a_host_that_is_silent_and_has_no_node_is_gone_and_only_where_nodes_may_be_listed() {
        let services = [service("n1.example.org", "down"), service("n2.example.org", "down")];
        let hosts = Hosts::of(&services, &[], Some(&names(&["n1"])));
        assert_eq!(hosts.gone.keys().collect::<Vec<_>>(), ["n2.example.org"]);
        assert_eq!(hosts.to_forget(&names(&["n2", "n9"])).count(), 1);
        assert_eq!(hosts.to_forget(&names(&["n1"])).count(), 0, "its node is there");
        assert!(Hosts::of(&services, &[], None).gone.is_empty());
    }
}
