//! Two operators share a Lease: one is active, the other is a standby and takes over.

use std::time::Instant;

use cluster::AuditEntry;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::runtime::wait::await_condition;
use rustix::process::Signal;

use crate::cloud::{StatusAccess, services};
use crate::interrupted::{hang_job, record_status, until_hook};
use crate::operator::Operator;
use crate::pool::SYSTEM;
use crate::world::{World, now, run_test, with_timeout};

/// The hook Job of rabbitmq at which helm waits in these tests.
pub const HOOK: &str = "rabbitmq-cluster-wait";

impl World {
    /// Waits until the operators' Lease satisfies the predicate, and returns its content.
    pub async fn until_lease(&self, what: &str, is: impl Fn(&LeaseSpec) -> bool) -> LeaseSpec {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), SYSTEM.0);
        let fits = |lease: Option<&Lease>| lease.and_then(|lease| lease.spec.as_ref()).is_some_and(&is);
        let found = with_timeout(what, Box::pin(await_condition(api, osdpl_operator::lease::NAME, fits))).await;
        found.unwrap().unwrap().spec.unwrap()
    }

    /// Waits until the operator in this pod holds the Lease.
    pub async fn until_holder(&self, pod: &str) {
        let prefix = format!("{pod}_");
        let is_holder = |lease: &LeaseSpec| lease.holder_identity.as_ref().is_some_and(|id| id.starts_with(&prefix));
        self.until_lease(&format!("{pod} holds the Lease"), is_holder).await;
    }

    /// Returns the writes of the operator in this pod after `since`.
    pub fn writes_of(&self, pod: &str, since: Timestamp) -> Vec<AuditEntry> {
        let agent = format!("({pod})");
        let mut writes = self.writes_since(since);
        writes.retain(|entry| entry.user_agent.ends_with(&agent));
        writes
    }
}

/// Starts an active operator whose helm process waits for a hook, and a standby. Returns both.
async fn start_both(world: &World) -> (Operator, Operator) {
    hang_job(world, HOOK).await;
    let active = world.operator().pod("first").start().await;
    world.apply(&services(&["rabbitmq"])).await;
    until_hook(world, "rabbitmq", HOOK).await;
    let standby = world.operator().pod("second").start().await;
    assert_eq!((active.metric("osdpl_leader", ""), standby.metric("osdpl_leader", "")), (1, 0));
    assert_eq!(active.readiness(), "ok: leader\n");
    assert!(standby.readiness().starts_with("ok: standby"), "{}", standby.readiness());
    (active, standby)
}

/// Whether the process with this ID is running. The result for a zombie is `false`.
pub fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| !fields.trim_start().starts_with(['Z', 'X']))
}

/// Lets the hook end, waits until the cloud is Ready, and checks that the two operators together ran helm twice.
pub async fn finish(world: &World) {
    world.cluster().remove_rule(HOOK).await.unwrap();
    let cloud = world.until_ready().await;
    assert_eq!((cloud.child("rabbitmq").revision, world.helm_runs().len()), (Some(2), 2));
}

#[test]
fn standby_writes_nothing_until_the_active_operator_stops() {
    run_test("standby", async |world| {
        let began = now();
        let (active, standby) = start_both(world).await;
        // Wait until the active operator has renewed the Lease twice. Between two renewals, the standby checks the
        // Lease at least once.
        for _ in 0..2 {
            let renewed = world.until_lease("the Lease exists", |_| true).await.renew_time;
            world.until_lease("the active operator renews the Lease", |lease| lease.renew_time != renewed).await;
        }
        assert_eq!(world.helm_runs().len(), 1, "the standby must not start helm");
        assert_eq!(world.writes_of("second", began), []);
        assert!(!world.writes_of("first", began).is_empty(), "the audit log names the operators");

        let helm = world.helm_runs()[0].pid;
        assert!(active.stop().await.success());
        assert!(!is_running(helm));
        world.until_holder("second").await;
        until_hook(world, "rabbitmq", HOOK).await;
        assert_eq!(standby.metric("osdpl_leader", ""), 1);
        assert_eq!(standby.readiness(), "ok: leader\n");
        finish(world).await;
    });
}

#[test]
fn standby_takes_over_from_a_killed_operator() {
    run_test("takeover", async |world| {
        let (active, _standby) = start_both(world).await;
        active.kill();
        let killed = Instant::now();
        world.until_holder("second").await;
        println!("the standby held the Lease after {:.1} s", killed.elapsed().as_secs_f64());
        let restarted = |cloud: &osdpl_core::api::OpenStackDeployment| cloud.child("rabbitmq").revision == Some(2);
        world.until("the standby starts helm", |cloud| restarted(cloud).then_some(())).await;
        println!("the standby had started helm after {:.1} s", killed.elapsed().as_secs_f64());
        finish(world).await;
    });
}

#[test]
fn frozen_operator_runs_no_helm_and_writes_nothing_after_its_time() {
    run_test("thawed", async |world| {
        let (active, _standby) = start_both(world).await;
        let helm = world.helm_runs()[0].pid;
        active.freeze();
        let frozen = now();
        world.until_holder("second").await;
        assert!(!is_running(helm), "the guard must kill helm before another operator takes the Lease");
        assert_eq!(record_status(world, "rabbitmq", 1).await.as_deref(), Some("pending-install"));
        world
            .until("the standby starts helm", |cloud| (cloud.child("rabbitmq").revision == Some(2)).then_some(()))
            .await;
        until_hook(world, "rabbitmq", HOOK).await;

        // Continue the first operator. It notices that its helm process has ended. If it did not notice that it has
        // lost the Lease, it would install the release again.
        active.signal(Signal::CONT);
        assert!(!active.ended().await.success());
        assert_eq!(world.writes_of("first", frozen), []);
        let log = world.operator_log();
        assert!(log.contains("the operator could not renew its Lease for 10 s"), "{log}");
        finish(world).await;
    });
}
