//! What is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::observed::Labels;
use crate::openstack::{neutron, nova};

/// What is.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The node; `None` where there is none of that name.
    pub node: Option<NodeSeen>,
    /// What nova and neutron say of it.
    pub compute: Compute,
    /// What forbids that its pods go: a line each.
    pub refusals: Vec<String>,
    /// The daemons on it that are not ready.
    pub unready: Vec<String>,
    /// Other maintenances.
    pub rivals: Vec<Rival>,
    /// Whether the nodes can't be listed: then it is not known which roles others take out.
    pub unlisted: bool,
    /// How long two looks at nova are apart at least, where one is not enough.
    pub apart: Duration,
    /// Instances that nova refuses to migrate, with its words.
    pub refused: BTreeMap<String, String>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSeen {
    /// Whether it takes no new pods.
    pub cordoned: bool,
    /// The maintenance that has cordoned it, by our annotation.
    pub mark: Option<String>,
    /// Whether its kubelet says that it is ready.
    pub ready: bool,
    /// Its labels.
    pub labels: Labels,
    /// The roles that it plays.
    pub roles: BTreeSet<String>,
}

/// What nova and neutron say of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Compute {
    /// It is no compute.
    #[default]
    None,
    /// It is one, or may be one, and they can't be asked; why.
    Unknown(String),
    /// It is one.
    Known(Box<Host>),
}

/// How many hosts are named to who looks for one.
const NAMED: usize = 5;

impl Compute {
    /// What a node is of which nova lists no host: none, unless the cluster or nova itself says that instances may run there.
    pub fn unlisted(node: &str, services: &[nova::Service], is_one: bool) -> Self {
        if !is_one {
            return Self::None;
        }
        let hosts: Vec<_> = services.iter().take(NAMED).map(|service| service.host.as_str()).collect();
        let more = if services.len() > NAMED { ", …" } else { "" };
        Self::Unknown(format!(
            "nova knows no nova-compute by the name of {node}, or several, though one is to run there; its hosts are: {}{more} (a host has the node's name, or its first label alone)",
            if hosts.is_empty() { "none".to_owned() } else { hosts.join(", ") }
        ))
    }
}

/// A node as nova and neutron know it.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Its nova-compute.
    pub service: nova::Service,
    /// The instances on it.
    pub servers: Vec<nova::Server>,
    /// Instances that are on their way to it, by name.
    pub incoming: Vec<String>,
    /// The live migrations away from it, past ones included.
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
    /// The roles of that node.
    pub roles: BTreeSet<String>,
    /// Whether it has begun.
    pub begun: bool,
    /// Whether it waits for its turn, and came first.
    pub first: bool,
}
