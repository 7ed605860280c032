use serde_json::{Value, json};

use super::*;

fn metadata(labels: &Value) -> ObjectMeta {
    serde_json::from_value(json!({
        "name": "keystone-api", "namespace": "openstack", "generation": 7, "labels": labels,
        "annotations": {release::RELEASE_NAME_ANNOTATION: "keystone"}
    }))
    .unwrap()
}

fn observed(kind: WorkloadKind, spec: Value, status: Value) -> Workload {
    let spec: Spec = serde_json::from_value(spec).unwrap();
    let status: Status = serde_json::from_value(status).unwrap();
    observe(kind, &metadata(&json!({"application": "keystone", "component": "api"})), &spec, &status).unwrap()
}

#[test]
fn reads_counts_of_each_kind() {
    use WorkloadKind::{DaemonSet, Deployment, StatefulSet};
    let rolling = json!({"replicas": 3, "updatedReplicas": 2, "readyReplicas": 2, "observedGeneration": 7});
    let daemon =
        json!({"desiredNumberScheduled": 5, "numberReady": 4, "updatedNumberScheduled": 3, "numberMisscheduled": 9});
    let on_delete = json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}});
    let partitioned = |partition| json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
    for (kind, spec, status, (desired, ready, updated, outdated)) in [
        (Deployment, json!({"replicas": 2}), rolling.clone(), (2, 2, 2, 1)),
        // The default of Kubernetes, and a controller that has not observed the object yet.
        (Deployment, json!({}), json!({}), (1, 0, 0, 0)),
        (Deployment, json!({"replicas": 0}), json!({}), (0, 0, 0, 0)),
        (StatefulSet, json!({"replicas": 3}), rolling.clone(), (3, 2, 2, 0)),
        (StatefulSet, partitioned(1), rolling.clone(), (3, 2, 3, 0)),
        (StatefulSet, partitioned(0), rolling.clone(), (3, 2, 2, 0)),
        (StatefulSet, on_delete.clone(), json!({"readyReplicas": 3}), (3, 3, 3, 0)),
        (DaemonSet, json!({}), daemon.clone(), (5, 4, 3, 0)),
        (DaemonSet, on_delete, daemon, (5, 4, 5, 0)),
        (DaemonSet, json!({}), json!({"observedGeneration": 7}), (0, 0, 0, 0)),
    ] {
        let workload = observed(kind, spec.clone(), status.clone());
        let counts = (workload.desired, workload.ready, workload.updated, workload.outdated_pods);
        assert_eq!(counts, (desired, ready, updated, outdated), "{kind:?} {spec} {status}");
        assert_eq!(workload.generation, 7);
    }
}

#[test]
fn counts_stale_pods_with_on_delete_strategy() {
    let status = json!({"desiredNumberScheduled": 5, "numberReady": 5, "updatedNumberScheduled": 3});
    let of = |kind, spec: Value| observed(kind, spec, status.clone()).on_delete.map(|own| own.stale);
    let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
    assert_eq!(of(WorkloadKind::DaemonSet, on_delete.clone()), Some(2));
    assert_eq!(of(WorkloadKind::DaemonSet, json!({})), None);
    assert_eq!(of(WorkloadKind::StatefulSet, on_delete), None);
}

#[test]
fn deployment_was_available_after_complete_rollout() {
    let progressing = |status, reason| {
        json!({"conditions": [
        {"type": "Available", "status": "False"}, {"type": "Progressing", "status": status, "reason": reason}]})
    };
    for (kind, status, expected) in [
        (WorkloadKind::Deployment, progressing("True", "NewReplicaSetAvailable"), true),
        (WorkloadKind::Deployment, progressing("True", "ReplicaSetUpdated"), false),
        (WorkloadKind::Deployment, progressing("False", "ProgressDeadlineExceeded"), false),
        (WorkloadKind::Deployment, json!({}), false),
    ] {
        assert_eq!(observed(kind, json!({}), status.clone()).was_available, expected, "{status}");
    }
}

#[test]
fn component_falls_back_to_pod_labels_and_names() {
    let both = json!({"application": "nova", "component": "compute"});
    let template = |labels: &Value| json!({"template": {"metadata": {"labels": labels}}});
    for (labels, spec, expected) in [
        (both.clone(), json!({}), "nova/compute"),
        (json!(null), template(&both), "nova/compute"),
        (json!({"application": "nova"}), template(&both), "nova/compute"),
        (both.clone(), template(&json!({"application": "x", "component": "y"})), "nova/compute"),
        (json!({"app": "x"}), json!({}), "keystone/keystone-api"),
    ] {
        let spec: Spec = serde_json::from_value(spec).unwrap();
        let workload = observe(WorkloadKind::Deployment, &metadata(&labels), &spec, &Status::default()).unwrap();
        assert_eq!(workload.component.to_string(), expected, "{labels}");
    }
}

#[test]
fn ignores_workloads_not_owned_by_helm() {
    let metadata = ObjectMeta { annotations: None, ..metadata(&json!({})) };
    assert_eq!(observe(WorkloadKind::Deployment, &metadata, &Spec::default(), &Status::default()), None);
}
