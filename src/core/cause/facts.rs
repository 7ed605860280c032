//! Explains why a pod is not ready, from the state of volume claims, nodes and other objects in the cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::{OwnerRef, claim, object};
use crate::api::CauseObject;
use crate::health::pod::{Mount, UnreadyPod};
use crate::observed::{Claim, Class, Issue};

/// The state of claims, nodes and other objects in the cluster, from which osdpl explains why pods are not ready.
#[derive(Default)]
pub struct Facts<'a> {
    /// The volume claims by namespace and name: all claims of releases, and every pending claim in the cluster.
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

/// The reason why a pod is not ready, and the objects that a person should inspect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The reason why the pod is not ready, and whether the problem remains until a person acts.
    pub trouble: Issue,
    /// The objects that a person should inspect; the pod comes first.
    pub inspect: Vec<CauseObject>,
}

impl Facts<'_> {
    /// Returns the name of the pod's node if the node is lost; else `None`. A lost node is not ready, and its grace
    /// period is over.
    pub fn lost_node<'p>(&self, pod: &'p UnreadyPod) -> Option<&'p str> {
        let node = pod.node.as_deref()?;
        (self.nodes.as_ref()?.get(node) == Some(&false)).then_some(node)
    }

    /// Whether the pod's node is not ready but may recover, because its grace period is not over.
    pub fn is_on_recovering_node(&self, pod: &UnreadyPod) -> bool {
        pod.node.as_deref().is_some_and(|node| self.recovering_nodes.contains(node))
    }

    /// Explains why a pod is not ready; `None` if osdpl does not know the reason.
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
