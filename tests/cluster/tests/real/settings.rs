//! Tests every setting `kwok.osdpl.dev/…` that controls a simulated pod, and that the pod recovers when the setting is
//! removed.

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
    let test = TestNamespace::new("pods-ready").await;
    test.pod("web", &[]).await;
    let pod = test.ready("web").await;
    assert!(pod.status.unwrap().pod_ip.is_some());
    let log = test.api::<Pod>().logs("web", &LogParams::default()).await.unwrap();
    assert_eq!(log, "simulated container main of pod web\n");
}

#[tokio::test]
async fn slow_pod_runs_before_it_is_ready() {
    let test = TestNamespace::new("pods-slow").await;
    test.pod("slow", &[("delay", "1s")]).await;
    let pod = test.pod_where("slow", "running", is_running).await;
    assert!(!is_ready(&pod));
    test.ready("slow").await;
}

#[tokio::test]
async fn hanging_pod_is_unready_until_relabelled() {
    let test = TestNamespace::new("pods-hang").await;
    test.pod("stuck", &[("behaviour", "hang")]).await;
    assert!(!is_ready(&test.pod_where("stuck", "running", is_running).await));
    test.relabel("stuck", "behaviour", None).await;
    test.ready("stuck").await;
}

#[tokio::test]
async fn pod_can_be_stuck_before_containers_exist() {
    let test = TestNamespace::new("pods-creating").await;
    test.pod("stuck", &[("behaviour", "creating")]).await;
    test.pod_where("stuck", "being created", |pod| waiting(pod).as_deref() == Some("ContainerCreating")).await;
}

#[tokio::test]
async fn image_pull_error_blocks_until_removed() {
    let test = TestNamespace::new("pods-pull").await;
    test.pod("web", &[("behaviour", "image-pull-error")]).await;
    let pod = test.pod_where("web", "failing", |pod| waiting(pod).as_deref() == Some("ImagePullBackOff")).await;
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
    test.relabel("web", "behaviour", None).await;
    test.ready("web").await;
}

#[tokio::test]
async fn crash_loop_counts_restarts_until_repaired() {
    let test = TestNamespace::new("pods-crash").await;
    test.pod("web", &[("behaviour", "crash-loop"), ("restart-delay", "50ms"), ("exit-code", "3")]).await;
    let pod = test.pod_where("web", "crashing again", |pod| restarts(pod) > 2).await;
    assert_eq!(waiting(&pod).as_deref(), Some("CrashLoopBackOff"));
    let last = pod.status.unwrap().container_statuses.unwrap()[0].last_state.clone().unwrap();
    assert_eq!(last.terminated.unwrap().exit_code, 3);
    test.relabel("web", "behaviour", None).await;
    assert!(restarts(&test.ready("web").await) > 2);
}

#[tokio::test]
async fn live_pod_loses_and_regains_readiness() {
    let test = TestNamespace::new("pods-readiness").await;
    let spec = json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] });
    test.create::<Service>(json!({ "metadata": { "name": "web" }, "spec": spec })).await;
    let spec = json!({ "containers": [{ "name": "main", "image": "image" }] });
    test.create::<Pod>(json!({ "metadata": { "name": "web", "labels": { "app": "web" } }, "spec": spec })).await;
    let address = test.ready("web").await.status.unwrap().pod_ip;
    test.relabel("web", "ready", Some("false")).await;
    let pod = test.pod_where("web", "losing readiness", |pod| !is_ready(pod)).await;
    assert!(is_running(&pod) && restarts(&pod) == 0);
    let slices = test.api::<EndpointSlice>();
    let name = slices.list(&kube::api::ListParams::default()).await.unwrap().items[0].name_any();
    let ready = |wanted: bool| {
        move |slice: Option<&EndpointSlice>| {
            let endpoints = slice.into_iter().flat_map(|slice| slice.endpoints.iter().flatten());
            endpoints.into_iter().any(|one| one.conditions.as_ref().and_then(|all| all.ready) == Some(wanted))
        }
    };
    in_time("the endpoint leaving", await_condition(slices.clone(), &name, ready(false))).await.unwrap();
    test.relabel("web", "ready", None).await;
    in_time("the endpoint coming back", await_condition(slices, &name, ready(true))).await.unwrap();
    assert_eq!(test.ready("web").await.status.unwrap().pod_ip, address);
}

#[tokio::test]
async fn job_completes_and_slow_one_runs_first() {
    let test = TestNamespace::new("pods-jobs").await;
    test.job("quick", "OnFailure", &[]).await;
    test.job("slow", "OnFailure", &[("delay", "1s")]).await;
    test.pod_of_job("slow", "running", is_running).await;
    for job in ["quick", "slow"] {
        test.job_where(job, "completing", succeeded).await;
    }
}

#[tokio::test]
async fn failing_job_restarts_until_its_limit() {
    let test = TestNamespace::new("pods-fail").await;
    test.job("sync", "OnFailure", &[("behaviour", "fail"), ("restart-delay", "50ms")]).await;
    test.pod_of_job("sync", "crashing", |pod| waiting(pod).as_deref() == Some("CrashLoopBackOff")).await;
    test.job_where("sync", "giving up", failed).await;
}

#[tokio::test]
async fn failing_once_job_succeeds_after_a_restart() {
    let test = TestNamespace::new("pods-once").await;
    test.job("sync", "OnFailure", &[("behaviour", "fail-once")]).await;
    test.job_where("sync", "succeeding", succeeded).await;
    let pod = test.pod_of_job("sync", "existing", |_| true).await;
    assert_eq!(restarts(&pod), 1);
}

#[tokio::test]
async fn failing_once_job_succeeds_with_a_second_pod() {
    let test = TestNamespace::new("pods-once-never").await;
    test.job("sync", "Never", &[("behaviour", "fail-once")]).await;
    let job = test.job_where("sync", "succeeding", succeeded).await;
    assert_eq!(job.status.unwrap().failed, Some(1));
}

#[tokio::test]
async fn fault_rule_affects_unlabelled_pods() {
    let test = TestNamespace::new("pods-rule").await;
    let log = "connecting to mysql://root:secret@mariadb\nOperationalError: (1045) Access denied";
    let rule = Rule {
        log: Some(log.into()),
        message: Some("Access denied".into()),
        restart_delay: Some("50ms".into()),
        ..Rule::new("pods-rule", "glance-db-", "fail")
    };
    test.cluster.behaviour("glance", &rule).await.unwrap();
    test.job("glance-db-sync", "OnFailure", &[]).await;
    test.job("keystone-db-sync", "OnFailure", &[]).await;
    let pod = test.pod_of_job("glance-db-sync", "crashing", |pod| restarts(pod) > 0).await;
    assert_eq!(annotation(&pod, "rule"), Some("glance"));
    let parameters = LogParams { previous: true, tail_lines: Some(1), ..Default::default() };
    let tail = test.api::<Pod>().logs(&pod.name_any(), &parameters).await.unwrap();
    assert_eq!(tail, "OperationalError: (1045) Access denied\n");
    test.job_where("keystone-db-sync", "completing", succeeded).await;

    test.cluster.remove_rule("glance").await.unwrap();
    test.job("glance-db-again", "OnFailure", &[]).await;
    test.job_where("glance-db-again", "completing", succeeded).await;
}

#[tokio::test]
async fn rule_affects_running_pods() {
    let test = TestNamespace::new("pods-live").await;
    test.pod("web", &[]).await;
    test.ready("web").await;
    test.cluster.behaviour("web", &Rule { ready: Some(false), ..Rule::new("pods-live", "web", "") }).await.unwrap();
    test.pod_where("web", "losing readiness", |pod| !is_ready(pod)).await;
    test.cluster.remove_rule("web").await.unwrap();
    test.ready("web").await;
}

#[tokio::test]
async fn delayed_termination_keeps_a_deleted_pod() {
    let test = TestNamespace::new("pods-delete").await;
    test.pod("quick", &[]).await;
    test.pod("lingering", &[("termination-delay", "1h")]).await;
    let pods = test.api::<Pod>();
    for name in ["quick", "lingering"] {
        let uid = test.ready(name).await.uid().unwrap();
        pods.delete(name, &DeleteParams::default()).await.unwrap();
        if name == "quick" {
            in_time(
                "the deletion of the pod quick, which has no termination delay",
                await_condition(pods.clone(), name, conditions::is_deleted(&uid)),
            )
            .await
            .unwrap();
        }
    }
    test.pod_where("lingering", "leaving", |pod| pod.metadata.deletion_timestamp.is_some()).await;
}
