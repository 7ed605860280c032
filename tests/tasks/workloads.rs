//! Tests that the operator's tasks observe workloads and Jobs, and find the reason if a pod is not ready.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use osdpl_core::api::ComponentHealth;
use osdpl_core::health;
use serde_json::{Value, json};

use crate::world::{PASSWORD, World, cluster, workload};

fn setting(key: &str, value: &str) -> Value {
    json!({format!("kwok.osdpl.dev/{key}"): value})
}

fn none() -> Value {
    json!({})
}

fn component_verdict(workload: &osdpl_core::observed::Workload) -> ComponentHealth {
    health::assess(workload).status
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_become_ready_or_report_a_reason() {
    let world = World::new("tasks-workloads").await;
    let init = json!({"initContainers": [{"name": "init", "image": "example.com/entrypoint:1",
        "env": [{"name": "DEPENDENCY_SERVICE", "value": "tasks-workloads:nothing-like-it"}]}]});
    let nowhere = json!({"nodeSelector": {"no-such": "node"}});
    world.create::<Deployment>(workload("good", &none(), &none())).await;
    world.create::<StatefulSet>(workload("stateful", &none(), &none())).await;
    world.create::<DaemonSet>(workload("everywhere", &none(), &none())).await;
    world.create::<DaemonSet>(workload("nowhere", &none(), &nowhere)).await;
    world.create::<Deployment>(workload("no-image", &setting("behaviour", "image-pull-error"), &none())).await;
    world.create::<StatefulSet>(workload("crashing", &setting("behaviour", "crash-loop"), &none())).await;
    world.create::<Deployment>(workload("homeless", &none(), &nowhere)).await;
    world.create::<Deployment>(workload("waiting", &none(), &init)).await;
    for (name, verdict, ready, reason) in [
        ("good", ComponentHealth::Ready, "1/1", ""),
        ("stateful", ComponentHealth::Ready, "1/1", ""),
        ("everywhere", ComponentHealth::Ready, "3/3", ""),
        ("nowhere", ComponentHealth::Unknown, "0/0", "no-such=node, which the DaemonSet selects"),
        ("no-image", ComponentHealth::Unhealthy, "0/1", ": ImagePullBackOff example.com/main:1"),
        ("crashing", ComponentHealth::Unhealthy, "0/1", "crashing-0: container main fails: exit code 1"),
        (
            "homeless",
            ComponentHealth::Unhealthy,
            "0/1",
            ": it cannot be scheduled (it requires no-such=node): 0/3 nodes are available",
        ),
        ("waiting", ComponentHealth::Progressing, "0/1", "waits for Service nothing-like-it: it does not exist"),
    ] {
        let observed = world
            .workload(name, |workload| {
                let status = health::assess(workload);
                status.status == verdict && status.ready == ready && status.reason.contains(reason)
            })
            .await;
        assert_eq!(observed.component.to_string(), format!("demo/{name}"));
        assert_eq!(health::is_available(&observed), verdict == ComponentHealth::Ready, "{name}");
        assert_eq!(health::has_no_nodes(&observed), name == "nowhere", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_readiness_is_unhealthy_until_regained() {
    let world = World::new("tasks-lost").await;
    world.create::<Deployment>(workload("api", &none(), &none())).await;
    world.workload("api", |api| component_verdict(api) == ComponentHealth::Ready && api.was_available).await;
    let pods = world.api::<Pod>();
    let pod = pods.list(&ListParams::default()).await.unwrap().items[0].metadata.name.clone().unwrap();
    let ready = |value: Value| Patch::Merge(json!({"metadata": {"labels": {"kwok.osdpl.dev/ready": value}}}));
    pods.patch(&pod, &PatchParams::default(), &ready(json!("false"))).await.unwrap();
    let lost = world.workload("api", |api| component_verdict(api) == ComponentHealth::Unhealthy).await;
    assert!(!health::is_available(&lost));
    pods.patch(&pod, &PatchParams::default(), &ready(Value::Null)).await.unwrap();
    world.workload("api", |api| component_verdict(api) == ComponentHealth::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rollout_is_incomplete_while_old_pods_serve() {
    let world = World::new("tasks-rollout").await;
    world.create::<Deployment>(workload("api", &none(), &none())).await;
    world.workload("api", |api| component_verdict(api) == ComponentHealth::Ready).await;
    let broken = json!({"spec": {"template": {"metadata": {"labels": setting("behaviour", "hang")}}}});
    let api = world.api::<Deployment>();
    api.patch("api", &PatchParams::default(), &Patch::Merge(broken)).await.unwrap();
    let rolling = world.workload("api", |api| api.updated == 1 && api.outdated_pods == 1 && api.ready == 1).await;
    assert!(health::is_available(&rolling), "the component must be available while its old pod is ready");
    assert_eq!(component_verdict(&rolling), ComponentHealth::Progressing);
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_job_is_explained_by_its_scrubbed_log() {
    let world = World::new("tasks-job").await;
    let log = format!("connecting\nmysql://root:{PASSWORD}@mariadb\naccess denied");
    let pod = json!({
        "metadata": {"labels": {"release_group": "demo"},
            "annotations": {"kwok.osdpl.dev/behaviour": "fail", "kwok.osdpl.dev/log": log, "kwok.osdpl.dev/exit-code": "3"}},
        "spec": {"restartPolicy": "OnFailure", "containers": [{"name": "db-sync", "image": "example.com/main:1"}]}
    });
    let job = json!({"metadata": {"name": "demo-db-sync"}, "spec": {"backoffLimit": 1000, "template": pod}});
    world.create::<Job>(job).await;
    let says = |job: &osdpl_core::observed::ObservedJob, text: &str| {
        job.trouble.as_ref().is_some_and(|trouble| trouble.stuck && trouble.message.contains(text))
    };
    let job = world.job("demo-db-sync", |job| says(job, "its log ends")).await;
    let message = job.trouble.clone().unwrap().message;
    let (_, causes) = message.split_once(": ").unwrap();
    assert_eq!(
        causes,
        "container db-sync fails: exit code 3; its log ends: connecting | mysql://root:[redacted]@mariadb | access denied"
    );
    assert_eq!((job.release.as_str(), health::job_health(&job)), ("demo", health::JobHealth::Failing(message)));

    let pods = world.api::<Pod>();
    let pod = pods.list(&ListParams::default()).await.unwrap().items[0].metadata.name.clone().unwrap();
    let mended = Patch::Merge(json!({"metadata": {"annotations": {"kwok.osdpl.dev/behaviour": null}}}));
    pods.patch(&pod, &PatchParams::default(), &mended).await.unwrap();
    let job = world.job("demo-db-sync", |job| job.complete).await;
    assert_eq!(job.trouble, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_health_triggers_nothing() {
    let world = World::new("tasks-quiet").await;
    world.create::<Deployment>(workload("api", &none(), &none())).await;
    world.create::<Deployment>(workload("other", &none(), &none())).await;
    world.workload("api", |api| component_verdict(api) == ComponentHealth::Ready && api.was_available).await;
    world.workload("other", |api| component_verdict(api) == ComponentHealth::Ready && api.was_available).await;
    let before = world.tasks.observe();
    let api = world.api::<Deployment>();
    for number in 0..20 {
        let noted = Patch::Merge(json!({"metadata": {"labels": {"note": number.to_string()}}}));
        api.patch("api", &PatchParams::default(), &noted).await.unwrap();
    }
    // A watch reports changes in order. When it has reported the deletion of `other`, it has also reported all label
    // changes of `api`.
    api.delete("other", &DeleteParams::default()).await.unwrap();
    let mut pokes = 0;
    while world.tasks.observe().workloads().iter().any(|workload| workload.name == "other") {
        world.poke.notified().await;
        pokes += 1;
    }
    // The deletion of `other` triggers one pass. A change from before the label changes may trigger a second pass. The
    // label changes themselves must trigger no pass.
    assert!(pokes <= 2, "label changes must trigger no pass, but the tasks triggered {pokes} passes");
    assert_eq!(before.workloads()[0], world.tasks.observe().workloads()[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn continues_after_missing_rights_are_granted() {
    let kubeconfig = cluster().await.kubeconfig_for("default", "default").await.unwrap();
    let world = World::seen_as("tasks-rights", &kubeconfig).await;
    let problem = loop {
        let problems = world.tasks.describe_problems();
        if problems.len() >= 11 {
            break problems.join("\n");
        }
        tokio::task::yield_now().await;
    };
    assert!(!world.tasks.is_ready());
    for kind in
        ["deployments", "statefulsets", "daemonsets", "jobs", "pods", "secrets", "services", "persistentvolumeclaims"]
    {
        assert!(problem.contains(&format!("watching {kind}: {kind}")), "{problem}");
    }
    assert!(problem.contains("watching storageclasses: storageclasses.storage.k8s.io is forbidden"), "{problem}");
    assert!(
        problem.contains("grant `list` and `watch` on deployments (apps) to the operator's ServiceAccount"),
        "{problem}"
    );

    let role = json!({"metadata": {"name": "tasks-rights"}, "rules": [
        {"apiGroups": [""], "resources": ["pods", "secrets", "services", "persistentvolumeclaims"], "verbs": ["list", "watch", "get"]},
        {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets", "daemonsets"], "verbs": ["list", "watch"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list", "watch"]}]});
    let binding = json!({"metadata": {"name": "tasks-rights"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tasks-rights"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "default"}]});
    let roles = Api::<ClusterRole>::all(world.client.clone());
    roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    let bindings = Api::<ClusterRoleBinding>::all(world.client.clone());
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    world.until("the tasks to use the granted rights", |_| Some(())).await;
    let left = world.tasks.describe_problems();
    let only_more = [
        "watching cronjobs: cronjobs.batch",
        "watching nodes: nodes is forb",
        "watching storageclasses: storageclasses",
    ];
    assert!(
        left.iter().zip(only_more).all(|(left, kind)| left.starts_with(kind)) && left.len() == only_more.len(),
        "{left:?}"
    );
}
