//! Tests that the operator's tasks read the release records that the real helm writes. From a record, the tasks also
//! learn which hook helm is running.

use std::path::Path;
use std::process::Stdio;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use osdpl_core::catalog::WorkloadKind;
use osdpl_core::observed::Liveness;
use osdpl_core::release::Status;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::world::{ALIVE, World, cluster};

/// Returns the folder of a chart with a Deployment, a plain Job and a hook Job. `behaviour` says how the pods of the
/// hook Job behave: `works`, `fail` or `hang`.
fn chart(behaviour: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| std::fs::write(folder.path().join(path), text).unwrap();
    let job = |name: &str, annotations: &str, behaviour: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations: {annotations}\nspec:\n  backoffLimit: 0\n  \
             template:\n    metadata:\n      labels: {{release_group: demo, kwok.osdpl.dev/behaviour: {behaviour}}}\n    spec:\n      \
             restartPolicy: OnFailure\n      containers: [{{name: main, image: example.com/main}}]\n"
        )
    };
    std::fs::create_dir(folder.path().join("templates")).unwrap();
    write("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.2.3\n");
    write(
        "templates/deployment.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: demo-api}\nspec:\n  replicas: {{ .Values.replicas | default 1 }}\n  \
         selector: {matchLabels: {application: demo}}\n  template:\n    metadata:\n      labels: {application: demo, component: api}\n    \
         spec:\n      containers: [{name: main, image: example.com/main}]\n",
    );
    write("templates/plain.yaml", &job("demo-setup", "{}", "works"));
    let hook = "{helm.sh/hook: 'post-install,post-upgrade'}";
    write("templates/hook.yaml", &job("demo-db-sync", hook, behaviour));
    folder
}

/// Starts helm 4 with these arguments in the test's namespace.
async fn helm(world: &World, arguments: &[&str]) -> Child {
    let cluster = cluster().await;
    let mut command = Command::new(cluster.helm(4).unwrap());
    command.args(arguments).args(["--namespace", &world.namespace]);
    command.env("KUBECONFIG", cluster.kubeconfig()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.kill_on_drop(true).spawn().unwrap()
}

async fn upgrade(world: &World, chart: &Path, labels: &str) -> Child {
    let chart = chart.to_str().unwrap();
    let mut arguments = vec!["upgrade", "--install", "demo", chart];
    if !labels.is_empty() {
        arguments.extend(["--labels", labels]);
    }
    helm(world, &arguments).await
}

fn labels(instance: &str, revision: i64) -> String {
    format!(
        "osdpl.dev/inputs=i{revision},osdpl.dev/catalog=c{revision},osdpl.dev/release=demo,osdpl.dev/attempt={instance}-1-v{revision}"
    )
}

/// Waits until the pod of the hanging Job exists, and lets this pod complete. When a test sees the Job, the pod may not
/// exist yet.
async fn release_pod(world: &World) {
    let pods = world.api::<Pod>();
    let hanging = watcher::Config::default().labels("kwok.osdpl.dev/behaviour=hang");
    let mut pods_stream = Box::pin(watcher(pods.clone(), hanging).applied_objects());
    let pod = pods_stream.next().await.unwrap().unwrap();
    let works = Patch::Merge(json!({"metadata": {"labels": {"kwok.osdpl.dev/behaviour": "works"}}}));
    pods.patch(&pod.metadata.name.unwrap(), &PatchParams::default(), &works).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_a_release_through_foreign_upgrades() {
    let world = World::new("tasks-release").await;
    let hanging = chart("hang");
    let mut child = upgrade(&world, hanging.path(), &labels(ALIVE, 1)).await;
    let pending = world.release("demo", |release| release.body.as_ref().is_some_and(|body| body.hook.is_some())).await;
    let hook = pending.body.unwrap().hook.unwrap();
    assert_eq!((pending.status, pending.was_deployed), (Status::PendingInstall, false));
    assert_eq!((hook.name.as_str(), hook.failed), ("post-install Job demo-db-sync", false));
    assert_eq!(hook.job.as_deref(), Some("demo-db-sync"));
    assert_eq!(pending.attempt.unwrap().owner, Liveness::Alive);

    world.job("demo-db-sync", |job| !job.complete).await;
    release_pod(&world).await;
    assert!(child.wait().await.unwrap().success());
    let deployed = world
        .release("demo", |release| release.body.as_ref().is_some_and(|body| body.description == "Install complete"))
        .await;
    let body = deployed.body.unwrap();
    let key = |name: &str| (world.namespace.clone(), name.to_owned());
    let (namespace, api) = key("demo-api");
    assert_eq!((deployed.status, deployed.revision, deployed.was_deployed), (Status::Deployed, 1, true));
    assert_eq!((deployed.inputs.as_deref(), deployed.catalog.as_deref()), (Some("i1"), Some("c1")));
    assert_eq!((deployed.release.as_deref(), deployed.own_inputs.as_deref()), (Some("demo"), Some("i1")));
    assert_eq!((body.chart_version.as_str(), body.hook), ("1.2.3", None));
    assert_eq!(body.workloads.into_iter().collect::<Vec<_>>(), [(WorkloadKind::Deployment, namespace, api)]);
    assert_eq!(body.jobs.into_iter().collect::<Vec<_>>(), [key("demo-db-sync"), key("demo-setup")]);
    world.workload("demo-api", |api| api.ready == 1 && api.release == "demo").await;
    world.job("demo-setup", |job| job.complete && job.release == "demo").await;

    // A manual `helm upgrade` copies osdpl's labels to the record of revision 2. The copied labels still name revision
    // 1. From this, the tasks know that osdpl did not create revision 2.
    let working = chart("works");
    assert!(upgrade(&world, working.path(), "").await.wait().await.unwrap().success());
    let foreign = world.release("demo", |release| release.revision == 2 && release.status == Status::Deployed).await;
    assert_eq!(foreign.inputs.as_deref(), Some("i1"));
    assert_eq!(foreign.attempt.unwrap().revision, 1);
    assert_eq!(foreign.own_inputs.as_deref(), Some("i1"));

    assert!(helm(&world, &["uninstall", "demo"]).await.wait().await.unwrap().success());
    world
        .until("the tasks to observe that the release is gone", |observation| {
            observation.releases.is_empty().then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_operation_names_its_hook() {
    let world = World::new("tasks-failed").await;
    let failing = chart("fail");
    let mut child = upgrade(&world, failing.path(), &labels(ALIVE, 1)).await;
    assert!(!child.wait().await.unwrap().success());
    let failed = world
        .release("demo", |release| {
            release.status == Status::Failed && release.body.as_ref().is_some_and(|body| body.hook.is_some())
        })
        .await;
    let body = failed.body.unwrap();
    let hook = body.hook.unwrap();
    assert_eq!((hook.name.as_str(), hook.failed), ("post-install Job demo-db-sync", true));
    assert!(body.description.contains("failed post-install"), "{}", body.description);
    assert!(!failed.was_deployed);
    let job = world.job("demo-db-sync", |job| job.failed).await;
    assert!(job.trouble.unwrap().message.starts_with("BackoffLimitExceeded: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_helm_leaves_a_pending_record_of_a_dead_owner() {
    let world = World::new("tasks-killed").await;
    let hanging = chart("hang");
    let mut child = upgrade(&world, hanging.path(), &labels("pdead.1", 1)).await;
    world.release("demo", |release| release.body.as_ref().is_some_and(|body| body.hook.is_some())).await;
    child.kill().await.unwrap();
    // Start new tasks in the same namespace, as a restarted operator does. The new tasks must observe the record that
    // the killed helm process left.
    let later = World::new("tasks-killed").await;
    later.tasks.ready().await;
    let observation = later.tasks.observe();
    let release = observation.releases.values().next().unwrap();
    assert_eq!((release.status, release.attempt.as_ref().unwrap().owner), (Status::PendingInstall, Liveness::Dead));
}

#[tokio::test(flavor = "multi_thread")]
async fn skips_and_reports_an_unreadable_record() {
    let world = World::new("tasks-broken").await;
    let record = |release: &str, version: &str, more: serde_json::Value| {
        let mut labels = json!({"owner": "helm", "name": release, "version": version, "status": "deployed"});
        labels.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"metadata": {"name": format!("sh.helm.release.v1.{release}.v1"), "labels": labels},
            "type": "helm.sh/release.v1", "stringData": {"release": "no payload"}})
    };
    let ours = json!({"osdpl.dev/attempt": "pdead.1-1-v1"});
    world.create::<Secret>(record("garbage", "1", ours.clone())).await;
    world.create::<Secret>(record("unversioned", "one", ours)).await;
    world.create::<Secret>(record("mislabelled", "1", json!({"osdpl.dev/attempt": "whoever"}))).await;
    world.create::<Secret>(record("never-ours", "1", json!({}))).await;
    for (release, message) in [
        ("garbage", "the content is damaged"),
        ("unversioned", "its label \"version\" is \"one\" where a revision number is expected"),
        ("mislabelled", "its label \"osdpl.dev/attempt\" was not written by osdpl"),
    ] {
        let release = world.release(release, |release| release.undecodable.is_some()).await;
        let error = release.undecodable.unwrap();
        assert!(error.contains(message), "{error}");
    }
    let release = world.release("never-ours", |release| release.status == Status::Deployed).await;
    assert_eq!(
        (release.attempt, release.body, release.undecodable),
        (None, None, None),
        "the tasks must not read the payload of a record without osdpl's labels"
    );
}
