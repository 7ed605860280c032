//! The options of a control plane.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Program;

/// The labels with which OpenStack-Helm's charts select nodes (`labels.*.node_selector_key` in their values, always
/// with the value `enabled`).
pub const OPENSTACK_LABELS: [&str; 5] =
    ["openstack-control-plane", "openstack-compute-node", "openvswitch", "openstack-network-node", "l3-agent"];

/// A simulated node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels, in addition to those that every kubelet sets (host name, architecture, operating system).
    pub labels: BTreeMap<String, String>,
}

impl Node {
    /// Returns a node with the given labels, each with the value `enabled`.
    pub fn new(name: impl Into<String>, labels: &[&str]) -> Self {
        let labels = labels.iter().map(|label| ((*label).to_string(), "enabled".to_string())).collect();
        Self { name: name.into(), labels }
    }

    /// Returns `count` nodes `node-1` …, each with every role of an OpenStack cloud.
    pub fn all_in_one(count: usize) -> Vec<Self> {
        (1..=count).map(|number| Self::new(format!("node-{number}"), &OPENSTACK_LABELS)).collect()
    }
}

/// The content of the API server's audit log. It always includes every mutating request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Includes reads of Secrets (`get`, `list`, `watch`).
    pub secret_reads: bool,
}

/// The settings of a control plane. The default suits most tests.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder. Defaults to a temporary one that is removed with the cluster.
    pub folder: Option<PathBuf>,
    /// Programs in addition to those of the control plane, such as [`Program::Helm4`].
    pub programs: Vec<Program>,
    /// The simulated nodes.
    pub nodes: Vec<Node>,
    /// Audit logging; off by default.
    pub audit: Option<Audit>,
    /// The Kubernetes minor version to emulate, such as `1.34`; its own by default.
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

    /// Enables audit logging.
    #[must_use]
    pub fn with_audit(mut self, audit: Audit) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Uses the cluster of `KUBECONFIG`, if it is set. This is never the default, because users may have set the
    /// variable to an important cluster.
    #[must_use]
    pub fn or_existing(mut self) -> Self {
        let path = std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty());
        self.existing = path.map(PathBuf::from);
        self
    }
}
