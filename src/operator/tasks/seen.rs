//! What the tasks have seen, together.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::health::Health;
use osdpl_core::cause::Victim;
use osdpl_core::observed::{
    Cause, Claim, Class, CronSeen, Daemons, DriftSeen, EndpointSeen, JobSeen, Key, Node, ReleaseSeen, Rolling, Workload,
};
use osdpl_core::openstack::Heard;

/// What the tasks have seen. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What helm recorded, by release.
    pub releases: Arc<BTreeMap<Key, ReleaseSeen>>,
    /// What others did to the objects of releases of ours that are looked after and whose newest revision is deployed, by release.
    pub drift: Arc<BTreeMap<Key, DriftSeen>>,
    /// What the APIs of services answered, by release, of those that can be reached.
    pub endpoints: Arc<BTreeMap<Key, EndpointSeen>>,
    /// What Nova answered about its hosts, once it was asked.
    pub hosts: Option<Arc<Heard>>,
    /// The pods of the daemons that are watched because they are being rolled.
    pub rolling: Arc<BTreeMap<Daemons, Rolling>>,
    pub(super) health: Arc<Health>,
}

impl Seen {
    /// Deployments, `StatefulSets` and `DaemonSets` of releases.
    pub fn workloads(&self) -> &[Workload] {
        &self.health.workloads
    }

    /// Jobs of releases, hooks included.
    pub fn jobs(&self) -> &[JobSeen] {
        &self.health.jobs
    }

    /// `CronJobs` of releases.
    pub fn crons(&self) -> &[CronSeen] {
        &self.health.crons
    }

    /// The volume claims of releases.
    pub fn claims(&self) -> &[Claim] {
        &self.health.claims
    }

    /// The `StorageClasses` that are there; none where they may not be listed.
    pub fn classes(&self) -> Option<&[Class]> {
        self.health.classes.as_deref()
    }

    /// What is not ready, each with the chain to its root.
    pub fn victims(&self) -> &[Victim] {
        &self.health.victims
    }

    /// The nodes that are there, by name; none where they may not be listed.
    pub fn nodes(&self) -> Option<&BTreeMap<String, Node>> {
        self.health.nodes.as_deref()
    }

    /// The same, shared.
    pub fn shared_nodes(&self) -> Option<Arc<BTreeMap<String, Node>>> {
        self.health.nodes.clone()
    }

    /// Each root once, with its victims.
    pub fn causes(&self) -> &[Cause] {
        &self.health.causes
    }
}
