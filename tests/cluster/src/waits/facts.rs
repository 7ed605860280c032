//! Reads from each watched object the few properties that decide whether pods may start.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt;

use super::PREFIX;
use super::needs::{Labels, Needs};

/// The properties of a pod that decide for which objects the pod waits, and whether other pods must wait for this pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PodFacts {
    pub uid: String,
    pub labels: Labels,
    /// The annotations with the prefix `kwok.osdpl.dev/`: each name without the prefix, and its value.
    pub settings: BTreeMap<String, String>,
    /// The name of the pod's node; empty until the pod is scheduled.
    pub node: String,
    pub phase: String,
    pub is_ready: bool,
    pub is_leaving: bool,
    /// Whether the pod has `restartPolicy: Never`.
    pub never_restarts: bool,
    /// The uid of the object that controls the pod, such as a Job.
    pub owner: Option<String>,
    pub needs: Arc<Needs>,
}

impl PodFacts {
    /// Returns the value of the setting `key`, such as `behaviour`. A setting is an annotation or a label of the pod.
    /// If the pod has both, returns the value of the annotation.
    pub fn setting(&self, key: &str) -> Option<&str> {
        let label = || self.labels.get(&format!("{PREFIX}{key}"));
        self.settings.get(key).or_else(label).map(String::as_str)
    }

    pub fn is_released(&self) -> bool {
        self.settings.get("released").is_some_and(|value| value == "true")
    }
}

#[derive(PartialEq)]
pub(super) struct SliceFacts {
    pub service: String,
    pub is_ready: bool,
}

#[derive(Default, PartialEq)]
pub(super) struct JobFacts {
    pub uid: String,
    pub labels: Labels,
    pub has_succeeded: bool,
    pub has_failed_pods: bool,
}

/// Whether `labels` contains each label in `wanted`, with the same value.
pub(super) fn has_labels(labels: &Labels, wanted: &Labels) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

pub(super) fn pod_facts(pod: &Pod) -> PodFacts {
    let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ours =
        pod.annotations().iter().filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?.into(), value.clone())));
    let owners = pod.owner_references().iter();
    PodFacts {
        uid: pod.uid().unwrap_or_default(),
        labels: pod.labels().clone(),
        settings: ours.collect(),
        node: spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        phase: status.and_then(|status| status.phase.clone()).unwrap_or_default(),
        is_ready: conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True"),
        is_leaving: pod.metadata.deletion_timestamp.is_some(),
        never_restarts: spec.and_then(|spec| spec.restart_policy.as_deref()) == Some("Never"),
        owner: owners.filter(|owner| owner.controller == Some(true)).map(|owner| owner.uid.clone()).next(),
        needs: Arc::new(Needs::of(pod)),
    }
}

/// Returns the Service of an `EndpointSlice`, and whether one of the slice's endpoints is ready. An endpoint without
/// the condition `ready` is ready (Kubernetes' `EndpointConditions`).
pub(super) fn slice_facts(slice: &EndpointSlice) -> SliceFacts {
    let ready = |endpoint: &Endpoint| {
        let conditions = endpoint.conditions.as_ref();
        !endpoint.addresses.is_empty() && conditions.and_then(|conditions| conditions.ready).unwrap_or(true)
    };
    SliceFacts {
        service: slice.labels().get("kubernetes.io/service-name").cloned().unwrap_or_default(),
        is_ready: slice.endpoints.iter().flatten().any(ready),
    }
}

pub(super) fn job_facts(job: &Job) -> JobFacts {
    let status = job.status.as_ref();
    JobFacts {
        uid: job.uid().unwrap_or_default(),
        labels: job.labels().clone(),
        has_succeeded: status.and_then(|status| status.succeeded).unwrap_or(0) > 0,
        has_failed_pods: status.and_then(|status| status.failed).unwrap_or(0) > 0,
    }
}

/// Returns the labels with which a DaemonSet selects its pods. Ignores match expressions, which OpenStack-Helm's
/// DaemonSets do not have.
pub(super) fn selected(set: &DaemonSet) -> Labels {
    let selector = set.spec.as_ref().map(|spec| &spec.selector);
    selector.and_then(|selector| selector.match_labels.clone()).unwrap_or_default()
}

pub(super) fn is_node_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True")
}
