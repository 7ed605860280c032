//! Rollouts: after an approval, the operator evicts the outdated pods of the data plane in batches of nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};

use cluster::Rule;
use futures::StreamExt;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use osdpl_core::api::{OpenStackDeployment, Phase, RolloutPhase, RolloutStatus, condition, reason};
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services, with_values};
use crate::world::{World, now, run_test};

const SWITCH: &str = "openvswitch/server";
const AGENT: &str = "ovn/ovn-controller";

/// Returns a spec with Open vSwitch and OVN. `switch` is the tag of Open vSwitch's image, `agent` the tag of
/// ovn-controller's image, and `rollout` the value of `nodes.rollout`.
fn spec(switch: &str, agent: &str, rollout: &Value) -> Value {
    let mut spec = services(&["openvswitch", "ovn"]);
    spec["nodes"] = json!({ "rollout": rollout });
    spec["features"] = json!({"network": {"backend": "ovn"}});
    let tag = |key: &str, tag: &str| json!({"images": {"tags": {key: format!("example.org/{key}:{tag}")}}});
    spec = with_values(spec, "openvswitch", tag("openvswitch_vswitchd", switch));
    with_values(spec, "ovn", tag("ovn_controller", agent))
}

fn rollout(cloud: &OpenStackDeployment, component: &str) -> RolloutStatus {
    cloud.status().rollouts.get(component).cloned().unwrap_or_default()
}

impl World {
    async fn until_rollout(&self, component: &str, phase: RolloutPhase) -> OpenStackDeployment {
        let what = format!("the rollout of {component} is {phase:?}");
        self.until(&what, |cloud| (rollout(cloud, component).phase == phase).then(|| cloud.clone())).await
    }

    /// Waits until the operator evicts pods in the approved rollout of a component, and no other change waits for
    /// approval.
    pub async fn until_allowed(&self, component: &str) {
        let is_rolling = |cloud: &OpenStackDeployment| {
            let status = rollout(cloud, component);
            (status.approved && !status.batch.is_empty() && cloud.status().approval.is_none()).then_some(())
        };
        self.until(&format!("{component} continues node by node without another approval"), is_rolling).await;
    }

    /// Returns the name of the component's pod on each node. The keys of the map are the names of the nodes.
    async fn pods_by_node(&self, component: &str) -> BTreeMap<String, String> {
        let label = component.split_once('/').unwrap().1;
        let labelled = ListParams::default().labels(&format!("component={label}"));
        let pods = self.api::<Pod>().list(&labelled).await.unwrap();
        pods.into_iter().map(|pod| (pod.spec.clone().unwrap().node_name.unwrap_or_default(), pod.name_any())).collect()
    }

    /// Returns the names of the pods that the operator evicted after `since`, oldest eviction first.
    fn evicted_since(&self, since: Timestamp) -> Vec<String> {
        let evictions = self.writes_since(since).into_iter();
        let evictions = evictions.filter(|write| write.subresource == "eviction" && write.code == 201);
        evictions.map(|write| write.name).collect()
    }

    /// Waits until a DaemonSet has the update strategy `wanted`, such as `OnDelete`.
    async fn until_strategy(&self, name: &str, wanted: &str) {
        let has = |set: Option<&DaemonSet>| {
            let strategy = set.and_then(|set| set.spec.as_ref()?.update_strategy.as_ref()?.type_.as_deref());
            strategy == Some(wanted)
        };
        Box::pin(self.until_object(&format!("{name} has the strategy {wanted}"), name, has)).await;
    }
}

/// Watches the pods of the data plane. For each component, records the maximum number of nodes on which the component
/// had no ready pod at the same time.
struct Gaps {
    most: Arc<Mutex<BTreeMap<String, usize>>>,
    watch: tokio::task::JoinHandle<()>,
}

impl Gaps {
    /// Starts to watch the pods of Open vSwitch's server and of `ovn-controller`. `nodes` is the number of nodes on
    /// which each of these components runs.
    fn of(world: &World, nodes: usize) -> Self {
        let most = Arc::<Mutex<BTreeMap<String, usize>>>::default();
        let (shared, api) = (Arc::clone(&most), world.api::<Pod>());
        let watch = tokio::spawn(async move {
            let selector = watcher::Config::default().labels("component in (server,ovn-controller)");
            let mut ready: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            let mut events = pin!(watcher(api, selector).default_backoff());
            while let Some(event) = events.next().await {
                let (pod, exists) = match event {
                    Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => (pod, true),
                    Ok(watcher::Event::Delete(pod)) => (pod, false),
                    _ => continue,
                };
                let own = ready.entry(pod.labels()["component"].clone()).or_default();
                let status = pod.status.clone().unwrap_or_default();
                let is_ready = status
                    .conditions
                    .unwrap_or_default()
                    .iter()
                    .any(|condition| condition.type_ == "Ready" && condition.status == "True");
                if exists && is_ready && pod.metadata.deletion_timestamp.is_none() {
                    own.insert(pod.name_any());
                } else if own.remove(&pod.name_any()) {
                    let mut gaps = shared.lock().unwrap();
                    let most = gaps.entry(pod.labels()["component"].clone()).or_default();
                    *most = (*most).max(nodes - own.len());
                }
            }
        });
        Self { most, watch }
    }

    fn most(&self) -> BTreeMap<String, usize> {
        self.most.lock().unwrap().clone()
    }
}

impl Drop for Gaps {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// Returns the messages of all events with this reason in the test's namespace.
async fn event_messages(world: &World, reason: &str) -> Vec<String> {
    let events = world.api::<Event>().list(&ListParams::default()).await.unwrap();
    let own = events.items.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
    own.filter_map(|event| event.message).collect()
}

#[test]
fn rolls_out_node_by_node_after_approval() {
    run_test("rollout", async |world| {
        let without_pause = json!({"pauseSeconds": 0});
        let operator = world.operator().start().await;
        world.apply(&spec("1", "1", &without_pause)).await;
        world.until_ready().await;
        world.until_strategy("openvswitch", "OnDelete").await;
        // OVN's chart has no value for the update strategy, so the operator patches the DaemonSet.
        world.until_strategy("ovn-controller-default", "OnDelete").await;

        let (began, before) = (now(), (world.pods_by_node(SWITCH).await, world.pods_by_node(AGENT).await));
        world.apply(&spec("2", "2", &without_pause)).await;
        let cloud = world
            .until("both rollouts wait for approval", |cloud| {
                let waits = |component| rollout(cloud, component).phase == RolloutPhase::AwaitingApproval;
                (waits(SWITCH) && waits(AGENT) && cloud.is_ready()).then(|| cloud.clone())
            })
            .await;
        let message = "openvswitch/server: its new pod template restarts pods on 3 nodes, 1 at a time: waits for approval (osdpl approve)";
        assert_eq!(cloud.status().phase, Some(Phase::AwaitingApproval), "{}", cloud.status().message);
        let rolled = cloud.condition(condition::ROLLED_OUT).unwrap();
        assert_eq!((rolled.status.as_str(), rolled.reason.as_str()), ("False", reason::APPROVAL));
        assert!(rolled.message.contains(message), "{}", rolled.message);
        let status = world.osdpl(&["status"]);
        assert!(status.contains(&format!("\nRollouts:\n  {message}\n")), "{status}");
        let (plan, hash) = (world.osdpl(&["plan"]), cloud.status().approval.unwrap());
        assert!(plan.contains(&format!("note: rollout of {message}")) && plan.contains(&hash), "{plan}");
        assert_eq!((world.pods_by_node(SWITCH).await, world.pods_by_node(AGENT).await), before);
        assert_eq!(world.evicted_since(began), [""; 0]);

        let gaps = Gaps::of(world, 3);
        // Delay new pods of Open vSwitch by a second, so that the test can kill the operator in the middle of the
        // rollout.
        let slow =
            Rule { behaviour: None, delay: Some("1s".into()), ..Rule::new(&world.namespace, "openvswitch-", "") };
        world.cluster().behaviour("slow", &slow).await.unwrap();
        assert_eq!(world.osdpl(&["approve", &hash]), format!("approved {hash}\n"));
        world.until_rollout(SWITCH, RolloutPhase::Rolling).await;
        operator.kill();
        world.cluster().remove_rule("slow").await.unwrap();
        let _operator = world.operator().start().await;
        let cloud = world.until_rollout(AGENT, RolloutPhase::Complete).await;
        assert_eq!(rollout(&cloud, SWITCH).phase, RolloutPhase::Complete);
        let order: Vec<_> = [before.0, before.1].into_iter().flat_map(BTreeMap::into_values).collect();
        assert_eq!(
            world.evicted_since(began),
            order,
            "the operator must evict each pod once, node by node, and all pods of Open vSwitch before those of OVN"
        );
        assert_eq!(gaps.most().into_values().collect::<Vec<_>>(), [1, 1]);
        let cloud = world.until_ready().await;
        assert_eq!((cloud.status().approval, rollout(&cloud, AGENT).updated), (None, 3));
        // Check only the events about ovn-controller: the second operator wrote them. An event about Open vSwitch may
        // be missing, because the test killed the first operator.
        let batches = event_messages(world, "RolloutBatch").await;
        for (batch, node) in
            ["ovn/ovn-controller 0/3 updated: batch ", "ovn/ovn-controller 1/3 updated: batch "].into_iter().zip(1..)
        {
            assert!(batches.contains(&format!("{batch}node-{node}")), "{batches:?}");
        }
        assert_eq!(event_messages(world, "RolledOut").await.len(), 2, "{:?}", event_messages(world, "RolledOut").await);
    });
}

/// Checks that the operator leaves the replacement of pods to Kubernetes if values set the update strategy
/// `RollingUpdate`.
async fn check_rollout_by_kubernetes(world: &World, rollout_of: &Value) {
    let rolling =
        json!({"pod": {"lifecycle": {"upgrades": {"daemonsets": {"pod_replacement_strategy": "RollingUpdate"}}}}});
    let mut own = spec("3", "2", rollout_of);
    for release in ["openvswitch", "ovn"] {
        own["services"][release]["releases"][release]["values"]["pod"] = rolling["pod"].clone();
    }
    world.apply(&own).await;
    world
        .until("the cloud is Ready, and the status lists no rollout of the operator", |cloud| {
            (cloud.is_ready() && cloud.status().rollouts.is_empty()).then_some(())
        })
        .await;
    world.until_strategy("openvswitch", "RollingUpdate").await;
    world.until_strategy("ovn-controller-default", "RollingUpdate").await;
}

#[test]
fn failing_node_stops_a_rollout() {
    run_test("rollout-stop", async |world| {
        let rollout_of = json!({"approval": "Automatic", "batchSize": "50%", "pauseSeconds": 0});
        let _operator = world.operator().start().await;
        world.apply(&spec("1", "1", &rollout_of)).await;
        world.until_ready().await;
        let (began, before) = (now(), world.pods_by_node(SWITCH).await);
        // Break only the pods that the rollout creates. Each of them has the label `pod-template-generation: 2`,
        // because the rollout replaces the DaemonSet's first pod template with the second one.
        let labels =
            [("component".to_owned(), "server".to_owned()), ("pod-template-generation".to_owned(), "2".to_owned())];
        let broken = Rule { name: None, labels: labels.into(), ..Rule::new(&world.namespace, "", "image-pull-error") };
        world.cluster().behaviour("pull", &broken).await.unwrap();
        let budget = json!({"metadata": {"name": "switches"}, "spec": {"minAvailable": 3, "selector": {"matchLabels": {"component": "server"}}}});
        let budgets = world.api::<PodDisruptionBudget>();
        budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
        world.apply(&spec("2", "1", &rollout_of)).await;
        let is_blocked = |cloud: &OpenStackDeployment| {
            let status = rollout(cloud, SWITCH);
            (status.phase == RolloutPhase::Waiting && status.message.contains(" on node-1 can't be evicted yet: "))
                .then_some(status)
        };
        let status = world.until("a PodDisruptionBudget blocks the eviction on node-1", is_blocked).await;
        assert!(status.message.contains("disruption budget"), "{}", status.message);
        assert_eq!(world.evicted_since(began), [""; 0]);
        budgets.delete("switches", &DeleteParams::default()).await.unwrap();
        let cloud = world.until_rollout(SWITCH, RolloutPhase::Stopped).await;
        let status = rollout(&cloud, SWITCH);
        assert!(
            status.message.starts_with("stopped at node-") && status.message.contains("ImagePullBackOff"),
            "{status:?}"
        );
        let cloud = world.until_reason(reason::UNHEALTHY).await;
        assert_eq!(cloud.condition(condition::ROLLED_OUT).unwrap().reason, reason::ROLLOUT_STOPPED);
        let first: Vec<_> = before.values().take(2).cloned().collect();
        assert_eq!(
            world.evicted_since(began),
            first,
            "the operator must evict the pods of the first batch only: half of three nodes, rounded up"
        );
        assert_eq!(
            world.pods_by_node(SWITCH).await["node-3"],
            before["node-3"],
            "the rollout must stop before node-3, so that node-3 keeps its old pod"
        );
        assert_eq!(event_messages(world, reason::ROLLOUT_STOPPED).await.len(), 1);

        world.cluster().remove_rule("pull").await.unwrap();
        world.until_rollout(SWITCH, RolloutPhase::Complete).await;
        assert_eq!(world.evicted_since(began), before.into_values().collect::<Vec<_>>());
        world.until_ready().await;

        let evicted = world.evicted_since(began);
        check_rollout_by_kubernetes(world, &rollout_of).await;
        assert_eq!(world.evicted_since(began), evicted);
    });
}
