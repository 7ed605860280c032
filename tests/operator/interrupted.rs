//! An install is interrupted: the operator or helm is killed, the operator is stopped, or the API server is killed or
//! frozen. The same operator or the next one completes the install.

use std::time::{Duration, Instant};

use cluster::{Component, Rule};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use rustix::process::Signal;
use serde_json::json;

use crate::cloud::{StatusAccess, services};
use crate::lease::until_ended;
use crate::operator::Operator;
use crate::world::{World, run_test, with_timeout};

/// The Secrets for Keystone's Fernet and credential keys. Keystone's pre-install hooks create them without keys. The
/// Jobs of its post-install hooks write the keys into these Secrets and use them.
pub const KEYS: [&str; 2] = ["keystone-fernet-keys", "keystone-credential-keys"];

/// Keeps the pods of a hook Job running, so that helm waits for the hook.
pub async fn hang_job(world: &World, job: &str) {
    world.cluster().behaviour(job, &Rule::new(&world.namespace, job, "hang")).await.unwrap();
}

/// Waits until the status reports that helm waits for this hook Job of the release.
pub async fn until_hook(world: &World, release: &str, job: &str) {
    let what = format!("helm waits for {job}");
    let is_at_job = |hook: Option<String>| hook.is_some_and(|hook| hook.contains(job));
    world.until(&what, |cloud| is_at_job(cloud.child(release).hook).then_some(())).await;
}

/// Kills helm and the operator with SIGKILL. Freezes the operator first, so that it does not notice that helm was
/// killed.
fn kill_both(world: &World, operator: Operator) {
    let helm = world.helm_runs().pop().unwrap();
    operator.freeze();
    helm.signal(Signal::KILL);
    operator.kill();
}

pub async fn record_status(world: &World, release: &str, revision: u32) -> Option<String> {
    let name = format!("sh.helm.release.v1.{release}.v{revision}");
    let record = world.api::<Secret>().get_opt(&name).await.unwrap();
    record.and_then(|record| record.labels().get("status").cloned())
}

/// Writes a key into one of the Secrets in `KEYS`, in place of upstream's Job. Returns the Secret's uid and content.
pub async fn fill(
    world: &World,
    name: &str,
) -> (Option<String>, Option<std::collections::BTreeMap<String, ByteString>>) {
    let patch = Patch::Merge(json!({"data": {"0": "a2V5"}}));
    let filled = world.api::<Secret>().patch(name, &PatchParams::default(), &patch).await.unwrap();
    (filled.uid(), filled.data)
}

/// Kills helm and the operator twice, and checks that the third operator completes the install and keeps Keystone's
/// keys.
///
/// The first kill is during the install, before hook Jobs have filled the Secrets for the keys. The second operator
/// continues the install with `helm upgrade`. The second kill is after half of the hooks of this upgrade.
fn check_recovery_after_two_kills(name: &str, helm: u8) {
    run_test(name, async |world| {
        hang_job(world, "keystone-fernet-setup").await;
        let operator = world.operator().helm(helm).start().await;
        world.apply(&world.keystone().await).await;
        until_hook(world, "keystone", "keystone-fernet-setup").await;
        let credentials = world.all_credentials().await;
        kill_both(world, operator);
        assert_eq!(record_status(world, "keystone", 1).await.as_deref(), Some("pending-install"));

        hang_job(world, "keystone-db-sync").await;
        world.cluster().remove_rule("keystone-fernet-setup").await.unwrap();
        let operator = world.operator().helm(helm).start().await;
        until_hook(world, "keystone", "keystone-db-sync").await;
        let mut keys = Vec::new();
        for secret in KEYS {
            keys.push(fill(world, secret).await);
        }
        kill_both(world, operator);
        assert_eq!(record_status(world, "keystone", 2).await.as_deref(), Some("pending-upgrade"));

        world.cluster().remove_rule("keystone-db-sync").await.unwrap();
        let _operator = world.operator().helm(helm).start().await;
        world.until_ready().await;
        for (secret, (uid, data)) in KEYS.iter().zip(keys) {
            let found = world.api::<Secret>().get(secret).await.unwrap();
            assert_eq!((found.uid(), found.data), (uid, data), "{secret}");
        }
        assert_eq!(world.all_credentials().await, credentials);
        assert_eq!(record_status(world, "keystone", 3).await.as_deref(), Some("deployed"));
        assert!(
            world.helm_runs().iter().all(|run| run.verb() == "upgrade"),
            "the recovery must not uninstall a release"
        );
    });
}

#[test]
fn killed_install_continues_and_keeps_keys() {
    check_recovery_after_two_kills("killed", 4);
}

#[test]
fn killed_install_with_helm_3_continues_and_keeps_keys() {
    check_recovery_after_two_kills("killed-helm3", 3);
}

#[test]
fn restarts_helm_after_it_was_killed() {
    run_test("dead-helm", async |world| {
        hang_job(world, "rabbitmq-cluster-wait").await;
        let operator = world.operator().start().await;
        world.apply(&services(&["rabbitmq"])).await;
        until_hook(world, "rabbitmq", "rabbitmq-cluster-wait").await;

        // Kill helm with SIGKILL, as the kernel's out-of-memory killer would.
        world.helm_runs()[0].signal(Signal::KILL);
        world
            .until("helm installs revision 2", |cloud| (cloud.child("rabbitmq").revision == Some(2)).then_some(()))
            .await;
        assert_eq!(record_status(world, "rabbitmq", 1).await.as_deref(), Some("failed"));

        // When the operator is killed, its helm process ends, too, and leaves a pending or failed record. The next
        // operator must recover in both cases.
        until_hook(world, "rabbitmq", "rabbitmq-cluster-wait").await;
        operator.kill();
        world.cluster().remove_rule("rabbitmq-cluster-wait").await.unwrap();
        let _operator = world.operator().start().await;
        let cloud = world.until_ready().await;
        assert_eq!((cloud.child("rabbitmq").revision, world.helm_runs().len()), (Some(3), 3));
    });
}

#[test]
fn stopping_leaves_no_helm_and_no_pending_record() {
    run_test("shutdown", async |world| {
        hang_job(world, "rabbitmq-cluster-wait").await;
        let operator = world.operator().start().await;
        world.apply(&services(&["rabbitmq"])).await;
        until_hook(world, "rabbitmq", "rabbitmq-cluster-wait").await;
        assert!(operator.stop().await.success());
        assert_eq!(record_status(world, "rabbitmq", 1).await.as_deref(), Some("failed"));
        world.cluster().remove_rule("rabbitmq-cluster-wait").await.unwrap();
        let _operator = world.operator().start().await;
        assert_eq!(world.until_ready().await.child("rabbitmq").revision, Some(2));
    });
}

#[test]
fn stops_a_pass_that_waits_for_a_frozen_api_server() {
    run_test("frozen", async |world| {
        hang_job(world, "rabbitmq-cluster-wait").await;
        let operator = world.operator().arguments(&["--pass-timeout", "1"]).start().await;
        world.apply(&services(&["rabbitmq"])).await;
        until_hook(world, "rabbitmq", "rabbitmq-cluster-wait").await;
        world.cluster().freeze(Component::Apiserver).await.unwrap();
        // Kill helm. The operator then starts a pass, which waits for the frozen API server.
        world.helm_runs().last().unwrap().signal(Signal::KILL);
        let failed = async {
            while operator.metric("osdpl_reconcile_failures_total", "") == 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        with_timeout("a pass fails although no request ends", failed).await;
        let frozen_age = operator.last_reconcile_age();
        let next_failed = async {
            let failures = operator.metric("osdpl_reconcile_failures_total", "");
            while operator.metric("osdpl_reconcile_failures_total", "") == failures {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        with_timeout("another pass fails", next_failed).await;
        let older_age = operator.last_reconcile_age();
        assert!(older_age > frozen_age, "a failed pass must not count as complete: {frozen_age}, {older_age}");
        assert!(world.operator_log().contains("the API server did not respond in time"), "{}", world.operator_log());
        let thawed = Instant::now();
        world.cluster().thaw(Component::Apiserver).await.unwrap();
        world.cluster().remove_rule("rabbitmq-cluster-wait").await.unwrap();
        world.until_ready().await;
        // The operator logs this error when it counts the failure, which needs a response of the API server.
        let log = world.operator_log();
        assert!(log.contains("helm was ended by signal 9"), "the failure must count although passes failed: {log}");
        let falls = async {
            while operator.last_reconcile_age() > thawed.elapsed().as_secs_f64() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        with_timeout("a pass is complete", falls).await;
    });
}

#[test]
fn ends_with_helm_if_the_api_server_is_lost_during_an_install() {
    run_test("apiserver", async |world| {
        hang_job(world, "rabbitmq-cluster-wait").await;
        let operator = world.operator().start().await;
        world.apply(&services(&["rabbitmq"])).await;
        until_hook(world, "rabbitmq", "rabbitmq-cluster-wait").await;
        world.allow_errors();
        world.cluster().kill(Component::Apiserver).await.unwrap();
        // The operator must exit while the API server is still down, because another operator could take the Lease as
        // soon as the API server runs again.
        let helm = world.helm_runs().iter().map(|run| run.pid).collect::<Vec<_>>();
        assert!(!operator.ended().await.success());
        let log = world.operator_log();
        assert!(log.contains("the operator could not renew its Lease for 10 s"), "{log}");
        until_ended("helm has ended", &helm).await;
        world.cluster().restart(Component::Apiserver).await.unwrap();
        world.cluster().remove_rule("rabbitmq-cluster-wait").await.unwrap();
        let _operator = world.operator().start().await;
        world.until_ready().await;
    });
}
