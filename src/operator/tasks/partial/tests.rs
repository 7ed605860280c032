use kube::core::WatchEvent;
use serde_json::json;

use super::*;

#[test]
fn keeps_only_the_metadata_in_use() {
    let object: Partial<Pod> = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 3,
            "labels": {"application": "nova"},
            "annotations": {"meta.helm.sh/release-name": "nova", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "managedFields": [{"manager": "helm", "fieldsV1": {"f:spec": {}}}],
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "o", "controller": true}],
            "finalizers": ["x"]
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i", "env": [{"name": "PASSWORD", "value": "x"}]}]}
    }))
    .unwrap();
    let metadata = &object.metadata;
    assert_eq!(
        (metadata.name.as_deref(), metadata.uid.as_deref(), metadata.generation),
        (Some("p"), Some("u"), Some(3))
    );
    assert_eq!(metadata.resource_version.as_deref(), Some("7"));
    assert_eq!(metadata.annotations.as_ref().unwrap().keys().collect::<Vec<_>>(), ["meta.helm.sh/release-name"]);
    assert_eq!(metadata.owner_references.as_ref().unwrap()[0].name, "j");
    assert_eq!((&metadata.managed_fields, &metadata.finalizers), (&None, &None));
}

#[test]
fn reads_an_object_with_only_a_name() {
    for text in [r#"{"metadata":{"name":"x"}}"#, r#"{"metadata":{"name":"x","annotations":null,"labels":null}}"#] {
        let event = format!(r#"{{"type":"ADDED","object":{text}}}"#);
        let event: WatchEvent<Partial<DaemonSet>> = serde_json::from_str(&event).unwrap();
        assert!(matches!(event, WatchEvent::Added(object) if object.metadata.name.as_deref() == Some("x")));
    }
}

#[test]
fn debug_output_hides_a_records_payload() {
    let record: Partial<Record> =
        serde_json::from_value(json!({"metadata": {"name": "r", "namespace": "n"}, "data": {"release": "c2VjcmV0"}}))
            .unwrap();
    assert_eq!(record.data.release.0, b"secret");
    assert_eq!(format!("{record:?}"), r#"Secret Some("n")/Some("r")"#);
}
