//! Tests what happens when a program of the control plane is killed, frozen or restarted.

use std::time::Duration;

use cluster::{Cluster, Component, Options};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::PostParams;
use kube::runtime::wait::{await_condition, conditions};
use serde_json::json;

use crate::help::in_time;

#[tokio::test]
async fn pods_start_after_the_api_server_recovers() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let nodes: Api<Node> = Api::all(cluster.client());

    cluster.kill(Component::Apiserver).await.unwrap();
    nodes.get("node-1").await.unwrap_err();
    cluster.restart(Component::Apiserver).await.unwrap();
    nodes.get("node-1").await.unwrap();

    cluster.freeze(Component::Apiserver).await.unwrap();
    let response = tokio::time::timeout(Duration::from_millis(300), nodes.get("node-1")).await;
    // The request should time out. An error is acceptable, too, because the client may close an old connection. Only
    // a response must fail the test.
    assert!(!matches!(response, Ok(Ok(_))), "a frozen API server must not respond");
    cluster.thaw(Component::Apiserver).await.unwrap();
    in_time("a response from the thawed API server", nodes.get("node-1")).await.unwrap();

    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let pod = json!({ "metadata": { "name": "after" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    in_time("the pod running", await_condition(pods, "after", conditions::is_pod_running())).await.unwrap();
}

#[tokio::test]
async fn no_pod_starts_without_kubelets() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    cluster.kill(Component::Kwok).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let pod = json!({ "metadata": { "name": "orphan" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    // The supervisor runs, so it releases the pod. But the pod must stay Pending: only kwok could start it, and kwok
    // was killed.
    let released = |pod: Option<&Pod>| {
        let annotations = pod.and_then(|pod| pod.metadata.annotations.as_ref());
        annotations.is_some_and(|all| all.contains_key("kwok.osdpl.dev/released"))
    };
    let pod = in_time("the pod's release", await_condition(pods, "orphan", released)).await.unwrap().unwrap();
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
}
