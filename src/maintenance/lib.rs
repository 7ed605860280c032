//! Contains the controller of NodeMaintenance resources, and the client of the cloud's OpenStack APIs.
//!
//! ```text
//! controller   observes the node, Nova and Neutron; executes the action of each decision
//! decide       decides the next action and the status from the observed state; does no I/O
//! kubernetes   sends requests to the API server
//! objects      the Kubernetes objects that the API server returns
//! openstack    sends requests to Keystone, Nova and Neutron
//! ```
//!
//! The controller uses the operator only through the trait [`Operator`].
//!
//! A maintenance is a request of its own. So the controller does not read the field `paused` of the OpenStackDeployment
//! and of its releases: it carries out maintenances of a paused cloud, too. A person pauses a cloud to keep the
//! operator from changing releases, and may still have to repair a node.
//!
//! The controller writes with two identities. To the API server, it writes as the operator: it changes nodes (only the
//! field `spec.unschedulable` and an annotation), and the finalizer, status and annotations of NodeMaintenances. The
//! right to change nodes comes from `rbac.nodes` of the operator's chart. To Nova, it writes as the cloud's
//! administrator, whose password is in Keystone's values: it enables and disables compute services, and migrates
//! instances. It only reads from Neutron.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(unreachable_pub)]

mod controller;
mod decide;
mod kubernetes;
mod objects;
mod openstack;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use osdpl_client::Scope;
use osdpl_core::catalog::Component;
use osdpl_core::maintenance::CloudSettings;
use osdpl_core::observed::Node;

pub use controller::{REQUEUE_DELAY, run};
pub use openstack::OpenStackClient;

/// The interface through which the controller of NodeMaintenance resources uses the operator.
pub trait Operator: Send + Sync {
    /// Waits until the operator's watches have read the whole cluster once.
    fn ready(&self) -> BoxFuture<'_, ()>;

    /// Returns the cloud's settings for maintenance; `None` until the operator has read and accepted the
    /// OpenStackDeployment.
    fn setting(&self) -> Option<Arc<CloudSettings>>;

    /// Returns a stream with an item for each change of workloads, pods, nodes or the cloud's settings for maintenance.
    fn changes(&self) -> BoxStream<'static, ()>;

    /// Returns the nodes of the cluster by name; `None` if the operator lacks the permission to list nodes.
    fn nodes(&self) -> Option<Arc<BTreeMap<String, Node>>>;

    /// Returns the node selectors of a component's workloads, each as `key=value` pairs separated by commas.
    fn node_selectors(&self, component: &Component) -> Vec<String>;

    /// Returns the existing namespaces in which the operator has rights.
    fn scope(&self) -> Scope;

    /// Increments the metric that counts the failed actions and failed passes of maintenances.
    fn count_failure(&self);
}
