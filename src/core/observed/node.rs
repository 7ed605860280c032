//! The observed state of a node.

use std::collections::BTreeMap;

/// The labels of a node, by key.
pub type Labels = BTreeMap<String, String>;

/// The labels to remove from each node, by the name of the node. The labels of one node are a string such as
/// `l3-agent=enabled,openvswitch=enabled`.
pub type LabelLosses = BTreeMap<String, String>;

/// The observed state of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The node's uid. A new node may have the same name, but never the same uid.
    pub uid: String,
    /// All labels of the node.
    pub labels: Labels,
    /// The labels that the operator set on the node for each cloud, according to the node's annotation
    /// [`crate::api::NODE_LABELS`].
    ///
    /// Each key is the owner label of a cloud ([`crate::api::owner_label`]). If an older version of osdpl wrote the
    /// annotation, the annotation contains labels, but no owner labels. The map then contains all these labels under an
    /// empty key.
    pub listed: BTreeMap<String, Labels>,
    /// The address ranges of the node's pods: `10.244.3.0/24`. Empty if Kubernetes does not assign address ranges to
    /// nodes.
    pub pod_networks: Vec<String>,
    /// Whether the node is `NotReady`: its kubelet reports that the node is not ready, or the kubelet does not report
    /// at all. True even during the grace period, for example while the kubelet restarts.
    pub missing: bool,
}

impl Node {
    /// Creates a node from its uid, its labels and the value of its annotation [`crate::api::NODE_LABELS`].
    pub fn new(uid: Option<&str>, labels: Option<&Labels>, annotation: Option<&str>) -> Self {
        let (mut listed, mut owner) = (BTreeMap::<String, Labels>::new(), "");
        for entry in annotation.unwrap_or_default().split(',') {
            match entry.split_once('=') {
                Some((key, value)) => {
                    listed.entry(owner.to_owned()).or_default().insert(key.to_owned(), value.to_owned());
                }
                None => owner = entry,
            }
        }
        Self {
            uid: uid.unwrap_or_default().to_owned(),
            labels: labels.cloned().unwrap_or_default(),
            listed,
            pod_networks: Vec::new(),
            missing: false,
        }
    }

    /// Formats `listed` as the value of the annotation [`crate::api::NODE_LABELS`]: for each cloud, first the cloud's
    /// owner label, then the labels that the operator set for the cloud.
    pub fn annotation(listed: &BTreeMap<String, Labels>) -> String {
        let entries = listed.iter().flat_map(|(owner, labels)| {
            [owner.clone()].into_iter().chain(labels.iter().map(|(key, value)| format!("{key}={value}")))
        });
        entries.collect::<Vec<_>>().join(",")
    }

    /// Returns the labels that the operator set on the node for the cloud with the owner label `owner`, as (key,
    /// value).
    ///
    /// The result includes the labels for which the node's annotation names no cloud, because the operator may have set
    /// them for this cloud.
    pub fn ours<'a>(&'a self, owner: &str) -> impl Iterator<Item = (&'a String, &'a String)> + use<'a> {
        ["", owner].map(|owner| self.listed.get(owner)).into_iter().flatten().flatten()
    }

    /// Whether the operator set the label `key` to `value` for the cloud with the owner label `owner`.
    pub fn is_ours(&self, owner: &str, key: &str, value: &str) -> bool {
        self.ours(owner).any(|(own, set)| own == key && set == value)
    }

    /// Whether the operator set the label `key` to `value` for a cloud with another owner label than `owner`.
    pub(crate) fn is_of_another(&self, owner: &str, key: &str, value: &str) -> bool {
        let mut others = self.listed.iter().filter(|(other, _)| !other.is_empty() && *other != owner);
        others.any(|(_, labels)| labels.get(key).is_some_and(|other| other == value))
    }
}
