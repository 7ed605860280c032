//! What the cluster says of a pod that the pod itself does not.

use std::collections::{BTreeMap, BTreeSet};

use super::{Place, claim, object};
use crate::api::CauseObject;
use crate::health::pod::{Mount, Unready};
use crate::observed::{Claim, Class, Trouble};

/// What is known beside workloads and pods.
#[derive(Default)]
pub struct Facts<'a> {
    /// Volume claims, by namespace and name: those of releases, and all that wait.
    pub claims: BTreeMap<(&'a str, &'a str), &'a Claim>,
    /// `StorageClasses`, by name; `None` where they may not be read.
    pub classes: Option<BTreeMap<&'a str, &'a Class>>,
    /// Whether each node is ready or may be back soon, by name; `None` where they may not be read.
    pub nodes: Option<BTreeMap<&'a str, bool>>,
    /// The nodes that may be back soon: what ran there counts as if it still did.
    pub awaited: BTreeSet<&'a str>,
    /// What pods mount and is not there, by the pod's uid.
    pub absent: BTreeMap<&'a str, &'a [Mount]>,
    /// Why no pod of a workload or Job can be made, where its controller says so.
    pub refused: BTreeMap<Place<'a>, &'a str>,
    /// What provisioners say that make no volume, by the claim's namespace and name.
    pub provisioners: BTreeMap<(&'a str, &'a str), &'a str>,
    /// Scrubbed ends of the logs of failed containers, by the pod's uid.
    pub logs: BTreeMap<&'a str, &'a str>,
}

/// Why a pod is not ready, and where that is to be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Why.
    pub trouble: Trouble,
    /// What to look at, the pod first.
    pub look: Vec<CauseObject>,
}

impl Facts<'_> {
    /// The node of a pod, where that one is not ready.
    pub fn lost_node<'p>(&self, pod: &'p Unready) -> Option<&'p str> {
        let node = pod.node.as_deref()?;
        (self.nodes.as_ref()?.get(node) == Some(&false)).then_some(node)
    }

    /// Whether a pod is on a node that may be back soon.
    pub fn is_awaited(&self, pod: &Unready) -> bool {
        pod.node.as_deref().is_some_and(|node| self.awaited.contains(node))
    }

    /// Why a pod is not ready, if that can be told.
    pub fn told(&self, namespace: &str, pod: &Unready) -> Option<Told> {
        let look = vec![object("Pod", namespace, &pod.name)];
        let mut told = Told { trouble: pod.trouble()?, look };
        if let Some(waiting) = claim::waiting(self, namespace, pod) {
            told.trouble = Trouble { stuck: waiting.stuck, message: format!("{}: {}", pod.name, waiting.message) };
            told.look.push(object("PersistentVolumeClaim", namespace, waiting.claim));
        }
        if let Some(absent) = self.absent.get(pod.uid.as_str()).filter(|absent| !absent.is_empty()) {
            let names: Vec<_> = absent.iter().map(ToString::to_string).collect();
            let message = format!("{}: it mounts what does not exist: {}", pod.name, names.join(", "));
            told.trouble = Trouble { stuck: true, message };
            told.look.extend(absent.iter().map(|mount| object(&format!("{:?}", mount.kind), namespace, &mount.name)));
        }
        if let Some(log) = self.logs.get(pod.uid.as_str()) {
            told.trouble.message = format!("{}; its log ends: {log}", told.trouble.message);
        }
        Some(told)
    }
}
