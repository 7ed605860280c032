//! Hooks that fail while helm waits for them.

use cluster::Rule;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use osdpl::api::reason;
use serde_json::{Value, json};

use crate::cloud::{Told, services, with_values};
use crate::world::{World, story};

/// The only hook of the smallest chart that has one.
const JOB: &str = "rabbitmq-cluster-wait";

fn broker() -> Value {
    services(&["rabbitmq"])
}

/// The Job fails, and its log says this.
fn fails(world: &World, log: String) -> Rule {
    Rule { log: Some(log), ..Rule::new(&world.namespace, JOB, "fail") }
}

async fn hold(world: &World) {
    world.cluster().behaviour(JOB, &Rule::new(&world.namespace, JOB, "hang")).await.unwrap();
}

/// The ways in which upstream's scripts show a password.
fn shown(password: &str) -> String {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(password);
    format!(
        "+ rabbitmqadmin --password {password}\nAuthorization: Basic {encoded}\nhttp://rabbitmq:{password}@rabbitmq:15672\nACCESS_REFUSED for user"
    )
}

#[test]
fn a_failing_hook_is_named_with_its_scrubbed_log_and_recovers_when_mended() {
    story("failing-hook", async |world| {
        hold(world).await;
        let operator = world.operator().start().await;
        world.apply(&broker()).await;
        world.until("the hook runs", |cloud| cloud.child("rabbitmq").hook.map(drop)).await;
        let password = world.credentials("rabbitmq").await["admin"].clone();
        world.cluster().behaviour(JOB, &fails(world, shown(&password))).await.unwrap();
        let cloud = world
            .until("the hook's failure is told", |cloud| {
                let told = cloud.child("rabbitmq").message.contains("ACCESS_REFUSED");
                (told && cloud.reason() == reason::FAILED).then(|| cloud.clone())
            })
            .await;
        let child = cloud.child("rabbitmq");
        assert_eq!(child.status, "pending-install", "helm still waits for it");
        assert!(child.message.contains(JOB) && child.message.contains("[redacted]"), "{}", child.message);
        assert!(cloud.status().message.contains(JOB), "{}", cloud.status().message);
        let degraded = cloud.condition("Degraded").unwrap();
        assert_eq!((degraded.status.as_str(), degraded.reason.as_str()), ("True", reason::FAILED));
        assert!(!operator.metrics().contains(&password));
        world.keeps_secrets().await;

        world.cluster().mend(JOB).await.unwrap();
        let cloud = world.until_ready().await;
        assert_eq!(cloud.condition("Degraded").unwrap().status, "False");
        assert_eq!(world.helm_runs().len(), 1, "the Job recovered, and with it the helm that waited");
    });
}

#[test]
fn a_corrected_spec_is_heard_while_a_hook_fails() {
    story("corrected", async |world| {
        world.cluster().behaviour(JOB, &fails(world, "no such host".to_owned())).await.unwrap();
        let _operator = world.operator().start().await;
        world.apply(&broker()).await;
        world.until_reason(reason::FAILED).await;
        world.apply(&with_values(broker(), "rabbitmq", json!({"pod": {"replicas": {"server": 2}}}))).await;
        world
            .until("helm is at the corrected spec", |cloud| {
                let child = cloud.child("rabbitmq");
                (child.revision == Some(2) && child.status == "pending-upgrade").then_some(())
            })
            .await;
        world.cluster().mend(JOB).await.unwrap();
        world.until_ready().await;
        assert_eq!(world.helm_values("rabbitmq")["pod"]["replicas"]["server"], 2);
        let statuses = world.helm_prints(&["history", "rabbitmq", "--output", "json"]);
        let statuses: Vec<Value> = serde_json::from_str(&statuses).unwrap();
        assert_eq!(statuses[0]["status"], "failed", "it was stopped, and wrote so itself");
        let pods = world.api::<Pod>().list(&ListParams::default().labels("component=server")).await.unwrap();
        assert_eq!(
            pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>(),
            ["rabbitmq-rabbitmq-0", "rabbitmq-rabbitmq-1"]
        );
    });
}

#[test]
fn a_healthy_hook_may_finish_before_a_newer_spec_is_installed() {
    story("healthy-hook", async |world| {
        hold(world).await;
        let _operator = world.operator().start().await;
        world.apply(&broker()).await;
        world.until("the hook runs", |cloud| cloud.child("rabbitmq").hook.map(drop)).await;
        let newer = world.apply(&with_values(broker(), "rabbitmq", json!({"pod": {"replicas": {"server": 2}}}))).await;
        world
            .until("the newer spec is heard", |cloud| {
                (cloud.status().observed_generation == newer.metadata.generation).then_some(())
            })
            .await;
        assert_eq!(world.helm_runs().len(), 1);
        world.cluster().mend(JOB).await.unwrap();
        world.until_ready().await;
        let history = world.helm_prints(&["history", "rabbitmq", "--output", "json"]);
        let history: Vec<Value> = serde_json::from_str(&history).unwrap();
        let statuses: Vec<_> = history.iter().map(|revision| revision["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["superseded", "deployed"]);
    });
}
