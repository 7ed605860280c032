//! Three operators during a hook that hangs: the active one is killed, or frozen while its pod object is deleted. One of
//! the two standbys takes over, and helm never runs twice for the release ([`Recorder::check_no_overlap`]).
//!
//! [`Recorder::check_no_overlap`]: crate::helm::Recorder::check_no_overlap

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use rustix::process::Signal;
use serde_json::json;

use crate::cloud::{StatusAccess, services};
use crate::interrupted::{hang_job, until_hook};
use crate::lease::{HOOK, finish, is_running};
use crate::operator::Operator;
use crate::pool::SYSTEM;
use crate::world::{World, now, run_test};

/// The most writes of the status from the failure of the active operator until the cloud is Ready: a few for each of
/// the steps takeover, unlock, upgrade, hook and health of the only release. A loop would write hundreds.
const STATUS_WRITES: usize = 40;

/// The pods of a test's operators.
struct Pods {
    api: Api<Pod>,
    pods: Vec<Pod>,
}

impl Pods {
    /// Creates the pods `first`, `second` and `third`. The processes of the operators run outside of them.
    async fn create(world: &World) -> Self {
        let api: Api<Pod> = Api::namespaced(world.client.clone(), SYSTEM.0);
        let mut pods = Vec::new();
        for name in ["first", "second", "third"] {
            let containers = json!([{"name": "osdpl", "image": "example.org/osdpl:1"}]);
            let metadata = json!({"name": format!("{}-{name}", world.namespace)});
            let pod = json!({"metadata": metadata, "spec": {"containers": containers}});
            pods.push(api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap());
        }
        Self { api, pods }
    }

    fn name(&self, index: usize) -> &str {
        self.pods[index].metadata.name.as_deref().unwrap()
    }

    /// Deletes a pod object at once, as `kubectl delete pod --force` does. Its process does not notice.
    async fn force_delete(&self, index: usize) {
        let deleted = self.api.delete(self.name(index), &DeleteParams::default().grace_period(0)).await;
        drop(deleted.unwrap());
    }
}

/// Starts an operator whose helm process waits for a hook, and two standbys.
async fn start_three(world: &World, pods: &Pods) -> [Operator; 3] {
    hang_job(world, HOOK).await;
    let first = world.operator().in_pod(&pods.pods[0]).start().await;
    world.apply(&services(&["rabbitmq"])).await;
    until_hook(world, "rabbitmq", HOOK).await;
    let second = world.operator().in_pod(&pods.pods[1]).start().await;
    [first, second, world.operator().in_pod(&pods.pods[2]).start().await]
}

/// Waits until a standby has taken the Lease, and checks that nobody wrote anything between the failure and this time.
/// helm itself may have written its record when it was stopped.
async fn until_takeover(world: &World, pods: &Pods, failed: Timestamp) {
    let is_other = |holder: &str| (1..3).any(|index| holder.starts_with(pods.name(index)));
    let lease = world
        .until_lease("a standby takes the Lease", |lease| lease.holder_identity.as_deref().is_some_and(is_other))
        .await;
    let (helm, taken) = (world.helm_runs()[0].pid, lease.acquire_time.unwrap().0);
    assert!(!is_running(helm), "helm must have ended before a standby takes the Lease");
    let mut writes = world.writes_since(failed);
    writes.retain(|entry| entry.received < taken && !entry.user_agent.starts_with("Helm"));
    assert_eq!(writes, [], "nobody writes before a standby has taken the Lease");
}

/// Waits until the standby has started helm, lets the hook end, and checks the number of writes of the status.
async fn until_finished(world: &World, failed: Timestamp) {
    world.until("a standby starts helm", |cloud| (cloud.child("rabbitmq").revision == Some(2)).then_some(())).await;
    until_hook(world, "rabbitmq", HOOK).await;
    finish(world).await;
    let writes = world.writes_since(failed);
    let written = writes.iter().filter(|entry| entry.subresource == "status").count();
    println!("the operators wrote the status {written} times");
    assert!(written <= STATUS_WRITES, "the operators wrote the status {written} times");
}

#[test]
#[ignore = "takes 40 s: waits for the end of the Lease: make faults"]
fn one_of_two_standbys_takes_over_from_a_killed_operator() {
    run_test("heirs", async |world| {
        let pods = Pods::create(world).await;
        let [first, second, third] = start_three(world, &pods).await;
        let failed = now();
        first.kill();
        until_takeover(world, &pods, failed).await;
        until_finished(world, failed).await;
        let leaders = [second, third].map(|operator| operator.metric("osdpl_leader", ""));
        assert_eq!(leaders.iter().sum::<u64>(), 1, "{leaders:?}");
        for index in 0..3 {
            pods.force_delete(index).await;
        }
    });
}

#[test]
#[ignore = "takes 45 s: waits for the end of the Lease: make faults"]
fn frozen_operator_without_a_pod_changes_nothing_when_it_continues() {
    run_test("ghost", async |world| {
        let pods = Pods::create(world).await;
        let [first, _second, _third] = start_three(world, &pods).await;
        first.freeze();
        let failed = now();
        pods.force_delete(0).await;
        until_takeover(world, &pods, failed).await;
        world.until("a standby starts helm", |cloud| (cloud.child("rabbitmq").revision == Some(2)).then_some(())).await;

        first.signal(Signal::CONT);
        assert!(!first.ended().await.success());
        assert_eq!(world.writes_of(pods.name(0), failed), [], "the frozen operator writes nothing");
        let log = world.operator_log();
        assert!(log.contains("could not renew its Lease for 10 s") || log.contains("has taken the Lease"), "{log}");
        until_finished(world, failed).await;
        for index in 1..3 {
            pods.force_delete(index).await;
        }
    });
}
