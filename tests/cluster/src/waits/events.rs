//! Writes the event that a kubelet writes if the Secret or ConfigMap of a volume does not exist.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::Value;

use super::PREFIX;
use super::facts::PodFacts;
use super::world::Key;

/// Writes the event `FailedMount` if, according to the annotations in `patch`, the pod waits for Secrets or ConfigMaps
/// of its volumes.
pub(super) fn failed_mounts(client: &Client, key: &Key, pod: &PodFacts, patch: &Value) {
    let value = |name: &str| patch["metadata"]["annotations"][format!("{PREFIX}{name}")].as_str();
    if value("waits-in") != Some("volumes") {
        return;
    }
    let api: Api<Event> = Api::namespaced(client.clone(), &key.namespace);
    let event = event(key, pod, value("waits-for").unwrap_or_default());
    tokio::spawn(async move {
        // Ignore an error, because nothing depends on the event.
        let _ = api.create(&PostParams::default(), &event).await;
    });
}

fn event(key: &Key, pod: &PodFacts, missing: &str) -> Event {
    let now = Some(Time(Timestamp::now()));
    Event {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}.", key.name)),
            namespace: Some(key.namespace.clone()),
            ..Default::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            name: Some(key.name.clone()),
            namespace: Some(key.namespace.clone()),
            uid: Some(pod.uid.clone()),
            ..Default::default()
        },
        type_: Some("Warning".into()),
        reason: Some("FailedMount".into()),
        message: Some(format!("MountVolume.SetUp failed: not found: {missing}")),
        source: Some(EventSource { component: Some("kubelet".into()), host: Some(pod.node.clone()) }),
        count: Some(1),
        first_timestamp: now.clone(),
        last_timestamp: now,
        ..Default::default()
    }
}
