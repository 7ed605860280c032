//! The operator's wall clock is wrong by an hour, or is corrected by an hour. The Lease, the locks of release records,
//! backoffs and the grace period of nodes must not depend on the wall clock.

use cluster::Rule;
use k8s_openapi::api::core::v1::{Event, Node, Secret};
use k8s_openapi::jiff::SignedDuration;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use osdpl_core::api::{OpenStackDeployment, RolloutPhase, reason};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::libc::Libc;
use crate::cloud::{StatusAccess, services, with_values};
use crate::interrupted::{hang_job, until_hook};
use crate::world::{World, now, run_test};

const HOUR: i64 = 3600;

/// The hook Job of rabbitmq for which helm waits in these tests.
const HOOK: &str = "rabbitmq-cluster-wait";

/// The number of Lease renewals for which the test waits. A standby that did not notice these renewals would take the
/// Lease within this time.
const RENEWALS: usize = 9;

/// Installs a cloud with an active operator whose clock is wrong by `offset`, and a standby whose clock is wrong by
/// `-offset`. Checks that the standby takes the Lease only when the active operator is dead.
fn check_wrong_clock(name: &str, offset: i64) {
    run_test(name, async |world| {
        let began = now();
        let (libc, other) = (Libc::new(world, "first"), Libc::new(world, "second"));
        libc.set_clock_offset(offset);
        other.set_clock_offset(-offset);
        hang_job(world, HOOK).await;
        let active = world.operator().pod("first").libc(&libc).start().await;
        world.apply(&services(&["mariadb", "rabbitmq"])).await;
        until_hook(world, "rabbitmq", HOOK).await;
        let standby = world.operator().pod("second").libc(&other).start().await;
        for _ in 0..RENEWALS {
            let renewed = world.until_lease("the Lease exists", |_| true).await.renew_time;
            let error = renewed.as_ref().unwrap().0.duration_since(now()) - SignedDuration::from_secs(offset);
            assert!(error.abs() < SignedDuration::from_mins(5), "the operator must have the wrong clock: {renewed:?}");
            world.until_lease("the active operator renews the Lease", |lease| lease.renew_time != renewed).await;
        }
        world.until_holder("first").await;
        assert_eq!((world.helm_runs().len(), active.metric("osdpl_leader", "")), (2, 1));

        // Kill helm. Its failure causes a backoff, whose length must not depend on the wrong clock.
        world.helm_runs().iter().find(|run| run.release() == "rabbitmq").unwrap().signal(Signal::KILL);
        until_revision(world, "rabbitmq", 2).await;
        until_hook(world, "rabbitmq", HOOK).await;
        active.kill();
        world.until_holder("second").await;
        world.cluster().remove_rule(HOOK).await.unwrap();
        world.until_ready().await;
        assert!(world.helm_runs().len() <= 4, "{:#?}", world.helm_runs());
        let writes = world.status_writes_since(began);
        assert!(writes <= 60, "{writes} writes of the status");
        drop(standby);
    });
}

async fn until_revision(world: &World, release: &str, revision: i64) {
    let is_started = |cloud: &OpenStackDeployment| (cloud.child(release).revision == Some(revision)).then_some(());
    world.until(&format!("helm makes revision {revision} of {release}"), is_started).await;
}

#[test]
#[ignore = "takes a minute: make faults"]
fn cloud_converges_with_a_clock_that_is_ahead() {
    check_wrong_clock("clock-ahead", HOUR);
}

#[test]
#[ignore = "takes a minute: make faults"]
fn cloud_converges_with_a_clock_that_is_behind() {
    check_wrong_clock("clock-behind", -HOUR);
}

#[test]
fn corrected_clock_does_not_prolong_a_backoff() {
    run_test("clock-step", async |world| {
        let libc = Libc::new(world, "operator");
        libc.set_clock_offset(HOUR);
        hang_job(world, HOOK).await;
        let mut operator = world.operator().libc(&libc).start().await;
        world.apply(&services(&["mariadb", "rabbitmq"])).await;
        until_hook(world, "rabbitmq", HOOK).await;
        world.helm_runs().iter().find(|run| run.release() == "rabbitmq").unwrap().signal(Signal::KILL);
        let has_failed =
            |cloud: &OpenStackDeployment| cloud.child("rabbitmq").message.contains("next try at").then_some(());
        world.until("the operator waits before it retries", has_failed).await;
        // The wall clock goes back by an hour. The backoff must not become longer, and the operator must keep the
        // Lease.
        libc.set_clock_offset(0);
        until_revision(world, "rabbitmq", 2).await;
        until_hook(world, "rabbitmq", HOOK).await;
        libc.set_clock_offset(HOUR);
        world.cluster().remove_rule(HOOK).await.unwrap();
        world.until_ready().await;
        libc.set_clock_offset(-HOUR);
        let changed = json!({"conf": {"database": {"my": "# changed"}}});
        world.apply(&with_values(services(&["mariadb", "rabbitmq"]), "mariadb", changed)).await;
        world.until_ready().await;
        assert!(!operator.has_ended(), "a step of the wall clock must not end the operator");
        assert_eq!(world.helm_runs().len(), 4);
    });
}

/// Writes a release record that says that someone else's helm process is upgrading memcached. No such process exists,
/// so the record locks memcached until the test deletes it.
async fn lock_memcached(world: &World) {
    let secrets = world.api::<Secret>();
    let mut record = secrets.get("sh.helm.release.v1.memcached.v1").await.unwrap();
    let metadata = &mut record.metadata;
    (metadata.uid, metadata.resource_version, metadata.managed_fields) = (None, None, None);
    metadata.name = Some(LOCK.to_owned());
    record.labels_mut().extend([("version", "2"), ("status", "pending-upgrade")].map(|(k, v)| (k.into(), v.into())));
    secrets.create(&PostParams::default(), &record).await.unwrap();
}

const LOCK: &str = "sh.helm.release.v1.memcached.v2";

/// Changes the spec, and waits until the operator reports that someone else's helm process has locked memcached.
async fn until_locked(world: &World, spec: &Value) {
    let generation = world.apply(spec).await.metadata.generation;
    let is_locked = |cloud: &OpenStackDeployment| {
        let is_observed = cloud.status().observed_generation == generation;
        (is_observed && cloud.child("memcached").message.contains("revision 2 is pending-upgrade, so osdpl waits"))
            .then_some(())
    };
    world.until("memcached is locked", is_locked).await;
}

#[test]
fn wrong_clock_does_not_break_the_lock_of_another_helm_process() {
    run_test("clock-lock", async |world| {
        let libc = Libc::new(world, "operator");
        libc.set_clock_offset(HOUR);
        let _operator = world.operator().libc(&libc).start().await;
        let mut spec = services(&["mariadb", "memcached"]);
        world.apply(&spec).await;
        world.until_ready().await;
        lock_memcached(world).await;
        // Wait until the operator has read the locked record. An operator that had not read it would start an upgrade,
        // which helm would refuse.
        until_revision(world, "memcached", 2).await;
        // The operator regards a lock as abandoned if it has not changed for half an hour. When the wall clock steps by
        // an hour, the lock must not seem to be that old.
        for (connections, offset) in [(2048, HOUR), (2049, 2 * HOUR), (2050, 0), (2051, -HOUR)] {
            libc.set_clock_offset(offset);
            spec = with_values(spec, "memcached", json!({"conf": {"memcached": {"max_connections": connections}}}));
            until_locked(world, &spec).await;
        }
        let runs = world.helm_runs();
        assert_eq!(runs.len(), 2, "{runs:#?}");
        world.api::<Secret>().delete(LOCK, &DeleteParams::default()).await.unwrap();
        assert_eq!(world.until_ready().await.child("memcached").revision, Some(2));
    });
}

/// Checks that the status reports a lost node after the grace period, although the operator's clock is wrong.
fn check_lost_node(name: &str, offset: i64) {
    run_test(name, async |world| {
        let libc = Libc::new(world, "operator");
        libc.set_clock_offset(offset);
        let _operator = world.operator().arguments(&["--node-grace", "2"]).libc(&libc).start().await;
        world.apply(&services(&["openvswitch"])).await;
        world.until_ready().await;
        let nodes: Api<Node> = Api::all(world.client.clone());
        let node = nodes.list(&ListParams::default()).await.unwrap().items.remove(0).name_any();
        world.label_node(&node, "kwok.osdpl.dev/ready", json!("false")).await;
        world.until_reason_contains("openvswitch", "server", &format!("node {node} is NotReady")).await;
        world.label_node(&node, "kwok.osdpl.dev/ready", json!(null)).await;
        let is_healthy = |cloud: &OpenStackDeployment| (cloud.condition("Degraded")?.status == "False").then_some(());
        world.until("the node is back", is_healthy).await;
    });
}

#[test]
fn reports_a_lost_node_with_a_clock_that_is_behind() {
    check_lost_node("clock-node", -HOUR);
}

#[test]
fn starting_pods_do_not_stop_a_rollout_with_a_clock_that_is_ahead() {
    run_test("clock-rollout", async |world| {
        let libc = Libc::new(world, "operator");
        libc.set_clock_offset(HOUR);
        let _operator = world.operator().libc(&libc).start().await;
        let mut spec = services(&["openvswitch"]);
        spec["nodes"] = json!({"rollout": {"approval": "Automatic", "pauseSeconds": 0}});
        world.apply(&spec).await;
        world.until_ready().await;
        // A rollout stops if a new pod takes too long to start. The pods in this test need only 2 s. Even with the
        // wrong clock, this time must not seem too long.
        let slow =
            Rule { behaviour: None, delay: Some("2s".into()), ..Rule::new(&world.namespace, "openvswitch-", "") };
        world.cluster().behaviour("slow", &slow).await.unwrap();
        let tags = json!({"images": {"tags": {"openvswitch_vswitchd": "example.org/openvswitch_vswitchd:2"}}});
        world.apply(&with_values(spec, "openvswitch", tags)).await;
        let is_complete = |cloud: &OpenStackDeployment| {
            let status = cloud.status().rollouts.get("openvswitch/server").cloned().unwrap_or_default();
            (status.phase == RolloutPhase::Complete && status.updated == 3).then_some(())
        };
        world.until("the rollout is complete", is_complete).await;
        let events = world.api::<Event>().list(&ListParams::default()).await.unwrap();
        let stopped: Vec<_> =
            events.items.into_iter().filter(|event| event.reason.as_deref() == Some(reason::ROLLOUT_STOPPED)).collect();
        assert!(stopped.is_empty(), "{stopped:?}");
    });
}
