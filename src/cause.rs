//! The root cause: from what is not ready along what it waits for to what has to be mended.
//!
//! ```text
//! nova/compute waits for neutron/neutron-ovs-agent on n3 ← openvswitch/server on n3: ImagePullBackOff quay.io/…
//! victim                 link                              root                      why
//! ```
//!
//! Pure: plain data in, chains out. Texts hold no ages and no counts, so that what goes on failing in the same way is no news.

use std::collections::BTreeMap;
use std::fmt;

use crate::catalog::{Component, WorkloadKind};
use crate::health::pod::{Dependency, OwnerKind, Unready};
use crate::observed::{JobSeen, Workload};

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
    pub pods: Pods<'a>,
    /// All Services.
    pub services: Services<'a>,
}

/// An object in a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// What people call it: `neutron/neutron-ovs-agent on n3`, `Job nova-db-sync`.
    pub label: String,
    /// The object to look at: `DaemonSet openstack/neutron-ovs-agent-default`.
    pub object: String,
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
}

impl Chain {
    /// What is to be mended, with why: the same for all its victims.
    pub fn root(&self) -> String {
        let label = self.links.last().map(|link| link.label.as_str()).unwrap_or_default();
        self.why.as_ref().map_or_else(|| label.to_owned(), |why| format!("{label}: {why}"))
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

/// Something that may have a cause.
#[derive(Clone, Copy)]
enum Suspect<'a> {
    Workload(&'a Workload, Option<&'a str>),
    Job(&'a JobSeen),
    /// It is not there, or nothing of ours is behind it.
    Absent(&'static str, &'a str, &'a str, &'static str),
}

impl<'a> Scene<'a> {
    /// Why a workload is not ready, if any of its pods says so.
    pub fn of_workload(&self, workload: &'a Workload) -> Option<Chain> {
        self.pods.get(&place(workload))?.first()?;
        Some(self.follow(Suspect::Workload(workload, None)))
    }

    /// Why a Job is not complete, if its pod says so.
    pub fn of_job(&self, job: &'a JobSeen) -> Option<Chain> {
        self.pods.get(&(job.namespace.as_str(), OwnerKind::Job, job.name.as_str()))?.first()?;
        Some(self.follow(Suspect::Job(job)))
    }

    fn follow(&self, victim: Suspect<'a>) -> Chain {
        let mut links = vec![link(victim)];
        let mut suspect = victim;
        loop {
            let pod = self.pod(suspect);
            let next = pod.and_then(|pod| pod.waits.iter().find_map(|dependency| self.unmet(pod, dependency)));
            let Some(next) = next else {
                let (why, stuck) = why(suspect, pod);
                return Chain { links, why, stuck };
            };
            let found = link(next);
            let again = links.contains(&found);
            links.push(found);
            if again {
                return Chain { links, why: Some("they wait for each other".into()), stuck: true };
            }
            suspect = next;
        }
    }

    /// The pod of it that is most worth telling, on its node where one counts.
    fn pod(&self, suspect: Suspect<'a>) -> Option<&'a Unready> {
        let (place, node) = match suspect {
            Suspect::Workload(workload, node) => (place(workload), node),
            Suspect::Job(job) => ((job.namespace.as_str(), OwnerKind::Job, job.name.as_str()), None),
            Suspect::Absent(..) => return None,
        };
        let pods = self.pods.get(&place)?;
        pods.iter().copied().find(|pod| node.is_none() || pod.node.as_deref() == node)
    }

    /// What is behind a dependency, if it is not there yet. What nothing is known of counts as there.
    fn unmet(&self, pod: &'a Unready, dependency: &'a Dependency) -> Option<Suspect<'a>> {
        match dependency {
            Dependency::Job { namespace, name } => {
                let job = self.jobs.iter().find(|job| job.namespace == *namespace && job.name == *name);
                let absent = Suspect::Absent("Job", namespace, name, "it is not there");
                job.map_or(Some(absent), |job| (!job.complete).then_some(Suspect::Job(job)))
            }
            Dependency::DaemonSet { namespace, name } => {
                let own = |w: &&&Workload| w.kind == WorkloadKind::DaemonSet && w.namespace == *namespace;
                let found = self.workloads.iter().filter(own).find(|workload| workload.name == *name);
                let absent = Suspect::Absent("DaemonSet", namespace, name, "it is not there");
                found
                    .map_or(Some(absent), |workload| (workload.ready == 0).then_some(Suspect::Workload(workload, None)))
            }
            Dependency::Service { namespace, name } => {
                let Some(selector) = self.services.get(&(namespace.as_str(), name.as_str())) else {
                    return Some(Suspect::Absent("Service", namespace, name, "it is not there"));
                };
                let workload = self.labelled(namespace, selector)?;
                (workload.ready == 0).then_some(Suspect::Workload(workload, None))
            }
            Dependency::Pod { namespace, labels, same_node } => {
                let workload = self.labelled(namespace, labels)?;
                let node = pod.node.as_deref().filter(|_| *same_node);
                let here = node.is_some() && self.pod(Suspect::Workload(workload, node)).is_some();
                (here || workload.ready == 0).then_some(Suspect::Workload(workload, node))
            }
        }
    }

    /// The workload whose pods have these labels, by upstream's three.
    fn labelled(&self, namespace: &str, labels: &BTreeMap<String, String>) -> Option<&'a Workload> {
        let component =
            Component { application: labels.get("application")?.clone(), component: labels.get("component")?.clone() };
        let release = labels.get("release_group");
        let same = |w: &&Workload| w.namespace == namespace && w.component == component;
        let mut found = self.workloads.iter().copied().filter(same);
        found.find(|workload| release.is_none_or(|release| workload.release == *release))
    }
}

fn place(workload: &Workload) -> Place<'_> {
    (&workload.namespace, workload.kind.into(), &workload.name)
}

fn link(suspect: Suspect<'_>) -> Link {
    let object = |kind: &str, namespace: &str, name: &str| format!("{kind} {namespace}/{name}");
    match suspect {
        Suspect::Workload(workload, node) => Link {
            label: node.map_or(workload.component.to_string(), |node| format!("{} on {node}", workload.component)),
            object: object(&format!("{:?}", workload.kind), &workload.namespace, &workload.name),
        },
        Suspect::Job(job) => {
            Link { label: format!("Job {}", job.name), object: object("Job", &job.namespace, &job.name) }
        }
        Suspect::Absent(kind, namespace, name, _) => {
            Link { label: format!("{kind} {name}"), object: object(kind, namespace, name) }
        }
    }
}

fn why(suspect: Suspect<'_>, pod: Option<&Unready>) -> (Option<String>, bool) {
    let trouble = match suspect {
        Suspect::Absent(_, _, _, why) => return (Some(why.into()), false),
        Suspect::Workload(workload, _) => workload.trouble.as_ref(),
        Suspect::Job(job) => job.trouble.as_ref(),
    };
    // With a node, the pod there counts and not the one most worth telling of all.
    let own = pod.and_then(Unready::trouble);
    let told = if matches!(suspect, Suspect::Workload(_, Some(_))) { own.as_ref() } else { trouble.or(own.as_ref()) };
    (told.map(|trouble| trouble.message.clone()), told.is_some_and(|trouble| trouble.stuck))
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
