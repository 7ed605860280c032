//! Finds the root cause of a component or Job that is not ready. The search goes from the component or Job to the
//! object that its pod waits for, and on to the next object, until it reaches an object that waits for no other object.
//!
//! ```text
//! nova/compute waits for neutron/neutron-ovs-agent on n3 ← openvswitch/server on n3: ImagePullBackOff quay.io/…
//! affected object        link                              root cause                reason
//!
//! follow  the path from an affected object to its root cause
//! facts   volume claims, StorageClasses, nodes and logs, from which osdpl explains why a pod is not ready
//! claim   why a volume claim has no volume
//! roots   the root causes without duplicates
//! ```
//!
//! Pure module (no I/O). Messages contain no ages and no restart counts, so that the status does not change if the same
//! failure happens again.

mod claim;
mod facts;
mod follow;
mod roots;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use claim::deletion_commands;
pub use facts::Explanation;
pub use roots::{AffectedObject, group_by_root_cause};

use crate::api::CauseObject;
use crate::catalog::WorkloadKind;
use crate::health::pod::{Mount, OwnerKind, UnreadyPod};
use crate::observed::{Claim, Class, ObservedJob, ReleaseKey, Workload};

/// The arrow in messages. The object to the left of the arrow waits for the object to the right of the arrow.
const ARROW: &str = " ← ";

/// The workload or Job that owns pods: its namespace, kind and name.
pub type OwnerRef<'a> = (&'a str, OwnerKind, &'a str);

/// The pods that are not ready, by owner. In each owner's list, the pod with the most severe cause is first.
pub type Pods<'a> = BTreeMap<OwnerRef<'a>, Vec<&'a UnreadyPod>>;

/// The label selectors of all Services, by the namespace and name of the Service.
pub type Services<'a> = BTreeMap<(&'a str, &'a str), &'a BTreeMap<String, String>>;

/// The state of claims, nodes and other objects in the cluster, from which osdpl explains why pods are not ready.
#[derive(Default)]
pub struct Facts<'a> {
    /// The volume claims by namespace and name: all claims of releases, and every other claim without a volume in the
    /// namespaces that the operator watches.
    pub claims: BTreeMap<(&'a str, &'a str), &'a Claim>,
    /// The `StorageClasses` by name; `None` if the operator can't read `StorageClasses`.
    pub classes: Option<BTreeMap<&'a str, &'a Class>>,
    /// Whether each node is usable, by the node's name; `None` if the operator can't read nodes.
    ///
    /// `false` means that the node is lost: it is not ready, and its grace period is over. The grace period is the time
    /// for which osdpl waits for a node to become ready again, for example after a restart of the kubelet.
    pub nodes: Option<BTreeMap<&'a str, bool>>,
    /// The names of the nodes that are not ready but still in their grace period. These nodes may become ready again
    /// soon, so osdpl treats the pods of `DaemonSets` on them as ready.
    pub recovering_nodes: BTreeSet<&'a str>,
    /// The Secrets and `ConfigMaps` that a pod mounts but that do not exist, by the pod's uid.
    pub absent: BTreeMap<&'a str, &'a [Mount]>,
    /// The reason why Kubernetes can't create the pods of a workload or Job, as the workload's or Job's controller
    /// reports it. The map's key is the workload or Job.
    pub rejections: BTreeMap<OwnerRef<'a>, &'a str>,
    /// The error with which a storage provisioner failed to create a volume, by the namespace and name of the volume
    /// claim.
    pub provisioners: BTreeMap<(&'a str, &'a str), &'a str>,
    /// The last lines of the log of a pod's failed container, with secrets redacted, by the pod's uid.
    pub logs: BTreeMap<&'a str, &'a str>,
}

/// The observed objects in which osdpl searches for root causes.
pub struct Input<'a> {
    /// The Deployments, `StatefulSets` and `DaemonSets` of releases.
    pub workloads: Vec<&'a Workload>,
    /// The Jobs of releases.
    pub jobs: Vec<&'a ObservedJob>,
    /// The pods that are not ready, by owner.
    pub pods: &'a Pods<'a>,
    /// The label selectors of all Services; `None` if the operator can't read Services.
    pub services: Option<Services<'a>>,
    /// The volume claims, nodes, logs and other facts from which osdpl explains why pods are not ready.
    pub facts: &'a Facts<'a>,
}

/// One object of a [`Chain`]. Each object of a chain waits for the next object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The name of the object in messages, such as `Job nova-db-sync`, or `neutron/neutron-ovs-agent on n3` for a
    /// component on the node n3.
    pub label: String,
    /// The reference to the Kubernetes object that a person should inspect to learn more about this link.
    pub object: CauseObject,
}

/// The path from an affected object (an object that is not ready) to its root cause. If the affected object waits for
/// no other object, it is itself the root cause, and the path has only one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The objects of the path: the affected object first, the root cause last; never empty. If objects wait for each
    /// other, the last link repeats an earlier one.
    pub links: Vec<Link>,
    /// The reason why the root cause is not ready; `None` if osdpl does not know the reason.
    pub why: Option<String>,
    /// Whether the root cause remains until a person fixes it.
    pub stuck: bool,
    /// Further objects that a person should inspect: the pod of the root cause, and the pod's volume claim or missing
    /// Secrets and ConfigMaps if they are the problem. For a `CronJob`, the failing Job.
    pub inspect: Vec<CauseObject>,
    /// The release that the root cause belongs to; `None` for a node or an object that belongs to no release.
    pub release: Option<ReleaseKey>,
}

impl Chain {
    /// Returns a message with the name of the root cause and the reason why the root cause is not ready.
    ///
    /// [`group_by_root_cause`] groups chains by this message: chains with the same message have the same root cause.
    pub fn root(&self) -> String {
        let label = self.links.last().map(|link| link.label.as_str()).unwrap_or_default();
        self.why.as_ref().map_or_else(|| format!("{label} is not ready yet"), |why| format!("{label}: {why}"))
    }

    /// Whether the affected object waits for another object. If not, the affected object itself is the root cause.
    pub fn is_affected(&self) -> bool {
        self.links.len() > 1
    }
}

/// Formats the chain as `waits for … ← …: reason`, without the affected object. If the affected object is the root
/// cause, the result is only the reason.
impl fmt::Display for Chain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, rest @ ..] = self.links.as_slice() else { return Ok(()) };
        let why = self.why.as_deref().unwrap_or_default();
        if rest.is_empty() {
            return formatter.write_str(why);
        }
        let labels: Vec<&str> = rest.iter().map(|link| link.label.as_str()).collect();
        write!(formatter, "waits for {}", labels.join(ARROW))?;
        if why.is_empty() { Ok(()) } else { write!(formatter, ": {why}") }
    }
}

fn owner_of_workload(workload: &Workload) -> OwnerRef<'_> {
    (&workload.namespace, workload.kind.into(), &workload.name)
}

fn object(kind: &str, namespace: &str, name: &str) -> CauseObject {
    CauseObject { kind: kind.into(), namespace: namespace.into(), name: name.into() }
}

impl From<WorkloadKind> for OwnerKind {
    fn from(kind: WorkloadKind) -> Self {
        match kind {
            WorkloadKind::Deployment => Self::Deployment,
            WorkloadKind::StatefulSet => Self::StatefulSet,
            WorkloadKind::DaemonSet => Self::DaemonSet,
        }
    }
}

#[cfg(test)]
mod tests;
