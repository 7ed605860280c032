//! Cluster state that explains why a pod is not ready.

use std::collections::{BTreeMap, BTreeSet};

use super::{OwnerRef, claim, object};
use crate::api::CauseObject;
use crate::health::pod::{Mount, UnreadyPod};
use crate::observed::{Claim, Class, Issue};

/// Cluster state besides workloads and pods.
#[derive(Default)]
pub struct Facts<'a> {
    /// Volume claims by namespace and name: those of releases, and all pending ones.
    pub claims: BTreeMap<(&'a str, &'a str), &'a Claim>,
    /// `StorageClasses` by name; `None` if they cannot be read.
    pub classes: Option<BTreeMap<&'a str, &'a Class>>,
    /// Whether each node is ready or may recover soon, by name; `None` if nodes cannot be read.
    pub nodes: Option<BTreeMap<&'a str, bool>>,
    /// The nodes that may recover soon. Their pods count as running.
    pub recovering_nodes: BTreeSet<&'a str>,
    /// Missing mounted objects by the pod's uid.
    pub absent: BTreeMap<&'a str, &'a [Mount]>,
    /// Why the pods of a workload or Job cannot be created, according to its controller.
    pub rejections: BTreeMap<OwnerRef<'a>, &'a str>,
    /// Errors of provisioners, by the claim's namespace and name.
    pub provisioners: BTreeMap<(&'a str, &'a str), &'a str>,
    /// The last log lines of failed containers, without secrets, by the pod's uid.
    pub logs: BTreeMap<&'a str, &'a str>,
}

/// Why a pod is not ready, and the objects to inspect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The reason.
    pub trouble: Issue,
    /// The objects to inspect, the pod first.
    pub inspect: Vec<CauseObject>,
}

impl Facts<'_> {
    /// Returns the node of a pod, if that node is not ready.
    pub fn lost_node<'p>(&self, pod: &'p UnreadyPod) -> Option<&'p str> {
        let node = pod.node.as_deref()?;
        (self.nodes.as_ref()?.get(node) == Some(&false)).then_some(node)
    }

    /// Whether a pod is on a node that may recover soon.
    pub fn is_on_recovering_node(&self, pod: &UnreadyPod) -> bool {
        pod.node.as_deref().is_some_and(|node| self.recovering_nodes.contains(node))
    }

    /// Returns why a pod is not ready, if it is known.
    pub fn explain(&self, namespace: &str, pod: &UnreadyPod) -> Option<Explanation> {
        let inspect = vec![object("Pod", namespace, &pod.name)];
        let mut explanation = Explanation { trouble: pod.trouble()?, inspect };
        if let Some(waiting) = claim::waiting(self, namespace, pod) {
            explanation.trouble = Issue { stuck: waiting.stuck, message: format!("{}: {}", pod.name, waiting.message) };
            explanation.inspect.push(object("PersistentVolumeClaim", namespace, waiting.claim));
        }
        if let Some(absent) = self.absent.get(pod.uid.as_str()).filter(|absent| !absent.is_empty()) {
            let names: Vec<_> = absent.iter().map(ToString::to_string).collect();
            let message = format!("{}: it mounts objects that do not exist: {}", pod.name, names.join(", "));
            explanation.trouble = Issue { stuck: true, message };
            explanation
                .inspect
                .extend(absent.iter().map(|mount| object(&format!("{:?}", mount.kind), namespace, &mount.name)));
        }
        if let Some(log) = self.logs.get(pod.uid.as_str()) {
            explanation.trouble.message = format!("{}; its log ends: {log}", explanation.trouble.message);
        }
        Some(explanation)
    }
}
