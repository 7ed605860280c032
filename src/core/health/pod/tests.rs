use serde_json::{Value, json};

use super::*;

/// Observes a pod of keystone-api with the status `status`. `metadata` adds to the pod's default metadata, or replaces
/// parts of them.
fn pod(status: &Value, metadata: &Value) -> Option<UnreadyPod> {
    let mut all = json!({
        "name": "keystone-api-7d9f-x2x", "namespace": "openstack", "uid": "u1",
        "labels": {"pod-template-hash": "7d9f"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "keystone-api-7d9f", "uid": "r", "controller": true}]
    });
    all.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    let spec = json!({
        "initContainers": [{"name": "init", "image": "quay.io/entrypoint:1"}],
        "containers": [{"name": "keystone-api", "image": "quay.io/keystone:1"}]
    });
    let (spec, status) = (serde_json::from_value(spec).unwrap(), serde_json::from_value(status.clone()).unwrap());
    observe(&serde_json::from_value(all).unwrap(), &spec, &status, &Scrubber::new(["correct-horse"]))
}

fn unready(status: &Value) -> UnreadyPod {
    pod(status, &json!({})).unwrap()
}

/// Returns the status of a pod with one container. `state` is the container's present state, and `last` its previous
/// state.
fn container(state: &Value, restarts: i32, last: &Value) -> Value {
    json!({"phase": "Running", "containerStatuses": [
        {"name": "keystone-api", "restartCount": restarts, "state": state, "lastState": last}]})
}

fn waiting(reason: &str, message: &str) -> Value {
    container(&json!({"waiting": {"reason": reason, "message": message}}), 0, &json!({}))
}

fn init(name: &str, state: &Value) -> Value {
    json!({"phase": "Pending",
        "initContainerStatuses": [{"name": name, "state": state}],
        "containerStatuses": [{"name": "keystone-api", "state": {"waiting": {"reason": "PodInitializing"}}}]})
}

fn unscheduled(message: &str) -> Value {
    json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]})
}

/// Returns the status of a pod with one container. The pod has not been ready since the time `since`, and its container
/// has run since the time `started`.
fn not_ready(since: &str, started: &str) -> Value {
    json!({"phase": "Running",
        "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": since}],
        "containerStatuses": [{"name": "keystone-api", "state": {"running": {"startedAt": started}}}]})
}

#[test]
fn describes_each_cause() {
    use Severity::{Lost, Starting, Stuck, Waiting};
    let ended = |code: i32, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});
    let running = json!({"running": {"startedAt": "2026-11-21T10:00:00Z"}});
    let looping = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting"}});
    let restarts = "container keystone-api starts again: its node or the container runtime went down";
    for (status, expected) in [
        (waiting("ImagePullBackOff", "Back-off pulling"), Some((Stuck, "ImagePullBackOff quay.io/keystone:1"))),
        (waiting("ErrImagePull", "not found"), Some((Stuck, "ImagePullBackOff quay.io/keystone:1"))),
        (waiting("InvalidImageName", ""), Some((Stuck, "InvalidImageName quay.io/keystone:1"))),
        (
            init("init", &json!({"waiting": {"reason": "ErrImagePull"}})),
            Some((Stuck, "ImagePullBackOff quay.io/entrypoint:1")),
        ),
        (
            waiting("CreateContainerConfigError", "secret \"keystone-keys\"\n not found"),
            Some((Stuck, "container keystone-api: CreateContainerConfigError: secret \"keystone-keys\" not found")),
        ),
        (container(&looping, 3, &ended(1, "Error")), Some((Stuck, "container keystone-api fails: exit code 1"))),
        (
            container(&looping, 3, &ended(0, "Completed")),
            Some((Stuck, "container keystone-api ends again and again with exit code 0")),
        ),
        (
            container(&running, 3, &ended(137, "OOMKilled")),
            Some((Stuck, "container keystone-api fails: OOMKilled, exit code 137")),
        ),
        (container(&running, 1, &ended(255, "Unknown")), Some((Starting, restarts))),
        (container(&ended(137, "ContainerStatusUnknown"), 0, &json!({})), Some((Starting, restarts))),
        (
            container(&looping, 2, &ended(255, "Unknown")),
            Some((Stuck, "container keystone-api fails: Unknown, exit code 255")),
        ),
        (container(&ended(2, "Error"), 0, &json!({})), Some((Stuck, "container keystone-api fails: exit code 2"))),
        (container(&looping, 1, &json!({})), Some((Stuck, "container keystone-api fails"))),
        (init("ceph-keyring", &ended(3, "Error")), Some((Stuck, "container ceph-keyring fails: exit code 3"))),
        (
            json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
            Some((Stuck, "Evicted: low on memory")),
        ),
        (json!({"phase": "Failed"}), Some((Stuck, "it failed"))),
        (unscheduled("0/3 nodes are available"), Some((Stuck, "it cannot be scheduled: 0/3 nodes are available"))),
        (
            unscheduled("pod has unbound immediate PersistentVolumeClaims"),
            Some((Waiting, "it cannot be scheduled: pod has unbound immediate PersistentVolumeClaims")),
        ),
        (init("init", &running), Some((Waiting, "waits in init container init"))),
        (init("ceph-keyring", &running), Some((Waiting, "runs init container ceph-keyring"))),
        (not_ready("2026-11-21T10:05:00Z", "2026-11-21T10:00:00Z"), Some((Lost, "it is no longer ready"))),
        (waiting("ContainerCreating", ""), Some((Starting, "Kubernetes is mounting volumes or creating containers"))),
        (not_ready("2026-11-21T10:00:00Z", "2026-11-21T10:00:02Z"), None),
        (container(&running, 0, &json!({})), None),
        (json!({"phase": "Pending"}), None),
    ] {
        let cause = unready(&status).cause;
        let found = cause.as_ref().map(|cause| (cause.severity, cause.message.as_str()));
        assert_eq!(found, expected, "{status}");
    }
}

#[test]
fn ignores_past_failures_of_ready_containers() {
    let status = json!({"phase": "Running", "containerStatuses": [
        {"name": "sidecar", "ready": true, "restartCount": 1, "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1}}},
        {"name": "keystone-api", "ready": false, "state": {"running": {}}}]});
    assert_eq!(unready(&status).cause, None);
}

#[test]
fn names_failed_container_and_its_log() {
    let ended = json!({"terminated": {"exitCode": 1}});
    let looping = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    for (status, restarts, previous) in [
        (container(&looping, 3, &ended), 3, false),
        (container(&json!({"running": {}}), 3, &ended), 3, true),
        (container(&ended, 0, &json!({})), 0, false),
    ] {
        let expected = FailedContainer { container: "keystone-api".into(), restarts, previous };
        assert_eq!(unready(&status).cause.unwrap().failing, Some(expected), "{status}");
    }
    assert_eq!(unready(&waiting("ErrImagePull", "")).cause.unwrap().failing, None);
}

#[test]
fn skips_ready_and_finished_pods() {
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    assert_eq!(pod(&ready, &json!({})), None);
    assert_eq!(pod(&json!({"phase": "Succeeded"}), &json!({})), None);
    let terminating = pod(&json!({"phase": "Running"}), &json!({"deletionTimestamp": "2026-11-21T00:00:00Z"})).unwrap();
    assert_eq!(terminating.cause.map(|cause| cause.severity), Some(Severity::Terminating));
}

#[test]
fn finds_the_controlling_owner() {
    let made_by = |kind: &str, name: &str, controller: bool| json!({"ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": name, "uid": "o", "controller": controller}]});
    for (metadata, expected) in [
        (json!({}), Some((OwnerKind::Deployment, "keystone-api"))),
        (made_by("StatefulSet", "mariadb-server", true), Some((OwnerKind::StatefulSet, "mariadb-server"))),
        (made_by("DaemonSet", "openvswitch", true), Some((OwnerKind::DaemonSet, "openvswitch"))),
        (made_by("Job", "nova-db-sync", true), Some((OwnerKind::Job, "nova-db-sync"))),
        (made_by("Job", "nova-db-sync", false), None),
        (made_by("Node", "n1", true), None),
        (made_by("ReplicaSet", "made-by-hand", true), None),
        (json!({"ownerReferences": null}), None),
    ] {
        let owner = pod(&json!({}), &metadata).map(|pod| pod.owner);
        assert_eq!(owner.as_ref().map(|owner| (owner.kind, owner.name.as_str())), expected, "{metadata}");
    }
}

#[test]
fn shortens_foreign_messages_to_one_line() {
    let cause = unready(&unscheduled(&"ü \n".repeat(1000))).cause.unwrap();
    assert!(cause.message.chars().count() < 300 && cause.message.ends_with('…') && !cause.message.contains('\n'));
}

/// The kubelet's message about a failed hook contains the command of the hook and the output of this command.
#[test]
fn foreign_messages_show_no_secret() {
    let hook = "Exec lifecycle hook ([mysql --password=hunter2]) failed - error: exited with 1, message: \"denied for \
        \u{1b}[1mcorrect-\u{1b}[0mhorse\"";
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "correct-horse uses too much memory"});
    for (status, expected) in [
        (
            waiting("PostStartHookError", hook),
            "container keystone-api: PostStartHookError: Exec lifecycle hook ([mysql --password=[redacted]]) failed - \
             error: exited with 1, message: \"denied for [redacted]\"",
        ),
        (evicted, "Evicted: [redacted] uses too much memory"),
        (unscheduled("no node has correct-horse"), "it cannot be scheduled: no node has [redacted]"),
    ] {
        assert_eq!(unready(&status).cause.unwrap().message, expected, "{status}");
    }
}

#[test]
fn keeps_mounts_only_while_containers_are_created() {
    let volumes = json!([
        {"name": "etc", "secret": {"secretName": "keystone-etc"}}, {"name": "bin", "configMap": {"name": "keystone-bin"}},
        {"name": "maybe", "secret": {"secretName": "ca", "optional": true}}, {"name": "tmp", "emptyDir": {}},
        {"name": "both", "projected": {"sources": [{"secret": {"name": "keys"}}, {"configMap": {"name": "keystone-bin"}}]}},
    ]);
    let spec: Spec = serde_json::from_value(json!({"volumes": volumes})).unwrap();
    let metadata = json!({"name": "p", "uid": "u", "ownerReferences":
        [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "o", "controller": true}]});
    let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
    let mounts = |status: &Value| {
        let status = serde_json::from_value(status.clone()).unwrap();
        observe(&metadata, &spec, &status, &Scrubber::default())
            .unwrap()
            .requirements
            .mounts
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let creating = mounts(&waiting("ContainerCreating", ""));
    assert_eq!(creating, ["Secret keys", "Secret keystone-etc", "ConfigMap keystone-bin"]);
    assert_eq!(mounts(&waiting("ImagePullBackOff", "")), [""; 0]);
}
