//! The root cause: from what is not ready along what it waits for to what has to be mended.
//!
//! ```text
//! nova/compute waits for neutron/neutron-ovs-agent on n3 ← openvswitch/server on n3: ImagePullBackOff quay.io/…
//! victim                 link                              root                      why
//!
//! facts   what the cluster says beside pods: claims, classes, nodes, logs     claim   why a claim has no volume
//! follow  from a victim to its root                                           roots   each root once, with its victims
//! ```
//!
//! Pure: plain data in, chains out. Texts hold no ages and no counts, so that what goes on failing in the same way is no news.

mod claim;
mod facts;
mod follow;
mod roots;

use std::collections::BTreeMap;
use std::fmt;

pub use claim::remedy;
pub use facts::{Facts, Told};
pub use roots::{Victim, roots};

use crate::api::CauseObject;
use crate::catalog::WorkloadKind;
use crate::health::pod::{OwnerKind, Unready};
use crate::observed::{JobSeen, Key, Workload};

/// Between what waits and what it waits for.
const BECAUSE: &str = " ← ";

/// An object that pods belong to: its namespace, kind and name.
pub type Place<'a> = (&'a str, OwnerKind, &'a str);

/// The pods of each owner that are not ready, the one most worth telling first.
pub type Pods<'a> = BTreeMap<Place<'a>, Vec<&'a Unready>>;

/// The selector of each Service, by namespace and name.
pub type Services<'a> = BTreeMap<(&'a str, &'a str), &'a BTreeMap<String, String>>;

/// What is looked at for causes.
pub struct Scene<'a> {
    /// Deployments, `StatefulSets` and `DaemonSets` of releases.
    pub workloads: Vec<&'a Workload>,
    /// Jobs of releases.
    pub jobs: Vec<&'a JobSeen>,
    /// The pods that are not ready.
    pub pods: &'a Pods<'a>,
    /// All Services; `None` where they may not be read.
    pub services: Option<Services<'a>>,
    /// What else is known.
    pub facts: &'a Facts<'a>,
}

/// An object in a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// What people call it: `neutron/neutron-ovs-agent on n3`, `Job nova-db-sync`.
    pub label: String,
    /// The object to look at.
    pub object: CauseObject,
}

/// From a victim to its root, which may be the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The victim first, the root last; never empty.
    pub links: Vec<Link>,
    /// Why the root is as it is, where that is known.
    pub why: Option<String>,
    /// Whether the root can't go on without help.
    pub stuck: bool,
    /// What else to look at to see why: the root's pod, its claim, its node.
    pub look: Vec<CauseObject>,
    /// The release that the root belongs to, where there is one.
    pub release: Option<Key>,
}

impl Chain {
    /// What is to be mended, with why: the same for all its victims.
    pub fn root(&self) -> String {
        let label = self.links.last().map(|link| link.label.as_str()).unwrap_or_default();
        self.why.as_ref().map_or_else(|| format!("{label} is not ready yet"), |why| format!("{label}: {why}"))
    }

    /// Whether the victim waits for something else.
    pub fn is_victim(&self) -> bool {
        self.links.len() > 1
    }
}

/// What is told of the victim, without its own name: `waits for … ← …: why`.
impl fmt::Display for Chain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, rest @ ..] = self.links.as_slice() else { return Ok(()) };
        let why = self.why.as_deref().unwrap_or_default();
        if rest.is_empty() {
            return formatter.write_str(why);
        }
        let labels: Vec<&str> = rest.iter().map(|link| link.label.as_str()).collect();
        write!(formatter, "waits for {}", labels.join(BECAUSE))?;
        if why.is_empty() { Ok(()) } else { write!(formatter, ": {why}") }
    }
}

fn place(workload: &Workload) -> Place<'_> {
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
