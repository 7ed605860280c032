//! Reads the fields of a Deployment, `StatefulSet` or `DaemonSet` on which its health depends.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::{Condition, pod_creation, storage};
use crate::catalog::{Component, WorkloadKind};
use crate::observed::{Issue, OnDelete, Workload};
use crate::release;
use crate::scrub::Scrubber;

/// The reason in a Deployment's condition `Progressing` after the rollout of the newest pod template is complete.
/// Kubernetes keeps this reason even if pods fail later (`deploymentutil.NewRSAvailableReason`).
const ROLLED_OUT: &str = "NewReplicaSetAvailable";

/// The fields that osdpl reads in the `spec` of a Deployment, `StatefulSet` or `DaemonSet`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    replicas: Option<i32>,
    update_strategy: Strategy,
    /// The template from which Kubernetes creates the workload's pods.
    pub template: Template,
    volume_claim_templates: Vec<ClaimTemplate>,
}

/// The template from which Kubernetes creates the volume claims of a `StatefulSet`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimTemplate {
    spec: storage::Spec,
}

/// The update strategy with which Kubernetes replaces a workload's pods after a change of the pod template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Strategy {
    #[serde(rename = "type")]
    kind: String,
    rolling_update: Option<RollingUpdate>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RollingUpdate {
    partition: Option<i32>,
}

/// The template from which Kubernetes creates the pods of a workload or Job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Template {
    metadata: TemplateMetadata,
    spec: TemplateSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TemplateSpec {
    node_selector: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateMetadata {
    labels: Option<BTreeMap<String, String>>,
}

/// The fields that osdpl reads in the `status` of a Deployment, `StatefulSet` or `DaemonSet`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    observed_generation: i64,
    replicas: i32,
    ready_replicas: i32,
    updated_replicas: i32,
    desired_number_scheduled: i32,
    number_ready: i32,
    number_misscheduled: i32,
    updated_number_scheduled: i32,
    conditions: Vec<Condition>,
}

/// Converts a workload of the API server to osdpl's type; returns `None` if the workload has no annotation of a helm
/// release.
///
/// The field `trouble` of the result is set only for a Deployment whose pods Kubernetes can't create. This function
/// does not see the problems of existing pods; the operator adds them to `trouble` later.
///
/// `scrubber` removes secrets from the message of Kubernetes in `trouble`.
pub fn observe(
    kind: WorkloadKind,
    metadata: &ObjectMeta,
    spec: &Spec,
    status: &Status,
    scrubber: &Scrubber,
) -> Option<Workload> {
    let release = metadata.annotations.as_ref()?.get(release::RELEASE_NAME_ANNOTATION)?.clone();
    let name = metadata.name.clone()?;
    let desired = desired(kind, spec, status);
    Some(Workload {
        kind,
        namespace: metadata.namespace.clone().unwrap_or_default(),
        component: component(metadata, &spec.template, &release, &name),
        name,
        release,
        generation: metadata.generation.unwrap_or_default(),
        observed_generation: status.observed_generation,
        desired,
        ready: if kind == WorkloadKind::DaemonSet { status.number_ready } else { status.ready_replicas },
        updated: updated(kind, spec, status, desired),
        on_delete: on_delete(kind, metadata, spec, status),
        outdated_pods: match kind {
            WorkloadKind::Deployment => (status.replicas - status.updated_replicas).max(0),
            // Only a Deployment can run outdated pods in addition to the desired number of new pods. For a StatefulSet
            // or DaemonSet, the difference between `desired` and `updated` shows the outdated pods.
            WorkloadKind::StatefulSet | WorkloadKind::DaemonSet => 0,
        },
        was_available: kind == WorkloadKind::Deployment && rolled_out(status),
        node_selector: if kind == WorkloadKind::DaemonSet { spec.template.selects() } else { String::new() },
        misscheduled: status.number_misscheduled,
        claim_size: spec.volume_claim_templates.first().map(|template| template.spec.size().to_owned()),
        lost_nodes: Vec::new(),
        trouble: pod_creation::of_deployment(&status.conditions, scrubber)
            .map(|message| Issue { stuck: true, message }),
    })
}

fn desired(kind: WorkloadKind, spec: &Spec, status: &Status) -> i32 {
    match kind {
        // If the spec has no `replicas`, Kubernetes runs one pod.
        WorkloadKind::Deployment | WorkloadKind::StatefulSet => spec.replicas.unwrap_or(1),
        WorkloadKind::DaemonSet => status.desired_number_scheduled,
    }
}

fn updated(kind: WorkloadKind, spec: &Spec, status: &Status, desired: i32) -> i32 {
    let strategy = &spec.update_strategy;
    if strategy.kind == "OnDelete" {
        return desired;
    }
    match kind {
        WorkloadKind::Deployment => status.updated_replicas,
        WorkloadKind::DaemonSet => status.updated_number_scheduled,
        WorkloadKind::StatefulSet => {
            // Kubernetes keeps the older pod template on purpose for pods whose ordinal is below the partition. Do not
            // count these pods as outdated.
            let kept = strategy.rolling_update.as_ref().and_then(|rolling| rolling.partition).unwrap_or(0);
            if status.updated_replicas >= desired - kept { desired } else { status.updated_replicas }
        }
    }
}

fn on_delete(kind: WorkloadKind, metadata: &ObjectMeta, spec: &Spec, status: &Status) -> Option<OnDelete> {
    if kind != WorkloadKind::DaemonSet || spec.update_strategy.kind != "OnDelete" {
        return None;
    }
    // `updated_number_scheduled` is the number of nodes whose pod has the newest pod template. Kubernetes counts these
    // nodes with every strategy, including `OnDelete` (`daemon.updateDaemonSetStatus`). So `stale` is the number of
    // nodes without such a pod.
    let stale = (status.desired_number_scheduled - status.updated_number_scheduled).max(0);
    Some(OnDelete { uid: metadata.uid.clone().unwrap_or_default(), stale })
}

fn rolled_out(status: &Status) -> bool {
    let progressing = status.conditions.iter().find(|condition| condition.kind == "Progressing");
    progressing.is_some_and(|condition| condition.status == "True" && condition.reason == ROLLED_OUT)
}

/// Returns the component of a workload, from the labels `application` and `component` of the workload or of its pod
/// template.
///
/// The pod template matters, because for some workloads, upstream labels only the pods. If neither the workload nor its
/// pod template has the labels, `application` is the name of the release, and `component` is the name of the workload.
pub(super) fn component(metadata: &ObjectMeta, template: &Template, release: &str, name: &str) -> Component {
    let of = |labels: Option<&BTreeMap<String, String>>| {
        let labels = labels?;
        Some(Component { application: labels.get("application")?.clone(), component: labels.get("component")?.clone() })
    };
    of(metadata.labels.as_ref())
        .or_else(|| of(template.labels()))
        .unwrap_or_else(|| Component { application: release.to_owned(), component: name.to_owned() })
}

impl Template {
    fn selects(&self) -> String {
        let labels: Vec<_> = self.spec.node_selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
        labels.join(",")
    }

    /// Returns the labels of the pods that Kubernetes creates from this template.
    pub fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.metadata.labels.as_ref()
    }
}

#[cfg(test)]
mod tests {
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
        let metadata = metadata(&json!({"application": "keystone", "component": "api"}));
        observe(kind, &metadata, &spec, &status, &Scrubber::default()).unwrap()
    }

    /// Observes a Deployment that has no status yet.
    fn observe_new(metadata: &ObjectMeta, spec: &Spec) -> Option<Workload> {
        observe(WorkloadKind::Deployment, metadata, spec, &Status::default(), &Scrubber::default())
    }

    #[test]
    fn a_refused_pod_shows_no_secret() {
        let condition = json!({"type": "ReplicaFailure", "status": "True",
            "message": "pods \"x\" is forbidden: password\u{0}=hunter2"});
        let workload = observed(WorkloadKind::Deployment, json!({}), json!({"conditions": [condition]}));
        assert_eq!(workload.trouble.unwrap().message, "no pod can be created: forbidden: password=[redacted]");
    }

    #[test]
    fn reads_counts_of_each_kind() {
        use WorkloadKind::{DaemonSet, Deployment, StatefulSet};
        let rolling = json!({"replicas": 3, "updatedReplicas": 2, "readyReplicas": 2, "observedGeneration": 7});
        let daemon = json!({"desiredNumberScheduled": 5, "numberReady": 4, "updatedNumberScheduled": 3, "numberMisscheduled": 9});
        let on_delete = json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}});
        let partitioned = |partition| json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
        for (kind, spec, status, (desired, ready, updated, outdated)) in [
            (Deployment, json!({"replicas": 2}), rolling.clone(), (2, 2, 2, 1)),
            // `replicas` is 1 by default, and the controller has not written a status yet.
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
            let workload = observe_new(&metadata(&labels), &spec).unwrap();
            assert_eq!(workload.component.to_string(), expected, "{labels}");
        }
    }

    #[test]
    fn ignores_workloads_not_owned_by_helm() {
        let metadata = ObjectMeta { annotations: None, ..metadata(&json!({})) };
        assert_eq!(observe_new(&metadata, &Spec::default()), None);
    }
}
