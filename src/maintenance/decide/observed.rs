//! The observed state of a maintenance.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use osdpl_core::observed::Labels;
use osdpl_core::openstack::{neutron, nova};

/// The observed state of a maintenance's node and its surroundings.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObservedState {
    /// The node; `None` if it does not exist.
    pub node: Option<ObservedNode>,
    /// The compute service, according to nova and neutron.
    pub compute: Compute,
    /// Why its pods must not be evicted, one line each.
    pub eviction_obstacles: Vec<String>,
    /// The `DaemonSet` pods on it that are not ready.
    pub unready_pods: Vec<String>,
    /// Other maintenances.
    pub others: Vec<OtherMaintenance>,
    /// Whether the nodes cannot be listed, so that the roles of other maintenances are unknown.
    pub nodes_unknown: bool,
    /// The minimum time between two checks of nova that confirm each other.
    pub confirmation_delay: Duration,
    /// The instances that nova refuses to migrate, with its message.
    pub refused_migrations: BTreeMap<String, String>,
}

/// The observed state of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ObservedNode {
    /// Whether it is cordoned.
    pub cordoned: bool,
    /// The maintenance that cordoned it, from our annotation.
    pub cordoned_by: Option<String>,
    /// Whether it is ready.
    pub ready: bool,
    /// Its labels.
    pub labels: Labels,
    /// Its roles.
    pub roles: BTreeSet<String>,
}

/// The compute service of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Compute {
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
    /// Returns the result for a node whose host nova does not list. `is_compute` states whether it is a compute node
    /// according to the cluster or an earlier report of nova.
    pub(crate) fn unlisted(node: &str, services: &[nova::Service], is_compute: bool) -> Self {
        if !is_compute {
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
pub(crate) struct Host {
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
pub(crate) struct OtherMaintenance {
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// The roles of its node.
    pub roles: BTreeSet<String>,
    /// Whether it has started.
    pub started: bool,
    /// Whether it is waiting and takes precedence.
    pub takes_precedence: bool,
}
