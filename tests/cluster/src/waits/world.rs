//! Stores the watched objects that decide whether pods may start, and finds the pods that a change affects.

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::Event;

use super::facts::{
    JobFacts, PodFacts, SliceFacts, has_labels, is_node_ready, job_facts, pod_facts, selected, slice_facts,
};
use super::needs::{CustomKind, Labels, SourceKind};
use super::rules::{self, Rule, Rules};
use super::table::Table;

/// The namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    fn of(object: &impl kube::Resource<DynamicType = impl Sized>) -> Self {
        Self::new(
            object.meta().namespace.as_deref().unwrap_or_default(),
            object.meta().name.as_deref().unwrap_or_default(),
        )
    }
}

/// A change that a watch reports. There is one variant for each kind of object.
#[expect(clippy::large_enum_variant, reason = "only one change exists at a time")]
pub(super) enum Change {
    Pod(Event<Pod>),
    Slice(Event<EndpointSlice>),
    Job(Event<Job>),
    DaemonSet(Event<DaemonSet>),
    Secret(Event<PartialObjectMeta<Secret>>),
    ConfigMap(Event<PartialObjectMeta<ConfigMap>>),
    Node(Event<Node>),
    Faults(Event<ConfigMap>),
    Custom(CustomKind, Event<DynamicObject>),
}

/// The pods that the supervisor must evaluate again after some changes. To evaluate a pod means to compute the pod's
/// annotations `kwok.osdpl.dev/…`, which control kwok. Each field except `customs` selects pods, and the supervisor
/// evaluates every pod that at least one field selects.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// Whether to evaluate all pods again, for example after a change of a node or of the fault rules.
    pub all: bool,
    /// Whether to evaluate all pods that the supervisor does not allow to start yet. These pods may wait for an object
    /// that has changed.
    pub waiting: bool,
    /// Whether a pod has changed, so that the supervisor must evaluate all pods that wait for other pods.
    pub waiting_for_pods: bool,
    /// The keys of the pods that were created, changed or deleted.
    pub pods: HashSet<Key>,
    /// The kinds of custom resources that the supervisor must start to watch, because pods wait for them.
    pub customs: Vec<CustomKind>,
}

impl Touched {
    /// Returns whether the supervisor must evaluate this pod again.
    pub fn has(&self, key: &Key, pod: &PodFacts) -> bool {
        let is_waiting = || !pod.is_released();
        self.all
            || self.pods.contains(key)
            || self.waiting && is_waiting()
            || self.waiting_for_pods && is_waiting() && pod.needs.waits_for_pods()
    }
}

/// The watched objects, reduced to the properties that decide whether pods may start.
#[derive(Default)]
pub(super) struct World {
    pods: Table<Key, PodFacts>,
    /// The keys of the pods on each node. With hundreds of nodes, this index makes the search for the pods of one node
    /// fast.
    pods_by_node: HashMap<String, HashSet<Key>>,
    pub slices: Table<Key, SliceFacts>,
    pub jobs: Table<Key, JobFacts>,
    /// The labels with which each DaemonSet selects its pods.
    pub daemon_sets: Table<Key, Labels>,
    secrets: Table<Key, ()>,
    config_maps: Table<Key, ()>,
    /// Whether each node is Ready.
    nodes: Table<String, bool>,
    pub customs: HashMap<CustomKind, Table<String, serde_json::Value>>,
    faults: Table<Key, Rules>,
}

impl World {
    /// Applies a change, and adds to `touched` the pods that the change affects.
    pub fn apply(&mut self, change: Change, touched: &mut Touched) {
        let changed = match change {
            Change::Pod(event) => return self.apply_pod(event, touched),
            Change::Node(event) => {
                touched.all |= self.nodes.apply(event, |node| (node.name_any(), is_node_ready(&node)));
                return;
            }
            Change::Faults(event) => {
                touched.all |= self.faults.apply(event, |map| (Key::of(&map), rules::read(&map)));
                return;
            }
            Change::Slice(event) => self.slices.apply(event, |slice| (Key::of(&slice), slice_facts(&slice))),
            Change::Job(event) => self.jobs.apply(event, |job| (Key::of(&job), job_facts(&job))),
            Change::DaemonSet(event) => self.daemon_sets.apply(event, |set| (Key::of(&set), selected(&set))),
            Change::Secret(event) => self.secrets.apply(event, |secret| (Key::of(&secret), ())),
            Change::ConfigMap(event) => self.config_maps.apply(event, |map| (Key::of(&map), ())),
            Change::Custom(kind, event) => {
                let table = self.customs.entry(kind).or_default();
                table.apply(event, |object| (object.name_any(), object.data.clone()))
            }
        };
        touched.waiting |= changed;
    }

    fn apply_pod(&mut self, event: Event<Pod>, touched: &mut Touched) {
        if let Event::InitApply(pod) | Event::Apply(pod) | Event::Delete(pod) = &event {
            let (key, new) = (Key::of(pod), pod_facts(pod));
            let affects_others = self
                .pods
                .get(&key)
                .is_none_or(|old| (old.is_ready, &old.node, &old.labels) != (new.is_ready, &new.node, &new.labels));
            touched.waiting_for_pods |= affects_others || matches!(event, Event::Delete(_));
            self.set_node(&key, &new.node, matches!(event, Event::Delete(_)));
            touched.pods.insert(key);
            for kind in new.needs.custom_kinds() {
                if !self.customs.contains_key(&kind) {
                    self.customs.insert(kind.clone(), Table::default());
                    touched.customs.push(kind);
                }
            }
        }
        touched.all |= matches!(event, Event::InitDone);
        self.pods.apply(event, |pod| (Key::of(&pod), pod_facts(&pod)));
    }

    fn set_node(&mut self, key: &Key, node: &str, is_deleted: bool) {
        let pods = self.pods_by_node.entry(node.to_owned()).or_default();
        if is_deleted {
            pods.remove(key);
        } else if pods.insert(key.clone()) && !node.is_empty() {
            // The pod has just been scheduled. So remove it from the entry for "", which lists the pods without a node.
            self.set_node(key, "", true);
        }
    }

    /// Whether the watches have listed all objects of every kind, except for custom resources. Until then, the tables
    /// of this `World` may lack objects that exist in the cluster.
    pub fn is_known(&self) -> bool {
        let Self { pods, pods_by_node: _, slices, jobs, daemon_sets, secrets, config_maps, nodes, customs: _, faults } =
            self;
        pods.is_known
            && slices.is_known
            && jobs.is_known
            && daemon_sets.is_known
            && secrets.is_known
            && config_maps.is_known
            && nodes.is_known
            && faults.is_known
    }

    pub fn pods(&self) -> impl Iterator<Item = (&Key, &PodFacts)> {
        self.pods.iter()
    }

    /// Returns each pod in `namespace` that has all `labels`.
    pub fn pods_with<'a>(&'a self, namespace: &'a str, labels: &'a Labels) -> impl Iterator<Item = &'a PodFacts> {
        let keys = self.pods.iter().filter(move |(key, _)| key.namespace == namespace);
        keys.map(|(_, pod)| pod).filter(|pod| has_labels(&pod.labels, labels))
    }

    /// Returns each pod on `node` that is in `namespace` and has all `labels`.
    pub fn pods_on<'a>(
        &'a self,
        node: &'a str,
        namespace: &'a str,
        labels: &'a Labels,
    ) -> impl Iterator<Item = &'a PodFacts> {
        let keys = self.pods_by_node.get(node).into_iter().flatten().filter(move |key| key.namespace == namespace);
        // The index may be outdated, so compare the node of the pod itself: while the watch was interrupted, a pod of
        // the same name may have been created on another node.
        keys.filter_map(|key| self.pods.get(key)).filter(move |pod| pod.node == node && has_labels(&pod.labels, labels))
    }

    pub fn has(&self, kind: SourceKind, namespace: &str, name: &str) -> bool {
        let key = Key::new(namespace, name);
        match kind {
            SourceKind::Secret => self.secrets.get(&key).is_some(),
            SourceKind::ConfigMap => self.config_maps.get(&key).is_some(),
        }
    }

    /// Whether a node is Ready; `false` if it does not exist.
    pub fn is_node_ready(&self, name: &str) -> bool {
        self.nodes.get(&name.to_string()).copied().unwrap_or(false)
    }

    /// Returns the fault rule that matches a pod, with the rule's name. If several rules match, returns the rule whose
    /// name sorts first.
    pub fn rule(&self, key: &Key, pod: &PodFacts) -> Option<(&str, &Rule)> {
        let rules = self.faults.iter().flat_map(|(_, rules)| &rules.by_name);
        let mut matching = rules.filter(|(_, rule)| rule.matches(&key.namespace, &key.name, &pod.labels));
        matching.next().map(|(name, rule)| (name.as_str(), rule))
    }

    /// Returns the digest of the current fault rules and the uid of their ConfigMap. The supervisor must write the
    /// digest into an annotation of the ConfigMap. Returns `None` if the annotation already has this digest.
    pub fn rules_to_acknowledge(&self) -> Option<(String, &str)> {
        let (_, rules) = self.faults.iter().next()?;
        (rules.acknowledged.as_ref() != Some(&rules.digest)).then(|| (rules.digest.clone(), rules.uid.as_str()))
    }
}
