//! Defines the observed state that the decision about a maintenance uses.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use osdpl_core::observed::Labels;
use osdpl_core::openstack::{neutron, nova};

/// The state that the controller observes for a maintenance: the node, the node's pods and compute host, and the other
/// maintenances.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObservedState {
    /// The node; `None` if it does not exist.
    pub node: Option<ObservedNode>,
    /// The node's compute host, as Nova (service, instances, migrations) and Neutron (agents) report it.
    pub compute: Compute,
    /// One message for each quorum and each disruption budget that forbids the eviction of the node's pods.
    pub eviction_obstacles: Vec<String>,
    /// The unready DaemonSet pods on the node that belong to OpenStack-Helm's charts, each as `namespace/name`.
    pub unready_pods: Vec<String>,
    /// The other NodeMaintenance resources: all except the one for which the controller observed this state.
    pub others: Vec<OtherMaintenance>,
    /// Whether the operator cannot list the nodes. If so, it does not know the roles of the nodes in `others`.
    pub nodes_unknown: bool,
    /// The minimum time between two queries of Nova: the first finds no instance on the host, the second confirms this.
    pub confirmation_delay: Duration,
    /// The UUIDs of the instances that Nova refuses to migrate, each with Nova's message.
    pub refused_migrations: BTreeMap<String, String>,
}

/// The properties of a node that the decision about a maintenance uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ObservedNode {
    /// Whether the node is cordoned.
    pub cordoned: bool,
    /// The name of the maintenance that cordoned the node, from osdpl's annotation on the node.
    pub cordoned_by: Option<String>,
    /// Whether the node's condition `Ready` is true.
    pub ready: bool,
    /// The labels of the node.
    pub labels: Labels,
    /// The node's roles in the cloud. The node has a role if it has the label of the role.
    pub roles: BTreeSet<String>,
}

/// The compute host of a node, as far as osdpl knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Compute {
    /// The node is not a compute node, so it has no compute host.
    #[default]
    None,
    /// The node is or may be a compute node, but the state of its host in Nova and Neutron is unknown. Contains the
    /// reason.
    Unknown(String),
    /// The node is a compute node, and Nova and Neutron have reported the state of its host.
    Known(Box<Host>),
}

/// The maximum number of hosts of Nova that an error message lists.
const NAMED: usize = 5;

impl Compute {
    /// Returns what osdpl knows about the compute host of a node if Nova does not list exactly one nova-compute service
    /// for the node.
    ///
    /// The result is [`Compute::Unknown`] if `is_compute` is true, else [`Compute::None`]. `is_compute` says whether
    /// the cluster or an earlier report of Nova shows that the node is a compute node.
    pub(crate) fn unlisted(node: &str, services: &[nova::Service], is_compute: bool) -> Self {
        if !is_compute {
            return Self::None;
        }
        let hosts: Vec<_> = services.iter().take(NAMED).map(|service| service.host.as_str()).collect();
        let more = if services.len() > NAMED { ", …" } else { "" };
        Self::Unknown(format!(
            "Nova must have exactly one nova-compute service for node {node}, but has none or several; the hosts in Nova are: {}{more} (the name of a host must be the node's name, with or without the domain)",
            if hosts.is_empty() { "none".to_owned() } else { hosts.join(", ") }
        ))
    }
}

/// The compute host of a node, as Nova and Neutron report it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Host {
    /// The nova-compute service of the host, as Nova reports it.
    pub service: nova::Service,
    /// The instances on the host.
    pub servers: Vec<nova::Server>,
    /// The instances that are migrating to the host, each as `name (UUID)`. The controller looks for them only if the
    /// host has no instances.
    pub incoming: Vec<String>,
    /// The live migrations away from the host, including past migrations.
    pub migrations: Vec<nova::Migration>,
    /// The Neutron agents that run on the host.
    pub agents: Vec<neutron::Agent>,
}

/// A NodeMaintenance in [`ObservedState::others`].
///
/// The maintenance for which the controller observed the state may have to wait for this NodeMaintenance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OtherMaintenance {
    /// The name of this NodeMaintenance.
    pub name: String,
    /// The name of this NodeMaintenance's node.
    pub node: String,
    /// The roles of this NodeMaintenance's node.
    pub roles: BTreeSet<String>,
    /// Whether this NodeMaintenance has started: it has osdpl's finalizer.
    pub started: bool,
    /// Whether this NodeMaintenance must start before the maintenance for which the controller decides: this
    /// NodeMaintenance is older and has not started yet, but could start now, because its window is open, its node
    /// exists and nobody is deleting it.
    pub takes_precedence: bool,
}
