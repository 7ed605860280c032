//! The options of a control plane.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Program;

/// The keys of the labels by which OpenStack-Helm's charts select nodes (`labels.*.node_selector_key` in the charts'
/// values). The value of each label is `enabled`.
pub const OPENSTACK_LABELS: [&str; 5] =
    ["openstack-control-plane", "openstack-compute-node", "openvswitch", "openstack-network-node", "l3-agent"];

/// A simulated node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The name of the node.
    pub name: String,
    /// The labels of the node, except for the labels that every kubelet sets (host name, architecture, operating
    /// system).
    pub labels: BTreeMap<String, String>,
}

impl Node {
    /// Returns a node with the given labels, each with the value `enabled`.
    pub fn new(name: impl Into<String>, labels: &[&str]) -> Self {
        let labels = labels.iter().map(|label| ((*label).to_string(), "enabled".to_string())).collect();
        Self { name: name.into(), labels }
    }

    /// Returns `count` nodes with the names `node-1`, `node-2` …, each with the labels of all OpenStack roles.
    pub fn all_in_one(count: usize) -> Vec<Self> {
        (1..=count).map(|number| Self::new(format!("node-{number}"), &OPENSTACK_LABELS)).collect()
    }
}

/// The settings of the API server's audit log. The log always contains every mutating request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Whether the log includes reads of Secrets (`get`, `list`, `watch`).
    pub secret_reads: bool,
}

/// The settings of a control plane. The default has three nodes and no audit log.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of the cluster's files. The default is a temporary folder, which is removed when the cluster stops.
    pub folder: Option<PathBuf>,
    /// Programs in addition to those of the control plane, such as [`Program::Helm4`].
    pub programs: Vec<Program>,
    /// The nodes that the cluster simulates.
    pub nodes: Vec<Node>,
    /// The settings of the audit log; `None` means no audit log.
    pub audit: Option<Audit>,
    /// The Kubernetes minor version that the control plane emulates, such as `1.34`; `None` means the version of its
    /// programs.
    pub emulated_version: Option<String>,
    /// The environment variables of the cluster's programs, such as Go's settings of the garbage collection.
    pub environment: BTreeMap<String, String>,
    /// The kubeconfig of an existing cluster to use instead of starting a control plane; `None` starts a control plane.
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
            environment: BTreeMap::new(),
            existing: None,
        }
    }
}

impl Options {
    /// Makes the cluster provide these programs in addition to those of the control plane, such as [`Program::Helm4`].
    #[must_use]
    pub fn with_programs(mut self, programs: &[Program]) -> Self {
        self.programs.extend_from_slice(programs);
        self
    }

    /// Makes the API server write an audit log with these settings.
    #[must_use]
    pub fn with_audit(mut self, audit: Audit) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Makes the cluster's programs collect garbage rarely. With Go's defaults, kube-apiserver spends more than a third of
    /// its CPU time on it. With these settings, a program collects garbage only when its memory has grown to nine times
    /// of what is in use, or to 1 GiB.
    #[must_use]
    pub fn with_rare_garbage_collection(mut self) -> Self {
        let settings = [("GOGC", "800"), ("GOMEMLIMIT", "1GiB")];
        self.environment.extend(settings.map(|(name, value)| (name.to_owned(), value.to_owned())));
        self
    }

    /// If the environment variable `KUBECONFIG` is set, selects the existing cluster of this kubeconfig instead of a
    /// new cluster. Without a call of this method, the variable has no effect: it may name an important cluster, which
    /// tests must not change.
    #[must_use]
    pub fn or_existing(mut self) -> Self {
        let path = std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty());
        self.existing = path.map(PathBuf::from);
        self
    }
}
