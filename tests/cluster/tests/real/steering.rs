//! Every setting that makes pods misbehave, and the recovery.

use cluster::Rule;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{DeleteParams, LogParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::json;

use crate::help::{TestNamespace, annotation, in_time, is_ready, is_running, restarts, waiting};

fn succeeded(job: &Job) -> bool {
    job.status.as_ref().and_then(|status| status.succeeded) == Some(1)
}

fn failed(job: &Job) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == "Failed" && one.status == "True")
}

#[tokio::test]
async fn pod_becomes_ready_and_has_a_log() {
    let place = TestNamespace::new("steer-ready").await;
    place.pod("web", &[]).await;
    let pod = place.ready("web").await;
    assert!(pod.status.unwrap().pod_ip.is_some());
    let log = place.api::<Pod>().logs("web", &LogParams::default()).await.unwrap();
    assert_eq!(log, "simulated container main of pod web\n");
}

#[tokio::test]
async fn slow_pod_runs_before_it_is_ready() {
    let place = TestNamespace::new("steer-slow").await;
    place.pod("slow", &[("delay", "1s")]).await;
    let pod = place.pod_where("slow", "running", is_running).await;
    assert!(!is_ready(&pod));
    place.ready("slow").await;
}

#[tokio::test]
async fn hanging_pod_is_unready_until_relabelled() {
    let place = TestNamespace::new("steer-hang").await;
    place.pod("stuck", &[("behaviour", "hang")]).await;
    assert!(!is_ready(&place.pod_where("stuck", "running", is_running).await));
    place.relabel("stuck", "behaviour", None).await;
    place.ready("stuck").await;
}

#[tokio::test]
async fn pod_can_be_stuck_before_containers_exist() {
    let place = TestNamespace::new("steer-creating").await;
    place.pod("stuck", &[("behaviour", "creating")]).await;
    place.pod_where("stuck", "being created", |pod| waiting(pod).as_deref() == Some("ContainerCreating")).await;
}

#[tokio::test]
async fn image_pull_error_blocks_until_removed() {
    let place = TestNamespace::new("steer-pull").await;
    place.pod("web", &[("behaviour", "image-pull-error")]).await;
    let pod = place.pod_where("web", "failing", |pod| waiting(pod).as_deref() == Some("ImagePullBackOff")).await;
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
    place.relabel("web", "behaviour", None).await;
    place.ready("web").await;
}

#[tokio::test]
async fn crash_loop_counts_restarts_until_repaired() {
    let place = TestNamespace::new("steer-crash").await;
    place.pod("web", &[("behaviour", "crash-loop"), ("restart-delay", "50ms"), ("exit-code", "3")]).await;
    let pod = place.pod_where("web", "crashing again", |pod| restarts(pod) > 2).await;
    assert_eq!(waiting(&pod).as_deref(), Some("CrashLoopBackOff"));
    let last = pod.status.unwrap().container_statuses.unwrap()[0].last_state.clone().unwrap();
    assert_eq!(last.terminated.unwrap().exit_code, 3);
    place.relabel("web", "behaviour", None).await;
    assert!(restarts(&place.ready("web").await) > 2);
}

#[tokio::test]
async fn live_pod_loses_and_regains_readiness() {
    let place = TestNamespace::new("steer-readiness").await;
    let spec = json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] });
    place.create::<Service>(json!({ "metadata": { "name": "web" }, "spec": spec })).await;
    let spec = json!({ "containers": [{ "name": "main", "image": "image" }] });
    place.create::<Pod>(json!({ "metadata": { "name": "web", "labels": { "app": "web" } }, "spec": spec })).await;
    let address = place.ready("web").await.status.unwrap().pod_ip;
    place.relabel("web", "ready", Some("false")).await;
    let pod = place.pod_where("web", "losing readiness", |pod| !is_ready(pod)).await;
    assert!(is_running(&pod) && restarts(&pod) == 0);
    let slices = place.api::<EndpointSlice>();
    let name = slices.list(&kube::api::ListParams::default()).await.unwrap().items[0].name_any();
    let ready = |wanted: bool| {
        move |slice: Option<&EndpointSlice>| {
            let endpoints = slice.into_iter().flat_map(|slice| slice.endpoints.iter().flatten());
            endpoints.into_iter().any(|one| one.conditions.as_ref().and_then(|all| all.ready) == Some(wanted))
        }
    };
    in_time("the endpoint leaving", await_condition(slices.clone(), &name, ready(false))).await.unwrap();
    place.relabel("web", "ready", None).await;
    in_time("the endpoint coming back", await_condition(slices, &name, ready(true))).await.unwrap();
    assert_eq!(place.ready("web").await.status.unwrap().pod_ip, address);
}

#[tokio::test]
async fn job_completes_and_slow_one_runs_first() {
    let place = TestNamespace::new("steer-jobs").await;
    place.job("quick", "OnFailure", &[]).await;
    place.job("slow", "OnFailure", &[("delay", "1s")]).await;
    place.pod_of_job("slow", "running", is_running).await;
    for job in ["quick", "slow"] {
        place.job_where(job, "completing", succeeded).await;
    }
}

#[tokio::test]
async fn failing_job_restarts_until_its_limit() {
    let place = TestNamespace::new("steer-fail").await;
    place.job("sync", "OnFailure", &[("behaviour", "fail"), ("restart-delay", "50ms")]).await;
    place.pod_of_job("sync", "crashing", |pod| waiting(pod).as_deref() == Some("CrashLoopBackOff")).await;
    place.job_where("sync", "giving up", failed).await;
}

#[tokio::test]
async fn failing_once_job_succeeds_after_a_restart() {
    let place = TestNamespace::new("steer-once").await;
    place.job("sync", "OnFailure", &[("behaviour", "fail-once")]).await;
    place.job_where("sync", "succeeding", succeeded).await;
    let pod = place.pod_of_job("sync", "being there", |_| true).await;
    assert_eq!(restarts(&pod), 1);
}

#[tokio::test]
async fn failing_once_job_succeeds_with_a_second_pod() {
    let place = TestNamespace::new("steer-once-never").await;
    place.job("sync", "Never", &[("behaviour", "fail-once")]).await;
    let job = place.job_where("sync", "succeeding", succeeded).await;
    assert_eq!(job.status.unwrap().failed, Some(1));
}

#[tokio::test]
async fn fault_rule_affects_unlabelled_pods() {
    let place = TestNamespace::new("steer-rule").await;
    let log = "connecting to mysql://root:secret@mariadb\nOperationalError: (1045) Access denied";
    let rule = Rule {
        log: Some(log.into()),
        message: Some("Access denied".into()),
        restart_delay: Some("50ms".into()),
        ..Rule::new("steer-rule", "glance-db-", "fail")
    };
    place.cluster.behaviour("glance", &rule).await.unwrap();
    place.job("glance-db-sync", "OnFailure", &[]).await;
    place.job("keystone-db-sync", "OnFailure", &[]).await;
    let pod = place.pod_of_job("glance-db-sync", "crashing", |pod| restarts(pod) > 0).await;
    assert_eq!(annotation(&pod, "rule"), Some("glance"));
    let parameters = LogParams { previous: true, tail_lines: Some(1), ..Default::default() };
    let tail = place.api::<Pod>().logs(&pod.name_any(), &parameters).await.unwrap();
    assert_eq!(tail, "OperationalError: (1045) Access denied\n");
    place.job_where("keystone-db-sync", "completing", succeeded).await;

    place.cluster.remove_rule("glance").await.unwrap();
    place.job("glance-db-again", "OnFailure", &[]).await;
    place.job_where("glance-db-again", "completing", succeeded).await;
}

#[tokio::test]
async fn rule_affects_running_pods() {
    let place = TestNamespace::new("steer-live").await;
    place.pod("web", &[]).await;
    place.ready("web").await;
    place.cluster.behaviour("web", &Rule { ready: Some(false), ..Rule::new("steer-live", "web", "") }).await.unwrap();
    place.pod_where("web", "losing readiness", |pod| !is_ready(pod)).await;
    place.cluster.remove_rule("web").await.unwrap();
    place.ready("web").await;
}

#[tokio::test]
async fn delayed_termination_keeps_a_deleted_pod() {
    let place = TestNamespace::new("steer-delete").await;
    place.pod("quick", &[]).await;
    place.pod("lingering", &[("termination-delay", "1h")]).await;
    let pods = place.api::<Pod>();
    for name in ["quick", "lingering"] {
        let uid = place.ready(name).await.uid().unwrap();
        pods.delete(name, &DeleteParams::default()).await.unwrap();
        if name == "quick" {
            in_time("its end", await_condition(pods.clone(), name, conditions::is_deleted(&uid))).await.unwrap();
        }
    }
    place.pod_where("lingering", "leaving", |pod| pod.metadata.deletion_timestamp.is_some()).await;
}
