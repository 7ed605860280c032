//! The part of the cluster that decides whether pods may start, kept current by watches.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::Event;

use super::PREFIX;
use super::needs::{CustomKind, Labels, Needs, SourceKind};
use super::rules::{self, Rule, Rules};

/// Namespace and name.
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

/// Something happened to the watched world.
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

/// What is known of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PodFacts {
    pub uid: String,
    pub labels: Labels,
    /// Annotations with our prefix, without it.
    pub steering: BTreeMap<String, String>,
    /// Empty until scheduled.
    pub node: String,
    pub phase: String,
    pub is_ready: bool,
    pub is_leaving: bool,
    /// `restartPolicy: Never`.
    pub never_restarts: bool,
    /// Uid of the controlling owner.
    pub owner: Option<String>,
    pub needs: Arc<Needs>,
}

impl PodFacts {
    /// A steering word: from an annotation, else a label.
    pub fn steer(&self, key: &str) -> Option<&str> {
        let label = || self.labels.get(&format!("{PREFIX}{key}"));
        self.steering.get(key).or_else(label).map(String::as_str)
    }

    pub fn is_released(&self) -> bool {
        self.steering.get("released").is_some_and(|value| value == "true")
    }
}

#[derive(PartialEq)]
pub(super) struct SliceFacts {
    pub service: String,
    pub is_ready: bool,
}

#[derive(Default, PartialEq)]
pub(super) struct JobFacts {
    pub uid: String,
    pub labels: Labels,
    pub has_succeeded: bool,
    pub has_failed_pods: bool,
}

/// Which pods must be judged anew.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// All of them.
    pub all: bool,
    /// Those not yet let go.
    pub held: bool,
    /// Of those, the ones that wait for other pods.
    pub held_by_pods: bool,
    /// These.
    pub pods: HashSet<Key>,
    /// Kinds of custom resources that pods newly wait for.
    pub customs: Vec<CustomKind>,
}

impl Touched {
    /// Whether a pod is among them.
    pub fn has(&self, key: &Key, pod: &PodFacts) -> bool {
        let held = || !pod.is_released();
        self.all
            || self.pods.contains(key)
            || self.held && held()
            || self.held_by_pods && held() && pod.needs.waits_for_pods()
    }
}

/// Objects of one kind, as the last list and the changes since then have them.
pub(super) struct Table<K, V> {
    now: HashMap<K, V>,
    coming: HashMap<K, V>,
    is_known: bool,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { now: HashMap::new(), coming: HashMap::new(), is_known: false }
    }
}

impl<K: Eq + Hash, V: PartialEq> Table<K, V> {
    /// Takes an event in; returns whether anything that we keep has changed.
    fn learn<T>(&mut self, event: Event<T>, read: impl Fn(T) -> (K, V)) -> bool {
        match event {
            Event::Init => {
                self.coming.clear();
                false
            }
            Event::InitApply(object) => {
                let (key, value) = read(object);
                self.coming.insert(key, value);
                false
            }
            Event::InitDone => {
                self.now = std::mem::take(&mut self.coming);
                self.is_known = true;
                true
            }
            Event::Apply(object) => {
                let (key, value) = read(object);
                let is_new = self.now.get(&key) != Some(&value);
                self.now.insert(key, value);
                is_new
            }
            Event::Delete(object) => self.now.remove(&read(object).0).is_some(),
        }
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.now.get(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.now.iter()
    }
}

/// Everything watched.
#[derive(Default)]
pub(super) struct World {
    pods: Table<Key, PodFacts>,
    pub slices: Table<Key, SliceFacts>,
    pub jobs: Table<Key, JobFacts>,
    /// Their pods' labels.
    pub daemon_sets: Table<Key, Labels>,
    secrets: Table<Key, ()>,
    config_maps: Table<Key, ()>,
    /// Whether they are Ready.
    nodes: Table<String, bool>,
    pub customs: HashMap<CustomKind, Table<String, serde_json::Value>>,
    faults: Table<Key, Rules>,
}

impl World {
    /// Takes a change in, and says which pods it may concern.
    pub fn learn(&mut self, change: Change, touched: &mut Touched) {
        let changed = match change {
            Change::Pod(event) => return self.learn_pod(event, touched),
            Change::Node(event) => {
                touched.all |= self.nodes.learn(event, |node| (node.name_any(), is_node_ready(&node)));
                return;
            }
            Change::Faults(event) => {
                touched.all |= self.faults.learn(event, |map| (Key::of(&map), rules::read(&map)));
                return;
            }
            Change::Slice(event) => self.slices.learn(event, |slice| (Key::of(&slice), slice_facts(&slice))),
            Change::Job(event) => self.jobs.learn(event, |job| (Key::of(&job), job_facts(&job))),
            Change::DaemonSet(event) => self.daemon_sets.learn(event, |set| (Key::of(&set), selected(&set))),
            Change::Secret(event) => self.secrets.learn(event, |secret| (Key::of(&secret), ())),
            Change::ConfigMap(event) => self.config_maps.learn(event, |map| (Key::of(&map), ())),
            Change::Custom(kind, event) => {
                let table = self.customs.entry(kind).or_default();
                table.learn(event, |object| (object.name_any(), object.data.clone()))
            }
        };
        touched.held |= changed;
    }

    fn learn_pod(&mut self, event: Event<Pod>, touched: &mut Touched) {
        if let Event::InitApply(pod) | Event::Apply(pod) | Event::Delete(pod) = &event {
            let (key, new) = (Key::of(pod), pod_facts(pod));
            let concerns_others = self
                .pods
                .get(&key)
                .is_none_or(|old| (old.is_ready, &old.node, &old.labels) != (new.is_ready, &new.node, &new.labels));
            touched.held_by_pods |= concerns_others || matches!(event, Event::Delete(_));
            touched.pods.insert(key);
            for kind in new.needs.custom_kinds() {
                if !self.customs.contains_key(&kind) {
                    self.customs.insert(kind.clone(), Table::default());
                    touched.customs.push(kind);
                }
            }
        }
        touched.all |= matches!(event, Event::InitDone);
        self.pods.learn(event, |pod| (Key::of(&pod), pod_facts(&pod)));
    }

    /// Whether every first list has arrived; before that, absence means nothing.
    pub fn is_known(&self) -> bool {
        let Self { pods, slices, jobs, daemon_sets, secrets, config_maps, nodes, customs: _, faults } = self;
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

    /// Pods of a namespace that carry all the labels.
    pub fn pods_with<'a>(&'a self, namespace: &'a str, labels: &'a Labels) -> impl Iterator<Item = &'a PodFacts> {
        let here = self.pods.iter().filter(move |(key, _)| key.namespace == namespace);
        here.map(|(_, pod)| pod).filter(|pod| carries(&pod.labels, labels))
    }

    pub fn has(&self, kind: SourceKind, namespace: &str, name: &str) -> bool {
        let key = Key::new(namespace, name);
        match kind {
            SourceKind::Secret => self.secrets.get(&key).is_some(),
            SourceKind::ConfigMap => self.config_maps.get(&key).is_some(),
        }
    }

    /// A node that is not there is not Ready.
    pub fn is_node_ready(&self, name: &str) -> bool {
        self.nodes.get(&name.to_string()).copied().unwrap_or(false)
    }

    /// The first fault rule, by name, that concerns a pod.
    pub fn rule(&self, key: &Key, pod: &PodFacts) -> Option<(&str, &Rule)> {
        let rules = self.faults.iter().flat_map(|(_, rules)| &rules.by_name);
        let mut matching = rules.filter(|(_, rule)| rule.concerns(&key.namespace, &key.name, &pod.labels));
        matching.next().map(|(name, rule)| (name.as_str(), rule))
    }

    /// Digest and uid of fault rules that are in force without their author having been told.
    pub fn rules_to_acknowledge(&self) -> Option<(String, &str)> {
        let (_, rules) = self.faults.iter().next()?;
        (rules.acknowledged.as_ref() != Some(&rules.digest)).then(|| (rules.digest.clone(), rules.uid.as_str()))
    }
}

/// Whether `labels` has every one of `wanted`.
pub(super) fn carries(labels: &Labels, wanted: &Labels) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

fn pod_facts(pod: &Pod) -> PodFacts {
    let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ours =
        pod.annotations().iter().filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?.into(), value.clone())));
    let owners = pod.owner_references().iter();
    PodFacts {
        uid: pod.uid().unwrap_or_default(),
        labels: pod.labels().clone(),
        steering: ours.collect(),
        node: spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        phase: status.and_then(|status| status.phase.clone()).unwrap_or_default(),
        is_ready: conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True"),
        is_leaving: pod.metadata.deletion_timestamp.is_some(),
        never_restarts: spec.and_then(|spec| spec.restart_policy.as_deref()) == Some("Never"),
        owner: owners.filter(|owner| owner.controller == Some(true)).map(|owner| owner.uid.clone()).next(),
        needs: Arc::new(Needs::of(pod)),
    }
}

/// An endpoint counts as ready unless it says otherwise (EndpointConditions).
fn slice_facts(slice: &EndpointSlice) -> SliceFacts {
    let ready = |endpoint: &k8s_openapi::api::discovery::v1::Endpoint| {
        let conditions = endpoint.conditions.as_ref();
        !endpoint.addresses.is_empty() && conditions.and_then(|conditions| conditions.ready).unwrap_or(true)
    };
    SliceFacts {
        service: slice.labels().get("kubernetes.io/service-name").cloned().unwrap_or_default(),
        is_ready: slice.endpoints.iter().flatten().any(ready),
    }
}

fn job_facts(job: &Job) -> JobFacts {
    let status = job.status.as_ref();
    JobFacts {
        uid: job.uid().unwrap_or_default(),
        labels: job.labels().clone(),
        has_succeeded: status.and_then(|status| status.succeeded).unwrap_or(0) > 0,
        has_failed_pods: status.and_then(|status| status.failed).unwrap_or(0) > 0,
    }
}

/// OpenStack-Helm's DaemonSets select by labels only.
fn selected(set: &DaemonSet) -> Labels {
    let selector = set.spec.as_ref().map(|spec| &spec.selector);
    selector.and_then(|selector| selector.match_labels.clone()).unwrap_or_default()
}

fn is_node_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True")
}
