//! Tests of simulated nodes, of the addresses of Services with the type `LoadBalancer`, and of
//! `PersistentVolumeClaim`s.

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, Service};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::json;

use crate::help::{TestNamespace, in_time, is_ready};

#[tokio::test]
async fn node_goes_down_by_label_and_recovers() {
    let test = TestNamespace::new("nodes").await;
    let nodes: Api<Node> = Api::all(test.cluster.client());
    // The test adds a node of its own. The node is unschedulable, so that no pods of other tests run on it.
    let node = json!({ "metadata": { "name": "spare" }, "spec": { "unschedulable": true } });
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let ready = |wanted: &'static str| {
        move |node: Option<&Node>| {
            let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref()).into_iter().flatten();
            conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == wanted)
        }
    };
    in_time("the node being Ready", await_condition(nodes.clone(), "spare", ready("True"))).await.unwrap();
    let pod = |name: &str| {
        let spec = json!({ "nodeName": "spare", "containers": [{ "name": "main", "image": "image" }] });
        json!({ "metadata": { "name": name }, "spec": spec })
    };
    test.create::<Pod>(pod("before")).await;
    test.ready("before").await;

    let label =
        |value: Option<&str>| Patch::Merge(json!({ "metadata": { "labels": { "kwok.osdpl.dev/ready": value } } }));
    nodes.patch("spare", &PatchParams::default(), &label(Some("false"))).await.unwrap();
    in_time("the node going down", await_condition(nodes.clone(), "spare", ready("False"))).await.unwrap();
    test.pod_where("before", "losing readiness", |pod| !is_ready(pod)).await;

    nodes.patch("spare", &PatchParams::default(), &label(None)).await.unwrap();
    in_time("the node coming back", await_condition(nodes, "spare", ready("True"))).await.unwrap();
    test.ready("before").await;
}

#[tokio::test]
async fn load_balancer_gets_an_address() {
    let test = TestNamespace::new("balancer").await;
    let spec = json!({ "type": "LoadBalancer", "ports": [{ "port": 80 }] });
    test.create::<Service>(json!({ "metadata": { "name": "public" }, "spec": spec })).await;
    let has_address = |service: Option<&Service>| {
        let status = service.and_then(|service| service.status.as_ref()?.load_balancer.as_ref());
        status.is_some_and(|status| status.ingress.iter().flatten().any(|one| one.ip.is_some()))
    };
    in_time("an address", await_condition(test.api::<Service>(), "public", has_address)).await.unwrap();
}

#[tokio::test]
async fn default_class_binds_a_claim() {
    let test = TestNamespace::new("claims").await;
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    test.create::<PersistentVolumeClaim>(json!({ "metadata": { "name": "data" }, "spec": spec })).await;
    let bound = |claim: Option<&PersistentVolumeClaim>| {
        claim.and_then(|claim| claim.status.as_ref()?.phase.as_deref()) == Some("Bound")
    };
    let claim = await_condition(test.api::<PersistentVolumeClaim>(), "data", bound);
    let claim = in_time("the claim being bound", claim).await.unwrap().unwrap();
    assert_eq!(claim.spec.unwrap().storage_class_name.as_deref(), Some("general"));
}
