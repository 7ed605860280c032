//! Two operators share a Lease: one is active, the other is a standby and takes over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cluster::AuditEntry;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::await_condition;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::sync::Notify;

use crate::cloud::{StatusAccess, services};
use crate::interrupted::{hang_job, record_status, until_hook};
use crate::operator::Operator;
use crate::pool::SYSTEM;
use crate::proxy::{Answer, Proxy};
use crate::sweep::kill::children;
use crate::world::{World, now, run_test, with_timeout};

/// The hook Job of rabbitmq at which helm waits in these tests.
pub const HOOK: &str = "rabbitmq-cluster-wait";

/// The maximum time from the last renewal by a failed holder until another operator takes the Lease.
const TAKEOVER: SignedDuration = SignedDuration::from_secs(20);

/// The time for which a new holder writes nothing after it took the Lease, see `TAKEOVER_GRACE` in
/// `src/operator/lease/decide.rs`.
const GRACE: SignedDuration = SignedDuration::from_secs(2);

/// The maximum time from the end of an operator until its helm process has ended. The guard kills helm after 3 s; the
/// other 5 s are for a busy machine. Without a signal, helm would still run when a standby takes the Lease, 15 s after
/// the last renewal.
const HELM_END: Duration = Duration::from_secs(8);

/// The maximum number of writes of the status while helm waits for a hook and nothing changes.
const IDLE_WRITES: usize = 2;

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

    /// Waits until the active operator has renewed the Lease.
    pub async fn until_renewal(&self) {
        let renewed = self.until_lease("the Lease exists", |_| true).await.renew_time;
        self.until_lease("the active operator renews the Lease", |lease| lease.renew_time != renewed).await;
    }

    /// Waits until the operator and its helm processes have written nothing between two renewals of the Lease.
    ///
    /// The status of a cloud that is Ready, or whose helm process waits, may still change once more: for example, when
    /// the operator learns that a pod has become ready.
    pub async fn until_quiet(&self) {
        loop {
            let began = now();
            self.until_renewal().await;
            if self.writes_since(began).is_empty() {
                return;
            }
        }
    }

    /// Returns how often operators have taken, renewed or released the Lease after `since`.
    pub fn renewals_since(&self, since: Timestamp) -> usize {
        self.lease_writes_since(since).len()
    }

    /// Returns the successful writes of the operators' Lease after `since`. Ignores failed writes: a standby's write
    /// fails with a conflict if another operator was faster.
    fn lease_writes_since(&self, since: Timestamp) -> Vec<AuditEntry> {
        let mut writes = self.cluster().audit(since).unwrap();
        writes.retain(|entry| writes_lease(entry) && entry.code < 300);
        writes
    }

    /// Returns the time at which the API server first refused a renewal of the Lease by the operator in the pod `first`
    /// after `since`.
    fn refused_renewal(&self, since: Timestamp) -> Timestamp {
        let entries = self.cluster().audit(since).unwrap();
        let is_refusal =
            |entry: &&AuditEntry| writes_lease(entry) && entry.code == 409 && entry.user_agent.ends_with("(first)");
        entries.iter().find(is_refusal).expect("a refused renewal").answered
    }

    /// Returns the writes of the operator in this pod after `since`.
    pub fn writes_of(&self, pod: &str, since: Timestamp) -> Vec<AuditEntry> {
        let agent = format!("({pod})");
        let mut writes = self.writes_since(since);
        writes.retain(|entry| entry.user_agent.ends_with(&agent));
        writes
    }

    /// Checks that a new holder took the Lease soon after the last renewal by the old holder, and that no operator and
    /// no helm process wrote anything in the new holder's grace period. Returns the time at which the API server
    /// received the write that took the Lease.
    ///
    /// The old holder ran in the pod `before`, and started after `began`. Call this function after the first write of
    /// the new holder. All times come from the API server's audit log.
    pub fn check_takeover(&self, before: &str, began: Timestamp) -> Timestamp {
        let agent = format!("({before})");
        let leases = self.lease_writes_since(began);
        let last = leases.iter().rposition(|entry| entry.user_agent.ends_with(&agent)).unwrap();
        let (renewed, taken) = (leases[last].received, &leases[last + 1]);
        let (duration, successor) = (taken.received.duration_since(renewed), &taken.user_agent);
        println!("{successor} took the Lease {duration:#} after the old holder's last renewal");
        assert!(duration <= TAKEOVER, "{successor} took the Lease {duration:#} after the old holder's last renewal");
        // `writes` includes writes by helm, because helm must not write either: the helm processes of the failed
        // operator have ended or are paused.
        let writes = self.writes_since(taken.received);
        let (early, later): (Vec<_>, Vec<_>) =
            writes.into_iter().partition(|entry| entry.received < taken.received + GRACE);
        assert_eq!(early, [], "nobody must write before the end of the grace period");
        assert!(
            later.iter().any(|entry| entry.user_agent == *successor),
            "call this function after the first write of the new holder"
        );
        taken.received
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

/// Waits until these processes have ended. They are not children of the test, so the test can only poll.
pub async fn until_ended(what: &str, processes: &[i32]) {
    let ended = async {
        while processes.iter().any(|process| is_running(*process)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    with_timeout(what, ended).await;
}

/// Lets the hook end, waits until the cloud is Ready, and checks that helm ran twice: once for each of the two
/// operators.
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
        let hanging = now();
        // Give the standby the opportunity to write something: wait until the active operator has renewed the Lease
        // twice. Between two renewals, the standby checks the Lease at least once.
        for _ in 0..2 {
            world.until_renewal().await;
        }
        assert_eq!(world.helm_runs().len(), 1, "the standby must not start helm");
        assert_eq!(world.writes_of("second", began), []);
        assert!(!world.writes_of("first", began).is_empty(), "the audit log must contain the active operator's writes");
        let written = world.status_writes_since(hanging);
        println!("{written} writes of the status while helm waits for the hook");
        assert!(written <= IDLE_WRITES, "{written} writes of the status while helm waits for the hook");

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

/// An operator that can't list all objects could run no pass, so it must leave the Lease to other operators.
#[test]
fn operator_does_not_take_the_lease_before_it_has_listed_all_objects() {
    run_test("unsynced", async |world| {
        let proxy = Proxy::start(world).await;
        let (refused, lease_writes) = (Arc::<Notify>::default(), Arc::<AtomicUsize>::default());
        let (refusing, counter) = (Arc::clone(&refused), Arc::clone(&lease_writes));
        proxy.set_rule(move |request| {
            let path = request.uri.path();
            if request.is_write() && path.contains("/leases") {
                counter.fetch_add(1, Ordering::Relaxed);
            }
            if !path.ends_with("/pods") {
                return Answer::Forward;
            }
            refusing.notify_one();
            Answer::Refuse(503)
        });
        let unsynced = world.operator().pod("unsynced").through(&proxy).spawn();
        with_timeout("the operator lists pods", refused.notified()).await;
        // Nobody holds the Lease yet. If this operator took part in the election, it would take the Lease before
        // another operator can start.
        let active = world.operator().pod("active").start().await;
        let readiness = unsynced.answer("/readyz");
        assert!(readiness.starts_with("HTTP/1.1 503") && readiness.contains("\r\n\r\nsyncing: "), "{readiness}");
        assert_eq!(lease_writes.load(Ordering::Relaxed), 0, "the operator must not write the Lease");
        world.until_holder("active").await;

        // As soon as the operator can list the pods, it takes part in the election.
        proxy.set_rule(|_| Answer::Forward);
        assert!(active.stop().await.success());
        world.until_holder("unsynced").await;
    });
}

#[test]
fn standby_takes_over_from_a_killed_operator() {
    run_test("takeover", async |world| {
        let began = now();
        let (active, _standby) = start_both(world).await;
        active.kill();
        world.until_holder("second").await;
        let restarted = |cloud: &osdpl_core::api::OpenStackDeployment| cloud.child("rabbitmq").revision == Some(2);
        world.until("the standby starts helm", |cloud| restarted(cloud).then_some(())).await;
        world.check_takeover("first", began);
        finish(world).await;
    });
}

#[test]
fn frozen_operator_runs_no_helm_and_writes_nothing_after_its_time() {
    run_test("thawed", async |world| {
        let began = now();
        let (active, _standby) = start_both(world).await;
        let helm = world.helm_runs()[0].pid;
        active.freeze();
        let frozen = now();
        world.until_holder("second").await;
        assert!(!is_running(helm), "the guard process must kill helm before another operator takes the Lease");
        assert_eq!(record_status(world, "rabbitmq", 1).await.as_deref(), Some("pending-install"));
        world
            .until("the standby starts helm", |cloud| (cloud.child("rabbitmq").revision == Some(2)).then_some(()))
            .await;
        world.check_takeover("first", began);
        until_hook(world, "rabbitmq", HOOK).await;

        // Continue the first operator, whose helm process has ended in the meantime. The operator must notice that it
        // has lost the Lease. Otherwise it would install the release again.
        active.signal(Signal::CONT);
        assert!(!active.ended().await.success());
        assert_eq!(world.writes_of("first", frozen), []);
        let log = world.operator_log();
        assert!(log.contains("the operator could not renew its Lease for 10 s"), "{log}");
        finish(world).await;
    });
}

/// Whether the request is a write of the operators' Lease.
fn writes_lease(entry: &AuditEntry) -> bool {
    let object = (entry.resource.as_str(), entry.namespace.as_str(), entry.name.as_str());
    entry.is_write() && object == ("leases", SYSTEM.0, osdpl_operator::lease::NAME)
}

/// Waits until the active operator has ended with `message` in its log, and the standby has taken the Lease. Checks
/// that helm ends at once with the active operator, and that both have written nothing after the active operator
/// noticed the loss of the Lease or of the guard: `noticed` returns this time after the operator has ended. helm may
/// mark its release record as failed before it ends.
async fn check_succession(world: &World, active: Operator, message: &str, noticed: impl Fn() -> Timestamp) {
    let helm = world.helm_runs()[0].pid;
    assert!(!active.ended().await.success());
    let log = world.operator_log();
    assert!(log.contains(message), "{log}");
    let stopped = tokio::time::timeout(HELM_END, until_ended("helm has ended", &[helm])).await;
    assert!(stopped.is_ok(), "helm must end at once with its operator");
    let noticed = noticed();
    let mut writes = world.writes_since(noticed);
    let is_record = |entry: &AuditEntry| entry.resource == "secrets" && entry.name == "sh.helm.release.v1.rabbitmq.v1";
    writes.retain(|entry| !(entry.user_agent.starts_with("Helm/") && is_record(entry)));
    assert_eq!(writes, [], "an operator that has lost the Lease and its helm process must write nothing");
    world.until_holder("second").await;
    assert_eq!(world.writes_of("first", noticed), []);
    until_hook(world, "rabbitmq", HOOK).await;
    finish(world).await;
}

#[test]
fn healthy_operator_ends_if_another_process_takes_its_lease() {
    run_test("robbed", async |world| {
        let (active, _standby) = start_both(world).await;
        let lost = now();
        let taken = Patch::Merge(json!({"spec": {"holderIdentity": "robber"}}));
        let leases: Api<Lease> = Api::namespaced(world.client.clone(), SYSTEM.0);
        leases.patch(osdpl_operator::lease::NAME, &PatchParams::default(), &taken).await.unwrap();
        // The operator notices the loss when the API server refuses to renew the Lease.
        let noticed = || world.refused_renewal(lost);
        check_succession(world, active, "robber has taken the Lease from this operator", noticed).await;
    });
}

#[test]
fn operator_ends_with_helm_if_its_guard_is_killed() {
    run_test("unguarded", async |world| {
        let (active, _standby) = start_both(world).await;
        let helm = world.helm_runs()[0].pid;
        let guards: Vec<_> = children(active.pid()).into_iter().filter(|child| *child != helm).collect();
        let [guard] = guards[..] else { panic!("the operator must have two children, the guard and helm: {guards:?}") };
        world.until_quiet().await;
        let lost = now();
        kill_process(Pid::from_raw(guard).unwrap(), Signal::KILL).unwrap();
        check_succession(
            world,
            active,
            "the guard process, which kills helm if the operator hangs, has ended; the operator ends",
            || lost,
        )
        .await;
    });
}
