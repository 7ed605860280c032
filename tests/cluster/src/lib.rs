//! A real Kubernetes control plane on this machine, without containers, for tests and the demo.
//!
//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler are the real programs; kwok plays the
//! kubelets. Everything listens on 127.0.0.1, several clusters run side by side, and all of one cluster lies
//! in one folder.

mod audit;
mod client;
mod cluster;
mod components;
mod error;
mod faults;
mod folder;
mod kubeconfig;
mod kubelet;
mod launch;
mod options;
mod pki;
mod ports;
mod process;
pub mod programs;
mod spec;
mod stages;
pub mod supervisor;
mod waits;

pub use audit::AuditEntry;
pub use cluster::Cluster;
pub use components::Component;
pub use error::Error;
pub use folder::Folder;
pub use options::{Audit, Node, OPENSTACK_LABELS, Options};
pub use ports::Ports;
pub use process::Process;
pub use programs::{Program, Programs};
pub use waits::rules::Rule;
