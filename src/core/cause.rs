//! Root causes: follows the dependencies of objects that are not ready.
//!
//! ```text
//! nova/compute waits for neutron/neutron-ovs-agent on n3 ← openvswitch/server on n3: ImagePullBackOff quay.io/…
//! affected object        link                              root cause                reason
//!
//! facts   cluster state besides pods: claims, classes, nodes, logs     claim   why a claim has no volume
//! follow  from an affected object to its root cause                    roots   each root cause once
//! ```
//!
//! Pure module (no I/O). Messages contain no ages and counts, so that a repeated failure does not change the status.

mod claim;
mod facts;
mod follow;
mod roots;

use std::collections::BTreeMap;
use std::fmt;

pub use claim::deletion_commands;
pub use facts::{Explanation, Facts};
pub use roots::{AffectedObject, group_by_root_cause};

use crate::api::CauseObject;
use crate::catalog::WorkloadKind;
use crate::health::pod::{OwnerKind, UnreadyPod};
use crate::observed::{ObservedJob, ReleaseKey, Workload};

/// Separates an object from its dependency.
const ARROW: &str = " ← ";

/// The owner of pods: its namespace, kind and name.
pub type OwnerRef<'a> = (&'a str, OwnerKind, &'a str);

/// The pods of each owner that are not ready, most relevant first.
pub type Pods<'a> = BTreeMap<OwnerRef<'a>, Vec<&'a UnreadyPod>>;

/// The selector of each Service, by namespace and name.
pub type Services<'a> = BTreeMap<(&'a str, &'a str), &'a BTreeMap<String, String>>;

/// The input of the search for causes.
pub struct Input<'a> {
    /// Deployments, `StatefulSets` and `DaemonSets` of releases.
    pub workloads: Vec<&'a Workload>,
    /// Jobs of releases.
    pub jobs: Vec<&'a ObservedJob>,
    /// The pods that are not ready.
    pub pods: &'a Pods<'a>,
    /// All Services; `None` if they cannot be read.
    pub services: Option<Services<'a>>,
    /// Further cluster state.
    pub facts: &'a Facts<'a>,
}

/// An object in a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Its display name: `neutron/neutron-ovs-agent on n3`, `Job nova-db-sync`.
    pub label: String,
    /// The object to inspect.
    pub object: CauseObject,
}

/// The path from an affected object to its root cause, which may be the same object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The affected object first, the root cause last; never empty.
    pub links: Vec<Link>,
    /// The reason of the root cause, if it is known.
    pub why: Option<String>,
    /// Whether the root cause cannot recover without help.
    pub stuck: bool,
    /// Further objects to inspect: the pod of the root cause, its claim, its node.
    pub inspect: Vec<CauseObject>,
    /// The release of the root cause, if any.
    pub release: Option<ReleaseKey>,
}

impl Chain {
    /// Describes the root cause with its reason. The text is the same for all affected objects.
    pub fn root(&self) -> String {
        let label = self.links.last().map(|link| link.label.as_str()).unwrap_or_default();
        self.why.as_ref().map_or_else(|| format!("{label} is not ready yet"), |why| format!("{label}: {why}"))
    }

    /// Whether the object waits for something else.
    pub fn is_affected(&self) -> bool {
        self.links.len() > 1
    }
}

/// Formats the chain without the affected object: `waits for … ← …: reason`.
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
