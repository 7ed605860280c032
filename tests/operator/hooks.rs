//! A hook fails or hangs while helm waits for the hook. The status names the hook. When the user corrects the spec, the
//! operator stops a helm process that waits for a failing hook.

use cluster::Rule;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::DeleteParams;
use osdpl_core::api::reason;
use serde_json::{Value, json};

use crate::cloud::{StatusAccess, services, with_values};
use crate::world::{World, run_test};

/// The Job of a hook that the tests make fail or hang. Kubernetes retries upstream's Jobs up to a thousand times. Helm
/// waits all this time, so the operator itself must report the failure.
const JOB: &str = "keystone-db-init";

/// Returns a fault rule with which the pods of the Job [`JOB`] fail and have this log.
fn failing_rule(world: &World, log: String) -> Rule {
    Rule { log: Some(log), ..Rule::new(&world.namespace, JOB, "fail") }
}

async fn hang_job(world: &World, job: &str) {
    world.cluster().behaviour(job, &Rule::new(&world.namespace, job, "hang")).await.unwrap();
}

/// Waits until the status reports that helm waits for a hook of the release.
async fn until_hook(world: &World, release: &str) {
    world.until("a hook runs", |cloud| cloud.child(release).hook.map(drop)).await;
}

/// A password and a token that no Secret contains. So the operator can recognize them only by the text before them,
/// such as `password=`.
const UNKNOWN: [&str; 2] = ["unknown-of-a-person-5f1c", "unknown-of-a-login-9a2e"];

/// Returns a log like the logs of upstream's scripts, with the password as plain text, in base64 and in a URL, and with
/// the secrets [`UNKNOWN`].
fn lines_with_password(password: &str) -> String {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(password);
    let [other, token] = UNKNOWN;
    let lines = [
        format!("+ mysql --password={password}"),
        format!("Authorization: Basic {encoded}"),
        format!("mysql+pymysql://keystone:{password}@mariadb:3306"),
        format!("retry with password={other} token={token}"),
        "ERROR 1045: access denied".to_owned(),
    ];
    lines.join("\n")
}

#[test]
fn names_failing_hook_with_scrubbed_log_and_recovers() {
    run_test("failing-hook", async |world| {
        hang_job(world, JOB).await;
        let operator = world.operator().start().await;
        world.apply(&world.keystone().await).await;
        until_hook(world, "keystone").await;
        let password = world.credentials("keystone").await["database"].clone();
        world.cluster().behaviour(JOB, &failing_rule(world, lines_with_password(&password))).await.unwrap();
        let cloud = world
            .until("the status reports the hook's failure", |cloud| {
                let is_reported = cloud.child("keystone").message.contains("ERROR 1045: access denied");
                (is_reported && cloud.reason() == reason::FAILED).then(|| cloud.clone())
            })
            .await;
        let child = cloud.child("keystone");
        assert_eq!(child.status, "pending-install", "helm must still wait for the failing hook");
        assert!(child.message.contains(JOB) && child.message.contains("[redacted]"), "{}", child.message);
        assert!(child.message.contains("retry with password=[redacted] token=[redacted]"), "{}", child.message);
        assert!(cloud.status().message.contains(JOB), "{}", cloud.status().message);
        let degraded = cloud.condition("Degraded").unwrap();
        assert_eq!((degraded.status.as_str(), degraded.reason.as_str()), ("True", reason::FAILED));
        assert!(!operator.metrics().contains(&password));
        world.check_no_leaked_secrets().await;
        world.check_hidden(UNKNOWN).await;

        world.cluster().remove_rule(JOB).await.unwrap();
        let cloud = world.until_ready().await;
        assert_eq!(cloud.condition("Degraded").unwrap().status, "False");
        assert_eq!(
            world.helm_runs().len(),
            1,
            "the operator must run helm only once, because helm continues when the hook's Job recovers"
        );
    });
}

#[test]
fn applies_corrected_spec_while_a_hook_is_stuck() {
    run_test("corrected", async |world| {
        world.cluster().behaviour(JOB, &Rule::new(&world.namespace, JOB, "image-pull-error")).await.unwrap();
        let _operator = world.operator().start().await;
        world.apply(&world.keystone().await).await;
        world.until_reason(reason::FAILED).await;
        world.apply(&with_values(world.keystone().await, "keystone", json!({"pod": {"replicas": {"api": 2}}}))).await;
        world
            .until("helm applies the corrected spec", |cloud| {
                let child = cloud.child("keystone");
                (child.revision == Some(2) && child.status == "pending-upgrade").then_some(())
            })
            .await;
        let stopped = world.api::<Secret>().get("sh.helm.release.v1.keystone.v1").await.unwrap();
        assert_eq!(
            stopped.labels()["status"],
            "failed",
            "the operator must stop the helm process that waits for the failing hook, and helm must mark the record as failed"
        );
        world.cluster().remove_rule(JOB).await.unwrap();
        world.until_ready().await;
        assert_eq!(world.helm_values("keystone")["pod"]["replicas"]["api"], 2);
        let api = world.api::<Deployment>().get("keystone-api").await.unwrap();
        assert_eq!(api.status.unwrap().available_replicas, Some(2));
    });
}

#[test]
fn healthy_hook_finishes_before_a_newer_spec() {
    run_test("healthy-hook", async |world| {
        hang_job(world, "rabbitmq-cluster-wait").await;
        let _operator = world.operator().start().await;
        world.apply(&services(&["rabbitmq"])).await;
        until_hook(world, "rabbitmq").await;
        let two = json!({"pod": {"replicas": {"server": 2}}});
        let newer = world.apply(&with_values(services(&["rabbitmq"]), "rabbitmq", two)).await;
        world
            .until("the operator has observed the newer spec", |cloud| {
                (cloud.status().observed_generation == newer.metadata.generation).then_some(())
            })
            .await;
        assert_eq!(world.helm_runs().len(), 1);
        world.cluster().remove_rule("rabbitmq-cluster-wait").await.unwrap();
        world.until_ready().await;
        let history = world.helm_prints(&["history", "rabbitmq", "--output", "json"]);
        let history: Vec<Value> = serde_json::from_str(&history).unwrap();
        let statuses: Vec<_> = history.iter().map(|revision| revision["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["superseded", "deployed"]);
    });
}

/// Returns the number of helm runs, and whether the last one ran hooks.
fn last_run(world: &World) -> (usize, bool) {
    let runs = world.helm_runs();
    let skips = runs.last().unwrap().arguments.contains(&"--no-hooks".to_owned());
    (runs.len(), !skips)
}

#[test]
fn upgrade_skips_hooks_that_would_repeat_their_work() {
    run_test("skipped-hooks", async |world| {
        let operator = world.operator().start().await;
        let installed = world.keystone().await;
        let keystone = |values: Value| with_values(installed.clone(), "keystone", values);
        world.apply(&installed).await;
        world.until_ready().await;
        let (installs, _) = last_run(world);
        let jobs = world.api::<Job>();
        let uid = async || jobs.get(JOB).await.unwrap().uid().unwrap();
        let first = uid().await;

        let expiry = |seconds: u32| json!({"conf": {"keystone": {"token": {"expiration": seconds}}}});
        world.apply(&keystone(expiry(7200))).await;
        world.until_ready().await;
        assert_eq!(last_run(world), (installs + 1, false), "no hook reads the lifetime of tokens");
        assert_eq!(uid().await, first, "the Job must be the one of the first revision");
        assert_eq!(world.helm_values("keystone")["conf"]["keystone"]["token"]["expiration"], 7200);

        let read = json!({"conf": {"keystone": {"token": {"expiration": 7200}, "database": {"max_retries": 5}}}});
        world.apply(&keystone(read)).await;
        world.until_ready().await;
        assert_eq!(last_run(world), (installs + 2, true), "a hook may read the settings of the database");
        let second = uid().await;
        assert_ne!(second, first);

        let mut spec = keystone(expiry(7200));
        spec["hooks"] = json!("Always");
        world.apply(&spec).await;
        world.until_ready().await;
        assert_eq!(last_run(world), (installs + 3, true));
        spec = with_values(spec, "keystone", expiry(3600));
        world.apply(&spec).await;
        world.until_ready().await;
        assert_eq!(last_run(world), (installs + 4, true), "the spec requires the hooks");

        // Delete the Job while no operator runs, so that the next operator certainly knows about the deletion.
        operator.stop().await;
        jobs.delete(JOB, &DeleteParams::background()).await.unwrap();
        world.until_object::<Job>("the Job is deleted", JOB, |found| found.is_none()).await;
        let _operator = world.operator().start().await;
        world.apply(&keystone(expiry(1800))).await;
        world.until_ready().await;
        assert_eq!(
            last_run(world),
            (installs + 5, true),
            "new pods wait for the Job, so its hook must create it again"
        );
        assert!(jobs.get(JOB).await.unwrap().uid().is_some());
    });
}
