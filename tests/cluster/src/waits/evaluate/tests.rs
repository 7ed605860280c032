//! Tests which annotations the supervisor sets on a pod. The pod and the objects that it waits for are only in memory.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::Event;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::waits::rules;
use crate::waits::world::{Change, Touched};

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Returns the state of a cluster with two Ready nodes, `node-1` and `node-2`, after these changes.
fn world(changes: Vec<Change>) -> World {
    let mut world = World::default();
    let node = |name: &str| {
        let status = json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
        Change::Node(Event::Apply(object(json!({ "metadata": { "name": name }, "status": status }))))
    };
    for change in [node("node-1"), node("node-2")].into_iter().chain(changes) {
        world.apply(change, &mut Touched::default());
    }
    world
}

fn pod(name: &str, more: Value) -> Value {
    let mut pod = json!({
        "metadata": { "name": name, "namespace": "openstack", "uid": name },
        "spec": { "nodeName": "node-1", "containers": [] },
        "status": { "phase": "Pending" },
    });
    merge(&mut pod, more);
    pod
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn apply(pod: &Value) -> Change {
    Change::Pod(Event::Apply(object(pod.clone())))
}

/// Returns a pod whose init container runs kubernetes-entrypoint with this environment variable.
fn waiting(variable: &str, value: &str) -> Value {
    let env = json!([{ "name": "DEPENDENCY_SERVICE", "value": "" }, { "name": variable, "value": value }]);
    pod("me", json!({ "spec": { "initContainers": [{ "name": "init", "env": env }] } }))
}

fn evaluated(pod: &Value, changes: Vec<Change>) -> Annotations {
    let world = world(changes.into_iter().chain([apply(pod)]).collect());
    let name = pod["metadata"]["name"].as_str().unwrap();
    let (key, pod) = world.pods().find(|(key, _)| key.name == name).unwrap();
    evaluate(key, pod, &world)
}

fn is_released_by(pod: &Value, changes: Vec<Change>) -> bool {
    evaluated(pod, changes).get("released") == Some(&Some("true".into()))
}

fn waits_for(pod: &Value, changes: Vec<Change>) -> String {
    evaluated(pod, changes).remove("waits-for").flatten().unwrap_or_default()
}

fn slice(service: &str, ready: bool) -> Change {
    Change::Slice(Event::Apply(object(json!({
        "metadata": { "name": format!("{service}-x"), "namespace": "openstack", "labels": { "kubernetes.io/service-name": service } },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.0.0.1"], "conditions": { "ready": ready } }],
    }))))
}

fn job(name: &str, succeeded: i32) -> Change {
    let metadata = json!({ "name": name, "namespace": "openstack", "labels": { "kind": "sync" } });
    Change::Job(Event::Apply(object(json!({ "metadata": metadata, "status": { "succeeded": succeeded } }))))
}

fn agent(name: &str, node: &str, ready: &str) -> Change {
    apply(&pod(
        name,
        json!({
            "metadata": { "labels": { "component": "agent" } },
            "spec": { "nodeName": node },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] },
        }),
    ))
}

#[test]
fn releases_a_scheduled_pod_without_dependencies() {
    assert!(is_released_by(&pod("me", json!({})), vec![]));
    assert_eq!(evaluated(&pod("me", json!({ "spec": { "nodeName": null } })), vec![]), Annotations::new());
}

#[test]
fn service_blocks_until_an_endpoint_is_ready() {
    let env = json!([{ "name": "DEPENDENCY_SERVICE", "value": "openstack:mariadb" }]);
    let me = pod("me", json!({ "spec": { "initContainers": [{ "name": "init", "env": env }] } }));
    assert_eq!(waits_for(&me, vec![]), "service openstack/mariadb");
    assert_eq!(waits_for(&me, vec![slice("mariadb", false)]), "service openstack/mariadb");
    assert!(is_released_by(&me, vec![slice("mariadb", true)]));
}

#[test]
fn job_blocks_until_it_succeeds() {
    let me = waiting("DEPENDENCY_JOBS", "db-sync");
    assert_eq!(waits_for(&me, vec![job("db-sync", 0)]), "job openstack/db-sync");
    assert!(is_released_by(&me, vec![job("db-sync", 1)]));
}

#[test]
fn labelled_jobs_block_until_all_succeed() {
    let me = waiting("DEPENDENCY_JOBS_JSON", r#"[{"labels":{"kind":"sync"}}]"#);
    assert_eq!(waits_for(&me, vec![]), "jobs in openstack with kind=sync");
    assert_eq!(waits_for(&me, vec![job("a", 1), job("b", 0)]), "jobs in openstack with kind=sync");
    assert!(is_released_by(&me, vec![job("a", 1), job("b", 1)]));
}

#[test]
fn requires_a_ready_pod_on_the_same_node() {
    let me = waiting("DEPENDENCY_POD_JSON", r#"[{"labels":{"component":"agent"},"requireSameNode":true}]"#);
    assert_eq!(waits_for(&me, vec![agent("a", "node-2", "True")]), "pod in openstack on node-1 with component=agent");
    assert!(!is_released_by(&me, vec![agent("a", "node-1", "False")]));
    assert!(is_released_by(&me, vec![agent("a", "node-1", "True")]));
}

#[test]
fn daemon_set_blocks_until_its_local_pod_is_ready() {
    let set = || {
        let selector = json!({ "matchLabels": { "component": "agent" } });
        let spec = json!({ "selector": selector, "template": {} });
        Change::DaemonSet(Event::Apply(object(
            json!({ "metadata": { "name": "ovs", "namespace": "openstack" }, "spec": spec }),
        )))
    };
    let me = waiting("DEPENDENCY_DAEMONSET", "ovs");
    assert_eq!(waits_for(&me, vec![]), "daemonset openstack/ovs");
    assert!(!is_released_by(&me, vec![set(), agent("a", "node-1", "False"), agent("b", "node-2", "True")]));
    assert!(is_released_by(&me, vec![set(), agent("a", "node-1", "True")]));
}

#[test]
fn custom_resource_needs_fields_and_conditions() {
    let wanted = r#"[{"apiVersion":"a.b/v1","kind":"Database","name":"glance",
                      "fields":[{"key":"status.phase","value":"Done"}],"conditions":[{"type":"Ready"}]}]"#;
    let me = waiting("DEPENDENCY_CUSTOM_RESOURCE", wanted);
    let kind = || crate::waits::needs::CustomKind {
        api_version: "a.b/v1".into(),
        kind: "Database".into(),
        namespace: "openstack".into(),
    };
    let database = |phase: &str| {
        let status = json!({ "phase": phase, "conditions": [{ "type": "Ready", "status": "True" }] });
        Change::Custom(kind(), Event::Apply(object(json!({ "metadata": { "name": "glance" }, "status": status }))))
    };
    assert_eq!(waits_for(&me, vec![]), "database openstack/glance");
    assert!(!is_released_by(&me, vec![database("Doing")]));
    assert!(is_released_by(&me, vec![database("Done")]));
}

#[test]
fn checks_volumes_then_entrypoint_then_environment() {
    let mut me = waiting("DEPENDENCY_JOBS", "db-sync");
    merge(
        &mut me,
        json!({ "spec": {
        "volumes": [{ "name": "etc", "secret": { "secretName": "glance-etc" } }],
        "containers": [{ "name": "api", "envFrom": [{ "secretRef": { "name": "keys" } }] }],
    } }),
    );
    let secret = |name: &str| {
        Change::Secret(Event::Apply(object(json!({ "metadata": { "name": name, "namespace": "openstack" } }))))
    };
    let stage = |changes| evaluated(&me, changes).remove("waits-in").flatten();
    assert_eq!(stage(vec![]).as_deref(), Some("volumes"));
    assert_eq!(stage(vec![secret("glance-etc")]).as_deref(), Some("init"));
    assert_eq!(stage(vec![secret("glance-etc"), job("db-sync", 1)]).as_deref(), Some("config"));
    assert_eq!(waits_for(&me, vec![secret("glance-etc"), job("db-sync", 1)]), "secret openstack/keys (api)");
    assert!(is_released_by(&me, vec![secret("glance-etc"), job("db-sync", 1), secret("keys")]));
}

#[test]
fn released_pod_is_never_blocked_again() {
    let mut me = waiting("DEPENDENCY_JOBS", "db-sync");
    merge(&mut me, json!({ "metadata": { "annotations": { "kwok.osdpl.dev/released": "true" } } }));
    assert_eq!(evaluated(&me, vec![]), Annotations::new());
}

#[test]
fn nothing_starts_on_a_node_that_is_down() {
    let down = || {
        let status = json!({ "conditions": [{ "type": "Ready", "status": "False" }] });
        Change::Node(Event::Apply(object(json!({ "metadata": { "name": "node-1" }, "status": status }))))
    };
    let judgement = evaluated(&pod("me", json!({})), vec![down()]);
    assert_eq!(judgement, [("node-ready".to_string(), Some("false".to_string()))].into());
}

fn faults(rule: &str) -> Change {
    let map: ConfigMap =
        object(json!({ "metadata": { "name": rules::FAULTS, "uid": "f" }, "data": { "rule-1": rule } }));
    Change::Faults(Event::Apply(map))
}

#[test]
fn fault_rule_is_applied_with_the_release() {
    let judgement = evaluated(&pod("me", json!({})), vec![faults("{name: me, behaviour: fail, exitCode: 3}")]);
    for (key, value) in [("released", "true"), ("behaviour", "fail"), ("exit-code", "3"), ("rule", "rule-1")] {
        assert_eq!(judgement.get(key), Some(&Some(value.to_string())), "{key}: {judgement:?}");
    }
}

#[test]
fn deleted_rule_removes_only_its_settings() {
    let ours = json!({ "kwok.osdpl.dev/released": "true", "kwok.osdpl.dev/rule": "rule-1", "kwok.osdpl.dev/behaviour": "fail" });
    let me = pod("me", json!({ "metadata": { "annotations": ours } }));
    assert_eq!(evaluated(&me, vec![]), [("behaviour".to_string(), None), ("rule".to_string(), None)].into());
    let own = json!({ "kwok.osdpl.dev/released": "true", "kwok.osdpl.dev/behaviour": "fail" });
    assert_eq!(evaluated(&pod("me", json!({ "metadata": { "annotations": own } })), vec![]), Annotations::new());
}

#[test]
fn fail_once_ends_after_an_earlier_failed_pod() {
    let owner = json!([{ "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job-uid", "controller": true }]);
    let annotations = json!({ "kwok.osdpl.dev/behaviour": "fail-once" });
    let of_job = |name: &str, phase: &str| {
        let metadata = json!({ "ownerReferences": owner, "annotations": annotations });
        pod(name, json!({ "metadata": metadata, "spec": { "restartPolicy": "Never" }, "status": { "phase": phase } }))
    };
    let me = of_job("me", "Pending");
    assert_eq!(evaluated(&me, vec![]).get("failed-before"), None);
    let after = evaluated(&me, vec![apply(&of_job("first", "Failed"))]);
    assert_eq!(after.get("failed-before"), Some(&Some("true".to_string())));
}
