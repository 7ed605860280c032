//! The results of all tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::health::Health;
use osdpl_core::cause::Victim;
use osdpl_core::observed::{
    Cause, Claim, Class, CronSeen, Daemons, DriftSeen, EndpointSeen, JobSeen, Key, Node, ReleaseSeen, Rolling, Workload,
};
use osdpl_core::openstack::Heard;

/// The results of all tasks. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// helm's release records, by release.
    pub releases: Arc<BTreeMap<Key, ReleaseSeen>>,
    /// Changes that others made to the objects of releases that are watched for drift and whose newest revision is
    /// deployed.
    pub drift: Arc<BTreeMap<Key, DriftSeen>>,
    /// The responses of the APIs that can be reached, by release.
    pub endpoints: Arc<BTreeMap<Key, EndpointSeen>>,
    /// Nova's response about its hosts; `None` before the first query.
    pub hosts: Option<Arc<Heard>>,
    /// The pods of the components that are being rolled out.
    pub rolling: Arc<BTreeMap<Daemons, Rolling>>,
    pub(super) health: Arc<Health>,
}

impl Seen {
    /// Returns the Deployments, `StatefulSets` and `DaemonSets` of releases.
    pub fn workloads(&self) -> &[Workload] {
        &self.health.workloads
    }

    /// Returns the Jobs of releases, including hooks.
    pub fn jobs(&self) -> &[JobSeen] {
        &self.health.jobs
    }

    /// Returns the `CronJobs` of releases.
    pub fn crons(&self) -> &[CronSeen] {
        &self.health.crons
    }

    /// Returns the volume claims of releases.
    pub fn claims(&self) -> &[Claim] {
        &self.health.claims
    }

    /// Returns the `StorageClasses` of the cluster; `None` if they may not be listed.
    pub fn classes(&self) -> Option<&[Class]> {
        self.health.classes.as_deref()
    }

    /// Returns the objects that are not ready, each with the chain to its root cause.
    pub fn victims(&self) -> &[Victim] {
        &self.health.victims
    }

    /// Returns the nodes of the cluster by name; `None` if they may not be listed.
    pub fn nodes(&self) -> Option<&BTreeMap<String, Node>> {
        self.health.nodes.as_deref()
    }

    /// Returns the nodes for sharing.
    pub fn shared_nodes(&self) -> Option<Arc<BTreeMap<String, Node>>> {
        self.health.nodes.clone()
    }

    /// Returns each root cause once, with the objects it affects.
    pub fn causes(&self) -> &[Cause] {
        &self.health.causes
    }
}
