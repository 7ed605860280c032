//! Searches for the root cause of an affected object, which is an object that is not ready. The search goes from each
//! object to the object that it waits for.

use std::collections::BTreeMap;

use super::{Chain, Explanation, Input, Link, OwnerRef, object, owner_of_workload};
use crate::api::CauseObject;
use crate::catalog::{Component, WorkloadKind};
use crate::health::pod::{Dependency, OwnerKind, UnreadyPod};
use crate::health::{RELEASE_GROUP, assess, has_no_nodes};
use crate::observed::{Issue, ObservedJob, ReleaseKey, Workload};

/// The reason in messages if a pod waits for an object that osdpl can't find, and osdpl can't tell whether the object
/// ever existed.
const NOT_FOUND: &str = "it does not exist";

/// The reason in messages if a pod waits for a workload that someone deleted.
const DELETED: &str = "it was deleted";

/// The reason that messages give if a node is not ready.
const NOT_READY: &str = "NotReady";

/// The object that the search for a root cause has reached. It is the root cause unless it waits for another object.
#[derive(Clone, Copy)]
enum Suspect<'a> {
    /// A workload. If the variant names a node, the search considers only the workload's pods on this node.
    Workload(&'a Workload, Option<&'a str>),
    /// A Job that is not complete.
    Job(&'a ObservedJob),
    /// An object that does not exist or belongs to no release: its kind, namespace and name.
    Absent(&'static str, &'a str, &'a str),
    /// A node that is not ready, given by its name.
    Node(&'a str),
    /// A workload that someone deleted: its namespace, and the labels of its pods. The workload belonged to the same
    /// release as the object that waits for it.
    Gone(&'a str, &'a BTreeMap<String, String>),
}

impl<'a> Input<'a> {
    /// Returns the path from a workload to its root cause; `None` if Kubernetes can create the workload's pods and all
    /// of these pods are ready.
    pub fn workload_chain(&self, workload: &'a Workload) -> Option<Chain> {
        self.has_reason(&owner_of_workload(workload)).then(|| self.follow(Suspect::Workload(workload, None), None))
    }

    /// Returns a path for each pod of the workload on a `NotReady` node. Each path leads from the workload to the pod's
    /// node.
    pub fn lost_node_chains(&self, workload: &'a Workload) -> Vec<Chain> {
        let lost = self.pods.get(&owner_of_workload(workload)).into_iter().flatten();
        let lost = lost.filter(|pod| pod.node.as_ref().is_some_and(|node| workload.lost_nodes.contains(node)));
        lost.map(|pod| self.follow(Suspect::Workload(workload, None), Some(pod))).collect()
    }

    /// Returns the path from a Job to its root cause; `None` if Kubernetes can create the Job's pods and each of these
    /// pods is ready or has succeeded.
    pub fn job_chain(&self, job: &'a ObservedJob) -> Option<Chain> {
        self.has_reason(&owner_of_job(job)).then(|| self.follow(Suspect::Job(job), None))
    }

    fn has_reason(&self, owner: &OwnerRef<'_>) -> bool {
        self.facts.rejections.contains_key(owner) || self.pods.get(owner).is_some_and(|pods| !pods.is_empty())
    }

    /// Returns the path from a pod to its root cause; `None` if the pod is ready or belongs to no observed workload or
    /// Job.
    pub fn pod_chain(&self, namespace: &str, name: &str) -> Option<Chain> {
        let is_in_namespace = |owner: &OwnerRef<'_>| owner.0 == namespace;
        let mut all = self.pods.iter().filter(|(owner, _)| is_in_namespace(owner));
        let (owner, pod) = all.find_map(|(owner, pods)| Some((owner, *pods.iter().find(|pod| pod.name == name)?)))?;
        let workload = self.workloads.iter().copied().find(|workload| owner_of_workload(workload) == *owner);
        let suspect = match workload {
            Some(workload) => Suspect::Workload(workload, None),
            None => Suspect::Job(self.jobs.iter().copied().find(|job| owner_of_job(job) == *owner)?),
        };
        Some(self.follow(suspect, Some(pod)))
    }

    /// Returns the path from an affected object to its root cause.
    ///
    /// The search starts at a pod of the affected object: the pod `given` or, if `given` is `None`, the pod with the
    /// most severe cause. The search ends at an object that waits for no other object, or if objects wait for each
    /// other.
    fn follow(&self, affected_object: Suspect<'a>, given: Option<&'a UnreadyPod>) -> Chain {
        let mut links = vec![link(affected_object)];
        let (mut suspect, mut pod) = (affected_object, given.or_else(|| self.pod(affected_object)));
        loop {
            let next = pod.and_then(|pod| self.next(suspect, pod));
            let Some(next) = next else {
                let RootReason { trouble, inspect } =
                    self.root_reason(suspect, pod, given.is_some() && links.len() == 1);
                let stuck = trouble.as_ref().is_some_and(|trouble| trouble.stuck);
                return Chain {
                    links,
                    why: trouble.map(|trouble| trouble.message),
                    stuck,
                    inspect,
                    release: release(suspect),
                };
            };
            let found = link(next);
            let is_cycle = links.contains(&found);
            links.push(found);
            if is_cycle {
                let why = Some("it is part of a cycle of objects that wait for each other".into());
                return Chain { links, why, stuck: true, inspect: Vec::new(), release: release(next) };
            }
            (suspect, pod) = (next, self.pod(next));
        }
    }

    /// Returns the object that `pod` waits for; `None` if it waits for no object. `pod` is a pod of `suspect`, the
    /// object that the search has reached.
    ///
    /// If the pod's node is lost, the pod waits for the node. Otherwise, it waits for the object of its first unmet
    /// dependency, such as a Job or a Service.
    fn next(&self, suspect: Suspect<'a>, pod: &'a UnreadyPod) -> Option<Suspect<'a>> {
        let node = self.facts.lost_node(pod).map(Suspect::Node);
        node.or_else(|| {
            pod.requirements.waits.iter().find_map(|dependency| self.unmet_dependency(suspect, pod, dependency))
        })
    }

    /// Returns the pod with the most severe cause among the pods of `suspect` that are not ready. For a
    /// [`Suspect::Workload`] with a node, the method considers only pods on this node.
    fn pod(&self, suspect: Suspect<'a>) -> Option<&'a UnreadyPod> {
        let (owner, node) = match suspect {
            Suspect::Workload(workload, node) => (owner_of_workload(workload), node),
            Suspect::Job(job) => (owner_of_job(job), None),
            Suspect::Absent(..) | Suspect::Gone(..) | Suspect::Node(_) => return None,
        };
        let pods = self.pods.get(&owner)?;
        pods.iter().copied().find(|pod| node.is_none() || pod.node.as_deref() == node)
    }

    /// Returns the object that a pod waits for because of `dependency`. `affected_object` is the workload or Job that
    /// owns the pod.
    ///
    /// If osdpl can't find a Job, `DaemonSet` or Service that the dependency names, the result is usually
    /// [`Suspect::Absent`]. Returns `None` if the dependency is met, or if osdpl does not know which workload has the
    /// pods that the dependency requires.
    fn unmet_dependency(
        &self,
        affected_object: Suspect<'a>,
        pod: &'a UnreadyPod,
        dependency: &'a Dependency,
    ) -> Option<Suspect<'a>> {
        match dependency {
            Dependency::Job { namespace, name } => {
                let job = self.jobs.iter().find(|job| job.namespace == *namespace && job.name == *name);
                let absent = || self.running_hook(affected_object).unwrap_or(Suspect::Absent("Job", namespace, name));
                job.map_or_else(|| Some(absent()), |job| (!job.complete).then_some(Suspect::Job(job)))
            }
            Dependency::DaemonSet { namespace, name } => {
                let own = |w: &&&Workload| w.kind == WorkloadKind::DaemonSet && w.namespace == *namespace;
                let found = self.workloads.iter().filter(own).find(|workload| workload.name == *name);
                let absent = Suspect::Absent("DaemonSet", namespace, name);
                found
                    .map_or(Some(absent), |workload| (workload.ready == 0).then_some(Suspect::Workload(workload, None)))
            }
            Dependency::Service { namespace, name } => {
                let Some(selector) = self.services.as_ref()?.get(&(namespace.as_str(), name.as_str())) else {
                    return Some(Suspect::Absent("Service", namespace, name));
                };
                let Some(workload) = self.labelled(namespace, selector) else {
                    return gone(affected_object, namespace, selector);
                };
                (workload.ready == 0).then_some(Suspect::Workload(workload, None))
            }
            Dependency::Pod { namespace, labels, same_node } => {
                let Some(workload) = self.labelled(namespace, labels) else {
                    return gone(affected_object, namespace, labels);
                };
                let node = pod.node.as_deref().filter(|_| *same_node);
                let here = node.is_some() && self.pod(Suspect::Workload(workload, node)).is_some();
                (here || workload.ready == 0).then_some(Suspect::Workload(workload, node))
            }
        }
    }

    /// Returns an incomplete Job of the same release as `affected_object`, other than `affected_object` itself; `None`
    /// if there is no such Job.
    ///
    /// A pod of `affected_object` can wait for a hook Job that does not exist yet, because helm creates each hook only
    /// after the previous hook is done. So the pod really waits for the Job that runs now.
    fn running_hook(&self, affected_object: Suspect<'a>) -> Option<Suspect<'a>> {
        let own = release(affected_object)?;
        let runs = |job: &&&ObservedJob| !job.complete && job.namespace == own.namespace && job.release == own.name;
        let found = self.jobs.iter().filter(runs).map(|job| Suspect::Job(job));
        let mut others = found.filter(|job| link(*job).object != link(affected_object).object);
        others.next()
    }

    /// Finds the workload of the pods with these labels; `None` if no observed workload has such pods. The method
    /// compares only the labels `application`, `component` and `release_group`, which upstream's charts set on all
    /// pods.
    fn labelled(&self, namespace: &str, labels: &BTreeMap<String, String>) -> Option<&'a Workload> {
        let component =
            Component { application: labels.get("application")?.clone(), component: labels.get("component")?.clone() };
        let release = labels.get(RELEASE_GROUP);
        let same = |w: &&Workload| w.namespace == namespace && w.component == component;
        let mut found = self.workloads.iter().copied().filter(same);
        found.find(|workload| release.is_none_or(|release| workload.release == *release))
    }

    /// Returns the reason why the root cause `suspect` is not ready, and the objects that a person should inspect.
    ///
    /// If `given` is true, the caller asked about `pod` only. The result then contains only the reason why this pod is
    /// not ready. It does not contain the reason that the workload or Job reports, because that reason may be about
    /// another pod.
    fn root_reason(&self, suspect: Suspect<'a>, pod: Option<&UnreadyPod>, given: bool) -> RootReason {
        let namespace = link(suspect).object.namespace;
        let own = pod.and_then(|pod| self.facts.explain(&namespace, pod));
        let kept = match suspect {
            Suspect::Absent(..) => Some(Issue { stuck: false, message: NOT_FOUND.into() }),
            Suspect::Node(_) => Some(Issue { stuck: false, message: NOT_READY.into() }),
            Suspect::Gone(..) => Some(Issue { stuck: true, message: DELETED.into() }),
            Suspect::Workload(workload, None) if has_no_nodes(workload) => {
                Some(Issue { stuck: true, message: assess(workload).reason })
            }
            Suspect::Workload(workload, _) => {
                let refused = self.facts.rejections.get(&owner_of_workload(workload)).filter(|_| !given);
                refused.map(|message| Issue { stuck: true, message: (*message).to_owned() })
            }
            Suspect::Job(job) => job.trouble.clone().filter(|_| !given),
        };
        let (trouble, inspect) =
            own.map_or((None, Vec::new()), |Explanation { trouble, inspect }| (Some(trouble), inspect));
        RootReason { trouble: kept.or(trouble), inspect }
    }
}

/// The reason why a root cause is not ready, and the objects that a person should inspect.
struct RootReason {
    trouble: Option<Issue>,
    inspect: Vec<CauseObject>,
}

fn owner_of_job(job: &ObservedJob) -> OwnerRef<'_> {
    (&job.namespace, OwnerKind::Job, &job.name)
}

fn release(suspect: Suspect<'_>) -> Option<ReleaseKey> {
    match suspect {
        Suspect::Workload(workload, _) => Some(ReleaseKey::new(&workload.namespace, &workload.release)),
        Suspect::Job(job) => Some(ReleaseKey::new(&job.namespace, &job.release)),
        Suspect::Gone(namespace, labels) => Some(ReleaseKey::new(namespace, labels.get(RELEASE_GROUP)?)),
        Suspect::Absent(..) | Suspect::Node(_) => None,
    }
}

/// Returns the deleted workload whose pods had these labels; `None` if it is possible that no such workload ever
/// existed.
///
/// A pod of `affected_object` waits for pods with these labels, but no workload has such pods. If the labels name the
/// release of `affected_object`, the workload existed and was deleted, because helm creates the workloads of a release
/// before any pod of the release starts to wait for them. If the labels name another release or none, osdpl does not
/// know whether the workload ever existed.
fn gone<'a>(
    affected_object: Suspect<'a>,
    namespace: &'a str,
    labels: &'a BTreeMap<String, String>,
) -> Option<Suspect<'a>> {
    let own = release(affected_object)?;
    let same = own.namespace == namespace && labels.get(RELEASE_GROUP) == Some(&own.name);
    (same && labels.contains_key("component")).then_some(Suspect::Gone(namespace, labels))
}

fn link(suspect: Suspect<'_>) -> Link {
    match suspect {
        Suspect::Workload(workload, node) => Link {
            label: node.map_or(workload.component.to_string(), |node| format!("{} on {node}", workload.component)),
            object: object(&format!("{:?}", workload.kind), &workload.namespace, &workload.name),
        },
        Suspect::Job(job) => {
            Link { label: format!("Job {}", job.name), object: object("Job", &job.namespace, &job.name) }
        }
        Suspect::Gone(namespace, labels) => {
            let label = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
            let name = format!("{}/{}", label("application"), label("component"));
            Link { object: object("Release", namespace, label("release_group")), label: name }
        }
        Suspect::Node(name) => Link { label: format!("node {name}"), object: object("Node", "", name) },
        Suspect::Absent(kind, namespace, name) => {
            Link { label: format!("{kind} {name}"), object: object(kind, namespace, name) }
        }
    }
}
