//! Tests that pods wait for the objects that their init containers, volumes and environment need, and start as soon as
//! these objects are available.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod, Secret, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, LogParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::help::{TestNamespace, annotation, in_time, is_ready, waiting};

/// Returns a pod whose init container runs kubernetes-entrypoint with these environment variables.
fn entrypoint(name: &str, variables: &[(&str, &str)]) -> Value {
    let all = [("POD_NAME", name), ("DEPENDENCY_SERVICE", "")].into_iter();
    let given = |name: &str| variables.iter().any(|(given, _)| *given == name);
    let all = all.filter(|(name, _)| !given(name)).chain(variables.iter().copied());
    let env: Vec<Value> = all.map(|(name, value)| json!({ "name": name, "value": value })).collect();
    json!({
        "metadata": { "name": name },
        "spec": {
            "initContainers": [{ "name": "init", "image": "entrypoint", "env": env }],
            "containers": [{ "name": "main", "image": "image" }],
        },
    })
}

/// Returns a predicate: whether the pod waits for the objects in `text`, according to the pod's annotation and status.
fn waits_for(text: &str) -> impl Fn(&Pod) -> bool + Send {
    let text = text.to_string();
    // The annotation alone is not enough: after the supervisor writes it, kwok needs time to write the status.
    move |pod| annotation(pod, "waits-for") == Some(&text) && waiting(pod).is_some()
}

/// Returns a predicate: whether the pod waits for the objects in `text`, and its container has this reason for waiting.
/// The predicate is false while the container has a different reason, which kwok may write first.
fn waits_as(reason: &'static str, text: &str) -> impl Fn(&Pod) -> bool + Send {
    let waits = waits_for(text);
    move |pod| waits(pod) && waiting(pod).as_deref() == Some(reason)
}

#[tokio::test]
async fn waits_for_a_service_and_a_job() {
    let test = TestNamespace::new("waits-service").await;
    let variables = [("DEPENDENCY_SERVICE", "waits-service:mariadb"), ("DEPENDENCY_JOBS", "db-sync")];
    test.create::<Pod>(entrypoint("api", &variables)).await;
    let message = "service waits-service/mariadb; job waits-service/db-sync";
    test.pod_where("api", "waiting for the Service and the Job", waits_as("PodInitializing", message)).await;
    let log = test.api::<Pod>().logs("api", &LogParams { container: Some("init".into()), ..Default::default() }).await;
    assert!(log.unwrap().contains("Resolving dependency service waits-service/mariadb failed\n"));

    test.job("db-sync", "OnFailure", &[]).await;
    test.pod_where("api", "waiting only for Service mariadb", waits_for("service waits-service/mariadb")).await;

    let spec = json!({ "selector": { "application": "mariadb" }, "ports": [{ "port": 3306 }] });
    test.create::<Service>(json!({ "metadata": { "name": "mariadb" }, "spec": spec })).await;
    let spec = json!({ "containers": [{ "name": "main", "image": "image" }] });
    let metadata = json!({ "name": "mariadb-0", "labels": { "application": "mariadb" } });
    test.create::<Pod>(json!({ "metadata": metadata, "spec": spec })).await;
    let api = test.ready("api").await;
    let mariadb = test.api::<Pod>().get("mariadb-0").await.unwrap();
    let since = |pod: &Pod| {
        let conditions = pod.status.clone().unwrap().conditions.unwrap();
        conditions.into_iter().find(|one| one.type_ == "Ready").unwrap().last_transition_time.unwrap().0
    };
    assert!(since(&mariadb) <= since(&api));
    assert_eq!(annotation(&api, "waits-for"), None);
}

#[tokio::test]
async fn job_with_endless_wait_never_completes() {
    let test = TestNamespace::new("waits-job").await;
    let pod = entrypoint("unused", &[("DEPENDENCY_JOBS", "db-init")]);
    let mut spec = pod["spec"].clone();
    spec["restartPolicy"] = json!("OnFailure");
    test.create::<Job>(json!({ "metadata": { "name": "db-sync" }, "spec": { "template": { "spec": spec } } })).await;
    let pod = test.pod_of_job("db-sync", "waiting for db-init", waits_for("job waits-job/db-init")).await;
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
    test.job("db-init", "OnFailure", &[]).await;
    in_time("both Jobs completing", await_condition(test.api::<Job>(), "db-sync", conditions::is_job_completed()))
        .await
        .unwrap();
}

#[tokio::test]
async fn waits_for_a_pod_on_the_same_node() {
    let test = TestNamespace::new("waits-node").await;
    let json = r#"[{"labels":{"component":"agent"},"requireSameNode":true}]"#;
    let mut compute = entrypoint("compute", &[("DEPENDENCY_POD_JSON", json)]);
    compute["spec"]["nodeName"] = json!("node-1");
    test.create::<Pod>(compute).await;
    let agent = |name: &str, node: &str| {
        let spec = json!({ "nodeName": node, "containers": [{ "name": "main", "image": "image" }] });
        json!({ "metadata": { "name": name, "labels": { "component": "agent" } }, "spec": spec })
    };
    test.create::<Pod>(agent("elsewhere", "node-2")).await;
    test.ready("elsewhere").await;
    test.pod_where("compute", "still waiting", waits_for("pod in waits-node on node-1 with component=agent")).await;
    test.create::<Pod>(agent("here", "node-1")).await;
    test.ready("compute").await;
}

#[tokio::test]
async fn waits_for_a_missing_secret_volume() {
    let test = TestNamespace::new("waits-volume").await;
    let volume = json!({ "name": "etc", "secret": { "secretName": "glance-etc" } });
    let spec = json!({ "containers": [{ "name": "main", "image": "image" }], "volumes": [volume] });
    test.create::<Pod>(json!({ "metadata": { "name": "glance" }, "spec": spec })).await;
    let pod = test
        .pod_where("glance", "waiting", waits_as("ContainerCreating", "secret waits-volume/glance-etc (etc)"))
        .await;
    assert!(pod.status.unwrap().pod_ip.is_none());
    let failed = |event: &Event| event.reason.as_deref() == Some("FailedMount");
    let events = || async {
        loop {
            let events = test.api::<Event>().list(&ListParams::default()).await.unwrap().items;
            if events.iter().any(failed) {
                return;
            }
        }
    };
    in_time("the event", events()).await;
    test.create::<Secret>(json!({ "metadata": { "name": "glance-etc" } })).await;
    test.ready("glance").await;
}

#[tokio::test]
async fn waits_for_a_missing_environment_secret() {
    let test = TestNamespace::new("waits-environment").await;
    let container = json!({ "name": "main", "image": "image", "envFrom": [{ "secretRef": { "name": "keys" } }] });
    test.create::<Pod>(json!({ "metadata": { "name": "api" }, "spec": { "containers": [container] } })).await;
    let is_reported = waits_as("CreateContainerConfigError", "secret waits-environment/keys (main)");
    test.pod_where("api", "waiting", is_reported).await;
    test.create::<Secret>(json!({ "metadata": { "name": "keys" } })).await;
    test.ready("api").await;
}

#[tokio::test]
async fn waits_for_a_later_defined_custom_resource() {
    let test = TestNamespace::new("waits-custom").await;
    let wanted = r#"[{"apiVersion":"tests.osdpl.dev/v1","kind":"Database","name":"glance",
                      "fields":[{"key":"spec.phase","value":"Ready"}]}]"#;
    test.create::<Pod>(entrypoint("api", &[("DEPENDENCY_CUSTOM_RESOURCE", wanted)])).await;
    test.pod_where("api", "waiting", waits_for("database waits-custom/glance")).await;

    let crds: Api<CustomResourceDefinition> = Api::all(test.cluster.client());
    let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let definition = json!({
        "metadata": { "name": "databases.tests.osdpl.dev" },
        "spec": {
            "group": "tests.osdpl.dev", "scope": "Namespaced", "names": { "kind": "Database", "plural": "databases" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
        },
    });
    let definition = crds.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
    let established = await_condition(crds, "databases.tests.osdpl.dev", conditions::is_crd_established());
    in_time("the kind's definition", established).await.unwrap();

    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("tests.osdpl.dev", "v1", "Database"));
    let databases: Api<DynamicObject> = Api::namespaced_with(test.cluster.client(), "waits-custom", &resource);
    let database = json!({
        "apiVersion": "tests.osdpl.dev/v1", "kind": "Database",
        "metadata": { "name": "glance" }, "spec": { "phase": "Ready" },
    });
    databases.create(&PostParams::default(), &serde_json::from_value(database).unwrap()).await.unwrap();
    assert!(is_ready(&test.ready("api").await));
    assert_eq!(definition.name_any(), "databases.tests.osdpl.dev");
}
