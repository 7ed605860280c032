//! Explains why a pod is not ready, from the state of volume claims, nodes and other objects in the cluster.

use super::{Facts, claim, object};
use crate::api::CauseObject;
use crate::health::pod::UnreadyPod;
use crate::observed::Issue;

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
