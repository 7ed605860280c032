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

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// What Nova was asked.
    pub question: Question,
    /// What it answered, or why it could not be asked.
    pub answer: Result<Answer, String>,
}

/// What Nova answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The hosts that matter.
    pub hosts: Hosts,
    /// Nodes whose hosts were to be forgotten and are not, and why.
    pub kept: BTreeMap<String, String>,
    /// Nodes whose hosts were forgotten.
    pub forgotten: BTreeMap<String, Forgotten>,
}

/// A host that is forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// What Nova called it.
    pub host: String,
    /// How many agents Neutron knew of it.
    pub agents: usize,
}

/// The hosts that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Heard of, with a node, and without a hypervisor that Nova lists: mapped into no cell, so that no instance is put there. With the UUID of
    /// their nova-compute, which is another one when a host comes back after it was forgotten.
    pub unmapped: BTreeMap<String, String>,
    /// How many with a node are heard of.
    pub up: usize,
    without_node: Vec<Service>,
}

impl Hosts {
    /// Those among Nova's services.
    pub fn of(services: Vec<Service>, hypervisors: &[Hypervisor], nodes: Option<&BTreeSet<String>>) -> Self {
        let with_node: Option<BTreeSet<String>> = nodes.map(|nodes| {
            let of = |node: &String| of_node(&services, node).map(|service| service.id.clone());
            nodes.iter().filter_map(of).collect()
        });
        let is_there = |service: &Service| with_node.as_ref().is_none_or(|there| there.contains(&service.id));
        let (there, without_node): (Vec<_>, Vec<_>) = services.into_iter().partition(is_there);
        let mapped: BTreeSet<&str> = hypervisors.iter().map(|hypervisor| hypervisor.service.host.as_str()).collect();
        let up = || there.iter().filter(|service| service.is_up());
        let unmapped = up().filter(|service| !mapped.contains(service.host.as_str()));
        Self {
            unmapped: unmapped.map(|service| (service.host.clone(), service.id.clone())).collect(),
            up: up().count(),
            // When they were heard of is no difference.
            without_node: without_node.into_iter().map(|service| Service { updated: None, ..service }).collect(),
        }
    }

    /// Not heard of, and without a node.
    pub fn gone(&self) -> impl Iterator<Item = &str> {
        self.without_node.iter().filter(|service| !service.is_up()).map(|service| service.host.as_str())
    }

    /// Whether hosts without a node are heard of: Nova misses one that has ended only after a minute (`service_down_time`).
    pub fn lingers(&self) -> bool {
        self.without_node.iter().any(Service::is_up)
    }

    /// The nova-compute of a node that is gone, if Nova has it.
    pub fn of_gone(&self, node: &str) -> Option<&Service> {
        of_node(&self.without_node, node)
    }

    /// The same without this host.
    pub fn drop_host(&mut self, host: &str) {
        self.without_node.retain(|service| service.host != host);
    }
}

/// What was done about new hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// For which.
    pub hosts: BTreeMap<String, String>,
    /// How often what makes them known was run.
    pub tries: u32,
    /// When a run of it had last ended well before.
    pub ran: Option<Timestamp>,
}

/// How often it is run for the same hosts: a compute is heard of a moment before it has written down its hypervisor.
const TRIES: u32 = 2;

/// What is to be done about new hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// There are none.
    None,
    /// What was begun is not over yet.
    Wait,
    /// This is to be run, and remembered.
    Run(Mapping),
    /// It was, and Nova lists them as little as before.
    InVain,
}

/// Decides what is to be done about new hosts; `running` is whether a run goes on, for whomever: they don't run side by side (upstream:
/// `concurrencyPolicy: Forbid`), and the end of one is another question.
pub fn next(
    known: Option<&Mapping>,
    unmapped: &BTreeMap<String, String>,
    ran: Option<Timestamp>,
    running: bool,
) -> Next {
    let same = known.filter(|known| known.hosts == *unmapped);
    let again = |tries| Next::Run(Mapping { hosts: unmapped.clone(), tries, ran });
    match same {
        _ if unmapped.is_empty() => Next::None,
        _ if running => Next::Wait,
        None => again(1),
        Some(known) if known.ran == ran => Next::Wait,
        Some(known) if known.tries < TRIES => again(known.tries + 1),
        Some(_) => Next::InVain,
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
    fn a_host_that_is_up_with_a_node_and_without_a_hypervisor_is_unmapped() {
        let services =
            vec![service("n1", "up"), service("n2", "up"), service("n3", "down"), service("elsewhere", "up")];
        let hosts = Hosts::of(services, &mapped(&["n1"]), Some(&names(&["n1", "n2", "n3"])));
        assert_eq!((&hosts.unmapped, hosts.up), (&unmapped(&["n2"]), 2));
        assert_eq!(hosts.gone().count(), 0, "n3 has its node, and elsewhere is heard of");
        assert!(hosts.lingers());
    }

    #[test]
    fn a_host_that_is_silent_and_has_no_node_is_gone_and_only_where_nodes_may_be_listed() {
        let services = || vec![service("N1.example.org", "down"), service("n2.example.org", "down")];
        let hosts = Hosts::of(services(), &[], Some(&names(&["n1"])));
        assert_eq!(hosts.gone().collect::<Vec<_>>(), ["n2.example.org"]);
        assert_eq!(hosts.of_gone("n2").unwrap().host, "n2.example.org");
        assert!(hosts.of_gone("n1").is_none(), "its node is there");
        assert_eq!(Hosts::of(services(), &[], None).gone().count(), 0);
    }

    #[test]
    fn new_hosts_are_mapped_once_and_once_more_and_then_a_person_must_look() {
        let at = |second| Timestamp::from_second(second).ok();
        let (one, two) = (unmapped(&["n1"]), unmapped(&["n1", "n2"]));
        assert_eq!(next(None, &BTreeMap::new(), at(1), false), Next::None);
        let Next::Run(first) = next(None, &one, at(1), false) else { panic!("nothing is run") };
        assert_eq!(next(Some(&first), &one, at(1), true), Next::Wait, "it runs");
        assert_eq!(next(Some(&first), &one, at(1), false), Next::Wait, "it failed, or its end is not seen yet");
        assert_eq!(next(Some(&first), &two, at(1), true), Next::Wait, "never two at once");
        let Next::Run(second) = next(Some(&first), &one, at(2), false) else { panic!("it is not run again") };
        assert_eq!(second.tries, 2);
        assert_eq!(next(Some(&second), &one, at(3), false), Next::InVain);
        assert!(matches!(next(Some(&second), &two, at(3), false), Next::Run(Mapping { tries: 1, .. })));
    }
}
