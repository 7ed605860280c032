//! Three operators, of which the active one fails while its helm process waits for a hook. In one test, the active
//! operator is killed. In another, it is frozen while its pod object is deleted. In the third, its whole node is
//! paused. One of the two standbys must take over, and two helm processes must never work on the release at the same
//! time ([`Recorder::check_no_overlap`]).

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::cloud::{StatusAccess, services};
use crate::helm::Recorder;
use crate::interrupted::{hang_job, until_hook};
use crate::lease::{HOOK, finish, is_running, until_ended};
use crate::operator::Operator;
use crate::pool::SYSTEM;
use crate::sweep::kill::children;
use crate::world::{World, now, run_test};

/// The maximum number of status writes after the active operator has failed, until the cloud is Ready. Each step
/// (takeover, unlock, upgrade, hook, health of the only release) needs a few writes. A loop would write hundreds.
const STATUS_WRITES: usize = 15;

/// The pod objects of a test's three operators.
struct Pods {
    api: Api<Pod>,
    pods: Vec<Pod>,
}

impl Pods {
    /// Creates the pod objects `first`, `second` and `third`. No container runs in them: they exist only
    /// because other operators look for the pod of an operator that has failed. The test starts the operators as
    /// processes of this machine.
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

    /// Deletes a pod object at once, as `kubectl delete pod --force` does. The operator's process continues to run.
    async fn force_delete(&self, index: usize) {
        let deleted = self.api.delete(self.name(index), &DeleteParams::default().grace_period(0)).await;
        drop(deleted.unwrap());
    }
}

/// Starts an active operator, whose helm process waits for a hook, and two standbys. Each standby runs in its own PID
/// namespace: as on another node, it does not see the processes of the active operator.
async fn start_three(world: &World, pods: &Pods) -> [Operator; 3] {
    hang_job(world, HOOK).await;
    let first = world.operator().in_pod(&pods.pods[0]).start().await;
    world.apply(&services(&["rabbitmq"])).await;
    until_hook(world, "rabbitmq", HOOK).await;
    let standby = |index: usize| world.operator().in_pod(&pods.pods[index]).in_own_namespace().start();
    [first, standby(1).await, standby(2).await]
}

/// The times at which a test began, and at which its active operator failed.
struct Failure {
    /// A time before the start of the operators.
    began: Timestamp,
    /// The time of the failure.
    failed: Timestamp,
}

/// Waits until a standby has taken the Lease and started helm. Checks that no operator wrote anything from the failure
/// until the end of the standby's grace period ([`World::check_takeover`]). The helm process of the failed operator is
/// an exception: when it is stopped, it may write its release record.
async fn until_takeover(world: &World, pods: &Pods, failure: &Failure) {
    world.until("a standby starts helm", |cloud| (cloud.child("rabbitmq").revision == Some(2)).then_some(())).await;
    let taken = world.check_takeover(pods.name(0), failure.began);
    let mut writes = world.writes_since(failure.failed);
    writes.retain(|entry| entry.received < taken && !entry.user_agent.starts_with("Helm"));
    assert_eq!(writes, [], "no operator must write before a standby has taken the Lease");
}

/// Waits until one of the two standbys holds the Lease, and returns the identity of this standby.
async fn until_heir(world: &World, pods: &Pods) -> String {
    let is_heir = |holder: &str| (1..3).any(|index| holder.starts_with(pods.name(index)));
    let taken = |lease: &LeaseSpec| lease.holder_identity.as_deref().is_some_and(is_heir);
    world.until_lease("a standby takes the Lease", taken).await.holder_identity.unwrap()
}

/// Lets the hook end, waits until the cloud is Ready, and checks the number of status writes since the failure.
async fn until_finished(world: &World, failure: &Failure) {
    until_hook(world, "rabbitmq", HOOK).await;
    finish(world).await;
    let writes = world.writes_since(failure.failed);
    let written = writes.iter().filter(|entry| entry.subresource == "status").count();
    println!("the operators wrote the status {written} times");
    assert!(written <= STATUS_WRITES, "the operators must not write the status as often as {written} times");
}

/// Checks that the frozen operator in the first pod has ended, and that it has written nothing since it was frozen.
async fn check_ended(world: &World, pods: &Pods, first: Operator, failure: &Failure) {
    assert!(!first.ended().await.success());
    assert_eq!(
        world.writes_of(pods.name(0), failure.failed),
        [],
        "the frozen operator must not write after it continues"
    );
    let log = world.operator_log();
    assert!(log.contains("could not renew its Lease for 10 s") || log.contains("has taken the Lease"), "{log}");
}

#[test]
#[ignore = "takes 40 s: waits until the Lease expires: make faults"]
fn one_of_two_standbys_takes_over_from_a_killed_operator() {
    run_test("heirs", async |world| {
        let (began, pods) = (now(), Pods::create(world).await);
        let [first, second, third] = start_three(world, &pods).await;
        let helm = world.helm_runs()[0].pid;
        let failure = Failure { began, failed: now() };
        first.kill();
        until_heir(world, &pods).await;
        assert!(!is_running(helm), "helm must have ended before a standby takes the Lease");
        until_takeover(world, &pods, &failure).await;
        until_finished(world, &failure).await;
        let leaders = [second, third].map(|operator| operator.metric("osdpl_leader", ""));
        assert_eq!(leaders.iter().sum::<u64>(), 1, "{leaders:?}");
        for index in 0..3 {
            pods.force_delete(index).await;
        }
    });
}

#[test]
#[ignore = "takes 45 s: waits until the Lease expires: make faults"]
fn frozen_operator_without_a_pod_changes_nothing_when_it_continues() {
    run_test("ghost", async |world| {
        let (began, pods) = (now(), Pods::create(world).await);
        let [first, _second, _third] = start_three(world, &pods).await;
        let helm = world.helm_runs()[0].pid;
        first.freeze();
        let failure = Failure { began, failed: now() };
        pods.force_delete(0).await;
        until_heir(world, &pods).await;
        assert!(!is_running(helm), "helm must have ended before a standby takes the Lease");
        until_takeover(world, &pods, &failure).await;

        first.signal(Signal::CONT);
        check_ended(world, &pods, first, &failure).await;
        until_finished(world, &failure).await;
        for index in 1..3 {
            pods.force_delete(index).await;
        }
    });
}

#[test]
#[ignore = "takes 45 s: waits until the Lease expires: make faults"]
fn paused_node_changes_nothing_when_it_continues() {
    run_test("paused", async |world| {
        let (began, pods) = (now(), Pods::create(world).await);
        let [first, _second, _third] = start_three(world, &pods).await;
        // Simulate a pause of the whole node: stop the operator, its helm process, and the guard process, which would
        // kill helm.
        first.freeze();
        let children = children(first.pid());
        let signal = |signal| {
            for pid in &children {
                kill_process(Pid::from_raw(*pid).unwrap(), signal).unwrap();
            }
        };
        signal(Signal::STOP);
        let helm = world.helm_runs()[0].pid;
        assert!(
            children.len() == 2 && children.contains(&helm),
            "the operator must have two children, the guard and helm: {children:?}"
        );
        let failure = Failure { began, failed: now() };
        let heir = until_heir(world, &pods).await;
        until_takeover(world, &pods, &failure).await;
        // When the new operator starts helm, the `Recorder` reports an overlap: the paused helm process still holds its
        // lock, although it can do nothing. When the node continues, the guard kills the paused helm process. Before
        // that, this process may send one last request (`src/operator/lease.rs`: "What the Lease can't prevent").
        assert!(is_running(helm), "the paused helm process must exist: nothing can kill a process on a paused node");
        let second = world.helm_runs()[1].pid;
        let overlaps = Recorder::existing(world.folder.path()).take_overlaps();
        assert_eq!(overlaps, [format!("{second} {}/rabbitmq", world.namespace)]);

        first.signal(Signal::CONT);
        signal(Signal::CONT);
        check_ended(world, &pods, first, &failure).await;
        until_ended("the guard has killed helm and ended", &children).await;
        until_finished(world, &failure).await;
        assert_eq!(until_heir(world, &pods).await, heir, "the new operator must keep the Lease");
        for index in 0..3 {
            pods.force_delete(index).await;
        }
    });
}
