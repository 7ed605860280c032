//! Simulates a cloud in memory for the rollout tests. Its methods change its `DaemonSets` and pods as helm and
//! Kubernetes would.

use k8s_openapi::jiff::SignedDuration;

use super::super::*;
use crate::api::Rollout;
use crate::catalog::WorkloadKind;
use crate::observed::{DaemonPod, OnDelete, PodState};
use crate::plan::Step;
use crate::release::Status;
use crate::testing::{self, Fixture, NOW};

/// A cloud with two components of the data plane, and with a pod of each component on every node.
pub(crate) struct Cloud {
    pub fixture: Fixture,
    pub plan: Plan,
    pub settings: Rollout,
    pub rolling: BTreeMap<DaemonSetGroup, RolloutPods>,
    pub nodes: BTreeMap<String, Node>,
    pub status: Rollouts,
    pub now: Timestamp,
    pod_count: u32,
}

pub(crate) const SWITCH: (&str, &str) = ("openvswitch", "openvswitch/server");
pub(crate) const COMPUTE: (&str, &str) = ("nova", "nova/compute");

pub(crate) fn daemons(component: &str) -> DaemonSetGroup {
    DaemonSetGroup { namespace: "openstack".into(), component: crate::catalog::Component::parse(component).unwrap() }
}

impl Cloud {
    pub(crate) fn new(nodes: usize) -> Self {
        let mut fixture = testing::fixture();
        fixture.catalog.rollout = [SWITCH.0, COMPUTE.0].map(str::to_owned).into();
        fixture.desired.releases.clear();
        let mut rolling = BTreeMap::new();
        for (release, component) in [SWITCH, COMPUTE] {
            let mut wanted = testing::release(release);
            wanted.values = serde_json::from_value(serde_json::json!({"pod": {"lifecycle": {"upgrades": {"daemonsets": {"pod_replacement_strategy": "OnDelete"}}}}})).unwrap();
            wanted.components.insert(daemons(component).component, WorkloadKind::DaemonSet);
            fixture.desired.releases.insert(release.into(), wanted);
            fixture.observed.releases.insert(
                crate::observed::ReleaseKey::new("openstack", release),
                testing::observed_release(Status::Deployed),
            );
            let mut set = testing::available(release, component, 1);
            (set.kind, set.on_delete) = (WorkloadKind::DaemonSet, Some(OnDelete { uid: release.into(), stale: 0 }));
            fixture.observed.workloads.push(set);
            let pods = (1..=nodes).map(|node| pod(release, &format!("{release}-{node}"), &format!("n{node}"), "r1"));
            let revisions = [(release.to_owned(), "r1".to_owned())].into();
            rolling.insert(daemons(component), RolloutPods { pods: pods.collect(), revisions });
        }
        let nodes = (1..=nodes).map(|node| (format!("n{node}"), Node::default())).collect();
        let settings = Rollout { pause_seconds: Some(0), ..Rollout::default() };
        let (plan, status) = (Plan::default(), Rollouts::new());
        let mut cloud = Self { fixture, plan, settings, rolling, nodes, status, now: NOW, pod_count: 0 };
        cloud.recount();
        cloud.plan = cloud.fixture.plan();
        for decision in cloud.plan.decisions.values_mut() {
            decision.step = Step::Ready;
        }
        cloud
    }

    pub(crate) fn pods(&mut self, component: &str) -> &mut Vec<DaemonPod> {
        &mut self.rolling.get_mut(&daemons(component)).unwrap().pods
    }

    /// Simulates that helm changes the pod template of a component. `revision` is the revision of the new template.
    pub(crate) fn template(&mut self, (release, component): (&str, &str), revision: &str) {
        let own = self.rolling.get_mut(&daemons(component)).unwrap();
        own.revisions.insert(release.into(), revision.into());
        self.recount();
    }

    /// Updates the number of outdated pods in the status of the `DaemonSets`, as the `DaemonSet` controller does.
    fn recount(&mut self) {
        let nodes = i32::try_from(self.nodes.len()).unwrap();
        for set in &mut self.fixture.observed.workloads {
            let Some(rolling) = self.rolling.get(&daemons(&set.component.to_string())) else { continue };
            let fresh = rolling
                .pods
                .iter()
                .filter(|pod| pod.state != PodState::Terminating && pod.revision == rolling.revisions[&pod.set]);
            let stale = nodes - i32::try_from(fresh.count()).unwrap();
            (set.desired, set.on_delete) = (nodes, Some(OnDelete { uid: set.release.clone(), stale }));
        }
    }

    /// Simulates one pass of the operator: decides about the rollouts, stores their status and evicts the pods.
    pub(crate) fn pass(&mut self) -> NextRollouts {
        let Fixture { desired, observed, catalog, policy, .. } = &self.fixture;
        let next = decide(&Input {
            desired,
            observed,
            catalog,
            plan: &self.plan,
            policy,
            settings: &self.settings,
            rolling: &self.rolling,
            nodes: Some(&self.nodes),
            before: &self.status,
            evicted: &BTreeSet::new(),
            now: self.now,
        });
        self.status.clone_from(&next.rollouts);
        for eviction in &next.evict {
            let pods = self.rolling.values_mut().flat_map(|rolling| &mut rolling.pods);
            pods.filter(|pod| pod.uid == eviction.uid).for_each(|pod| pod.state = PodState::Terminating);
        }
        if !next.evict.is_empty() {
            self.recount();
        }
        next
    }

    /// Simulates that Kubernetes replaces the evicted pods with new pods, which are starting.
    pub(crate) fn replace(&mut self) {
        for rolling in self.rolling.values_mut() {
            for pod in rolling.pods.iter_mut().filter(|pod| pod.state == PodState::Terminating) {
                self.pod_count += 1;
                (pod.uid, pod.revision) = (format!("new-{}", self.pod_count), rolling.revisions[&pod.set].clone());
                pod.state = PodState::Starting("it starts".into(), Some(self.now));
            }
        }
        self.recount();
    }

    pub(crate) fn settle(&mut self) {
        let (now, pods) = (self.now, self.rolling.values_mut().flat_map(|rolling| &mut rolling.pods));
        for pod in pods.filter(|pod| matches!(pod.state, PodState::Starting(..))) {
            pod.state = PodState::Ready(Some(now));
        }
    }

    pub(crate) fn approve(&mut self) {
        self.fixture.policy.approved = Some(self.plan.hash.clone());
        self.pass();
        self.fixture.policy.approved = None;
    }

    pub(crate) fn phase(&self, component: &str) -> Option<RolloutPhase> {
        self.status.get(component).map(|status| status.phase)
    }
}

fn pod(set: &str, name: &str, node: &str, revision: &str) -> DaemonPod {
    let state = PodState::Ready(Some(NOW - SignedDuration::from_hours(1)));
    DaemonPod {
        name: name.into(),
        uid: name.into(),
        set: set.into(),
        node: node.into(),
        revision: revision.into(),
        state,
    }
}

pub(crate) fn batches(cloud: &mut Cloud) -> Vec<String> {
    let mut batches = Vec::new();
    for _ in 0..100 {
        let next = cloud.pass();
        if !next.evict.is_empty() {
            let nodes: Vec<_> = next.evict.iter().map(|pod| pod.node.as_str()).collect();
            batches.push(format!("{} {}", next.component.unwrap(), nodes.join("+")));
            assert_eq!(cloud.pass().evict, [], "osdpl evicts no pods while a batch is in flight");
            cloud.replace();
            assert_eq!(cloud.pass().evict, []);
            cloud.settle();
        } else if cloud.status.values().all(|status| !status.phase.is_active()) {
            return batches;
        }
    }
    panic!("the rollout does not end: {batches:?} {:#?}", cloud.status);
}
