//! Reads the state of the pods that `DaemonSets` own. A rollout replaces these pods and needs the state of each pod. So
//! this module also reads ready pods, unlike [`observe`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Severity, Spec, Status, observe};
use crate::observed::{DaemonPod, PodState};
use crate::scrub::Scrubber;

/// The label with the revision of the pod template from which Kubernetes created a pod. Kubernetes sets the label on
/// the pods of a `DaemonSet` and on the `ControllerRevisions` of the `DaemonSet` (Kubernetes:
/// `apps.DefaultDaemonSetUniqueLabelKey`).
pub const REVISION: &str = "controller-revision-hash";

/// Returns a pod with its node, the revision of its pod template, and its state; `None` if no `DaemonSet` owns the pod.
///
/// `scrubber` removes secrets from messages of Kubernetes.
pub fn observe_daemon_pod(
    metadata: &ObjectMeta,
    spec: &Spec,
    status: &Status,
    scrubber: &Scrubber,
) -> Option<DaemonPod> {
    let controller = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let revision = metadata.labels.as_ref()?.get(REVISION)?.clone();
    (controller.kind == "DaemonSet").then_some(())?;
    Some(DaemonPod {
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
        set: controller.uid.clone(),
        node: spec.node_name.clone().unwrap_or_default(),
        revision,
        state: state(metadata, spec, status, scrubber),
    })
}

fn state(metadata: &ObjectMeta, spec: &Spec, status: &Status, scrubber: &Scrubber) -> PodState {
    if metadata.deletion_timestamp.is_some() {
        return PodState::Terminating;
    }
    if status.is_ready() {
        let since = status.condition("Ready").and_then(|condition| condition.last_transition_time.as_ref());
        return PodState::Ready(since.map(|since| since.0));
    }
    let since = metadata.creation_timestamp.as_ref().map(|time| time.0);
    let cause = observe(metadata, spec, status, scrubber).and_then(|unready| unready.cause);
    match cause {
        Some(cause) if matches!(cause.severity, Severity::Stuck | Severity::Lost) => PodState::Unhealthy(cause.message),
        Some(cause) => PodState::Starting(cause.message, since),
        None => PodState::Starting(String::new(), since),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn observed(status: Value, is_terminating: bool) -> Option<DaemonPod> {
        let mut metadata = json!({"name": "nova-compute-abc", "uid": "u", "labels": {"controller-revision-hash": "r2"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "nova-compute", "uid": "set", "controller": true}]});
        if is_terminating {
            metadata["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
        }
        let (metadata, spec) = (serde_json::from_value(metadata).unwrap(), json!({"nodeName": "n3"}));
        let (spec, status) = (serde_json::from_value(spec).unwrap(), serde_json::from_value(status).unwrap());
        observe_daemon_pod(&metadata, &spec, &status, &Scrubber::default())
    }

    #[test]
    fn reads_node_revision_and_state() {
        let condition =
            |status: &str| json!([{"type": "Ready", "status": status, "lastTransitionTime": "2026-11-21T12:00:00Z"}]);
        let waiting =
            json!([{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]);
        let ready = observed(json!({"phase": "Running", "conditions": condition("True")}), false).unwrap();
        assert_eq!((ready.node.as_str(), ready.set.as_str(), ready.revision.as_str()), ("n3", "set", "r2"));
        assert_eq!(ready.state, PodState::Ready(Some("2026-11-21T12:00:00Z".parse().unwrap())));
        let stuck = observed(
            json!({"phase": "Pending", "conditions": condition("False"), "containerStatuses": waiting}),
            false,
        );
        assert!(matches!(stuck.unwrap().state, PodState::Unhealthy(why) if why.contains("ImagePullBackOff")));
        assert!(matches!(observed(json!({"phase": "Pending"}), false).unwrap().state, PodState::Starting(..)));
        assert_eq!(observed(json!({"conditions": condition("True")}), true).unwrap().state, PodState::Terminating);
    }
}
