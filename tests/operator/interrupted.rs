//! What is killed in the middle of its work, and what becomes of it.

use cluster::{Component, Rule};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use rustix::process::Signal;
use serde_json::json;

use crate::cloud::{Told, services};
use crate::operator::Operator;
use crate::world::{World, story};

/// Keystone, and what its pods wait for. Pre-install hooks make empty key Secrets, post-install hooks fill and use them.
const KEYSTONE: [&str; 4] = ["keystone", "mariadb", "memcached", "rabbitmq"];

/// Upstream's key Secrets, empty until Jobs fill them.
const KEYS: [&str; 2] = ["keystone-fernet-keys", "keystone-credential-keys"];

/// Holds the pods of a Job.
async fn hold(world: &World, job: &str) {
    world.cluster().behaviour(job, &Rule::new(&world.namespace, job, "hang")).await.unwrap();
}

/// Waits until helm waits for a Job of a release.
async fn until_hook(world: &World, release: &str, job: &str) {
    let what = format!("helm waits for {job}");
    let at = |hook: Option<String>| hook.is_some_and(|hook| hook.contains(job));
    world.until(&what, |cloud| at(cloud.child(release).hook).then_some(())).await;
}

/// SIGKILL for helm and operator, and neither has time for a last word: an operator that stands still does not see that its helm dies.
fn kill_both(world: &World, operator: Operator) {
    let helm = world.helm_runs().pop().unwrap();
    operator.freeze();
    helm.signal(Signal::KILL);
    operator.kill();
}

async fn record_status(world: &World, release: &str, revision: u32) -> Option<String> {
    let name = format!("sh.helm.release.v1.{release}.v{revision}");
    let record = world.api::<Secret>().get_opt(&name).await.unwrap();
    record.and_then(|record| record.labels().get("status").cloned())
}

/// Fills a key Secret, as upstream's Jobs do; who it is and what it holds.
async fn fill(world: &World, name: &str) -> (Option<String>, Option<std::collections::BTreeMap<String, ByteString>>) {
    let patch = Patch::Merge(json!({"data": {"0": "a2V5"}}));
    let filled = world.api::<Secret>().patch(name, &PatchParams::default(), &patch).await.unwrap();
    (filled.uid(), filled.data)
}

/// A first install is killed before its keys are filled, and what mends it is killed again with half of the hooks done.
fn killed_twice(name: &str, helm: u8) {
    story(name, async |world| {
        hold(world, "keystone-fernet-setup").await;
        let operator = world.operator().helm(helm).start().await;
        world.apply(&services(&KEYSTONE)).await;
        until_hook(world, "keystone", "keystone-fernet-setup").await;
        let credentials = world.all_credentials().await;
        kill_both(world, operator);
        assert_eq!(record_status(world, "keystone", 1).await.as_deref(), Some("pending-install"));

        hold(world, "keystone-db-sync").await;
        world.cluster().mend("keystone-fernet-setup").await.unwrap();
        let operator = world.operator().helm(helm).start().await;
        until_hook(world, "keystone", "keystone-db-sync").await;
        let mut keys = Vec::new();
        for secret in KEYS {
            keys.push(fill(world, secret).await);
        }
        kill_both(world, operator);
        assert_eq!(record_status(world, "keystone", 2).await.as_deref(), Some("pending-upgrade"));

        world.cluster().mend("keystone-db-sync").await.unwrap();
        let _operator = world.operator().helm(helm).start().await;
        world.until_ready().await;
        for (secret, (uid, data)) in KEYS.iter().zip(keys) {
            let found = world.api::<Secret>().get(secret).await.unwrap();
            assert_eq!((found.uid(), found.data), (uid, data), "{secret}");
        }
        assert_eq!(world.all_credentials().await, credentials);
        assert_eq!(record_status(world, "keystone", 3).await.as_deref(), Some("deployed"));
        assert!(world.helm_runs().iter().all(|run| run.verb() == "upgrade"), "nothing is uninstalled to mend it");
    });
}

#[test]
fn an_install_whose_operator_and_helm_are_killed_goes_on_and_keeps_its_keys() {
    killed_twice("killed", 4);
}

#[test]
fn with_helm_3_too_a_killed_install_goes_on_and_keeps_its_keys() {
    killed_twice("killed-helm3", 3);
}

#[test]
fn a_helm_that_dies_alone_or_with_its_operator_is_followed_by_another() {
    story("dead-helm", async |world| {
        hold(world, "rabbitmq-cluster-wait").await;
        let operator = world.operator().start().await;
        world.apply(&services(&["rabbitmq"])).await;
        until_hook(world, "rabbitmq", "rabbitmq-cluster-wait").await;

        // As the kernel does when memory is short.
        world.helm_runs()[0].signal(Signal::KILL);
        world.until("helm is at revision 2", |cloud| (cloud.child("rabbitmq").revision == Some(2)).then_some(())).await;
        assert_eq!(record_status(world, "rabbitmq", 1).await.as_deref(), Some("failed"));

        // It hears of its operator's end, and ends; it may or may not find the time to say so in its record.
        until_hook(world, "rabbitmq", "rabbitmq-cluster-wait").await;
        operator.kill();
        world.cluster().mend("rabbitmq-cluster-wait").await.unwrap();
        let _operator = world.operator().start().await;
        let cloud = world.until_ready().await;
        assert_eq!((cloud.child("rabbitmq").revision, world.helm_runs().len()), (Some(3), 3));
    });
}

#[test]
fn an_operator_that_is_told_to_end_leaves_no_helm_and_no_pending_record() {
    story("shutdown", async |world| {
        hold(world, "rabbitmq-cluster-wait").await;
        let operator = world.operator().start().await;
        world.apply(&services(&["rabbitmq"])).await;
        until_hook(world, "rabbitmq", "rabbitmq-cluster-wait").await;
        assert!(operator.stop().await.success());
        assert_eq!(record_status(world, "rabbitmq", 1).await.as_deref(), Some("failed"));
        world.cluster().mend("rabbitmq-cluster-wait").await.unwrap();
        let _operator = world.operator().start().await;
        assert_eq!(world.until_ready().await.child("rabbitmq").revision, Some(2));
    });
}

#[test]
fn an_api_server_that_goes_away_in_the_middle_of_an_install_is_waited_for() {
    story("apiserver", async |world| {
        hold(world, "rabbitmq-cluster-wait").await;
        let mut operator = world.operator().start().await;
        world.apply(&services(&["mariadb", "rabbitmq"])).await;
        until_hook(world, "rabbitmq", "rabbitmq-cluster-wait").await;
        world.forgive_complaints();
        world.cluster().kill(Component::Apiserver).await.unwrap();
        world.cluster().restart(Component::Apiserver).await.unwrap();
        world.cluster().mend("rabbitmq-cluster-wait").await.unwrap();
        world.until_ready().await;
        assert!(operator.is_alive(), "the operator waits, it does not end");
    });
}
