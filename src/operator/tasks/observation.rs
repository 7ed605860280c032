//! Combines the results of all tasks into one observation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::health::Health;
use osdpl_core::cause::AffectedObject;
use osdpl_core::observed::{
    Cause, Claim, Class, DaemonSetGroup, EndpointProbe, Node, ObservedCronJob, ObservedDrift, ObservedJob,
    ObservedRelease, ReleaseKey, RolloutPods, RunningImages, Workload,
};
use osdpl_core::openstack::{HostObservation, InstanceObservation};

/// The results of all tasks at one point in time. Copies are cheap, because they share the results.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// The state of each release, from helm's release records.
    pub releases: Arc<BTreeMap<ReleaseKey, ObservedRelease>>,
    /// The time for which each pending release record has not changed, measured by the monotonic clock of this process.
    pub unchanged: BTreeMap<ReleaseKey, Duration>,
    /// The drift of releases that the drift task watches and whose newest revision is deployed.
    pub drift: Arc<BTreeMap<ReleaseKey, ObservedDrift>>,
    /// The latest result of probing each API, by release. The map leaves out the APIs to which the operator can't
    /// connect: the operator may run outside of the cluster's network, so this proves no fault of the API.
    pub endpoints: Arc<BTreeMap<ReleaseKey, EndpointProbe>>,
    /// Nova's response about its compute hosts; `None` before the first response, and while osdpl does not query the
    /// hosts.
    pub hosts: Option<Arc<HostObservation>>,
    /// Nova's response about instances; `None` before the first response, and while osdpl does not query the instances.
    pub instances: Option<Arc<InstanceObservation>>,
    /// The pods of the components whose `DaemonSets` osdpl is rolling out.
    pub rolling: Arc<BTreeMap<DaemonSetGroup, RolloutPods>>,
    pub(super) health: Arc<Health>,
}

impl Observation {
    /// Returns the Deployments, `StatefulSets` and `DaemonSets` of releases.
    pub fn workloads(&self) -> &[Workload] {
        &self.health.workloads
    }

    /// Returns the Jobs of releases, including hooks.
    pub fn jobs(&self) -> &[ObservedJob] {
        &self.health.jobs
    }

    /// Returns the `CronJobs` of releases.
    pub(crate) fn cron_jobs(&self) -> &[ObservedCronJob] {
        &self.health.crons
    }

    /// Returns the volume claims of releases.
    pub(crate) fn volume_claims(&self) -> &[Claim] {
        &self.health.claims
    }

    /// Returns the `StorageClasses` of the cluster; `None` if osdpl can't list them, for example without permission.
    pub(crate) fn storage_classes(&self) -> Option<&[Class]> {
        self.health.classes.as_deref()
    }

    /// Returns the images that pods run, with their digests.
    pub(crate) fn images(&self) -> &[RunningImages] {
        &self.health.images
    }

    /// Returns the objects that are not ready, each with the chain to its root cause.
    pub fn affected_objects(&self) -> &[AffectedObject] {
        &self.health.affected
    }

    /// Returns the nodes of the cluster by name; `None` if osdpl can't list them, for example without permission.
    pub fn nodes(&self) -> Option<&BTreeMap<String, Node>> {
        self.health.nodes.as_deref()
    }

    /// Returns the nodes of the cluster by name, as a shared pointer; `None` if osdpl can't list them, for example
    /// without permission.
    pub(crate) fn shared_nodes(&self) -> Option<Arc<BTreeMap<String, Node>>> {
        self.health.nodes.clone()
    }

    /// Returns each root cause once, with all objects that are not ready because of it.
    pub fn causes(&self) -> &[Cause] {
        &self.health.causes
    }
}
