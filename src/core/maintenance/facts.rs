//! The observed state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::observed::Labels;
use crate::openstack::{neutron, nova};

/// The observed state of a maintenance.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The node; `None` if it does not exist.
    pub node: Option<NodeSeen>,
    /// The compute service, according to nova and neutron.
    pub compute: Compute,
    /// Why its pods must not be evicted, one line each.
    pub refusals: Vec<String>,
    /// The `DaemonSet` pods on it that are not ready.
    pub unready: Vec<String>,
    /// Other maintenances.
    pub rivals: Vec<Rival>,
    /// Whether the nodes cannot be listed: the roles of other maintenances are unknown then.
    pub unlisted: bool,
    /// The minimum time between two checks of nova that confirm each other.
    pub apart: Duration,
    /// The instances that nova refuses to migrate, with its message.
    pub refused: BTreeMap<String, String>,
}

/// The observed state of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSeen {
    /// Whether it is cordoned.
    pub cordoned: bool,
    /// The maintenance that cordoned it, from our annotation.
    pub mark: Option<String>,
    /// Whether it is ready.
    pub ready: bool,
    /// Its labels.
    pub labels: Labels,
    /// Its roles.
    pub roles: BTreeSet<String>,
}

/// The compute service of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Compute {
    /// The node is not a compute node.
    #[default]
    None,
    /// It is or may be a compute node, but nova or neutron cannot be queried, with the reason.
    Unknown(String),
    /// It is a compute node.
    Known(Box<Host>),
}

/// The maximum number of hosts in a message.
const NAMED: usize = 5;

impl Compute {
    /// The result for a node without host in nova's list. It is not a compute node unless `is_one`, according to the
    /// cluster or nova itself.
    pub fn unlisted(node: &str, services: &[nova::Service], is_one: bool) -> Self {
        if !is_one {
            return Self::None;
        }
        let hosts: Vec<_> = services.iter().take(NAMED).map(|service| service.host.as_str()).collect();
        let more = if services.len() > NAMED { ", …" } else { "" };
        Self::Unknown(format!(
            "nova has none or several nova-compute services for node {node}, although one should run there; its hosts are: {}{more} (a host must have the node's name, or only its first label)",
            if hosts.is_empty() { "none".to_owned() } else { hosts.join(", ") }
        ))
    }
}

/// The compute host of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Its nova-compute service.
    pub service: nova::Service,
    /// The instances on it.
    pub servers: Vec<nova::Server>,
    /// The names of instances that are migrating to it.
    pub incoming: Vec<String>,
    /// The live migrations away from it, including past ones.
    pub migrations: Vec<nova::Migration>,
    /// Its network agents.
    pub agents: Vec<neutron::Agent>,
}

/// Another maintenance.
#[derive(Clone, Debug, PartialEq)]
pub struct Rival {
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// The roles of its node.
    pub roles: BTreeSet<String>,
    /// Whether it has started.
    pub begun: bool,
    /// Whether it is waiting and takes precedence.
    pub first: bool,
}
