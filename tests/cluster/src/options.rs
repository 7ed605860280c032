//! What a caller may ask of a control plane.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Program;

/// The labels by which OpenStack-Helm's charts choose nodes (their values' `labels.*.node_selector_key`,
/// always with the value `enabled`).
pub const OPENSTACK_LABELS: [&str; 5] =
    ["openstack-control-plane", "openstack-compute-node", "openvswitch", "openstack-network-node", "l3-agent"];

/// A simulated node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels, beside those that every kubelet sets (host name, architecture, operating system).
    pub labels: BTreeMap<String, String>,
}

impl Node {
    /// A node with the given labels, each with the value `enabled`.
    pub fn new(name: impl Into<String>, labels: &[&str]) -> Self {
        let labels = labels.iter().map(|label| ((*label).to_string(), "enabled".to_string())).collect();
        Self { name: name.into(), labels }
    }

    /// `count` nodes `node-1` …, each with every role of an OpenStack cloud.
    pub fn all_in_one(count: usize) -> Vec<Self> {
        (1..=count).map(|number| Self::new(format!("node-{number}"), &OPENSTACK_LABELS)).collect()
    }
}

/// What the API server writes into its audit log. Every mutating request is in it either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Also reads of Secrets (`get`, `list`, `watch`).
    pub secret_reads: bool,
}

/// What kind of control plane is wanted. The default is right for most tests.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where everything lies. Without one, a temporary folder that goes when the cluster goes.
    pub folder: Option<PathBuf>,
    /// Programs beside the control plane's own, such as [`Program::Helm4`].
    pub programs: Vec<Program>,
    /// The simulated nodes.
    pub nodes: Vec<Node>,
    /// Audit logging; off by default.
    pub audit: Option<Audit>,
    /// The Kubernetes minor version to behave as, such as `1.34`; its own by default.
    pub emulated_version: Option<String>,
    /// The kubeconfig of a cluster to use instead of starting one.
    pub existing: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            folder: None,
            programs: Vec::new(),
            nodes: Node::all_in_one(3),
            audit: None,
            emulated_version: None,
            existing: None,
        }
    }
}

impl Options {
    /// Adds programs.
    #[must_use]
    pub fn with_programs(mut self, programs: &[Program]) -> Self {
        self.programs.extend_from_slice(programs);
        self
    }

    /// Switches audit logging on.
    #[must_use]
    pub fn with_audit(mut self, audit: Audit) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Uses the cluster that `KUBECONFIG` names, if it is set. Never the default, because people leave
    /// that variable set to clusters that matter; a caller that says so has asked for it.
    #[must_use]
    pub fn or_existing(mut self) -> Self {
        let path = std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty());
        self.existing = path.map(PathBuf::from);
        self
    }
}
