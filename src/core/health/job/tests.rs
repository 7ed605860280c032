use serde_json::{Value, json};

use super::*;

fn observed(metadata: Value, spec: Value, status: Value) -> Option<ObservedJob> {
    let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
    observe(&metadata, &serde_json::from_value(spec).unwrap(), &serde_json::from_value(status).unwrap())
}

#[test]
fn takes_release_from_object_or_pods() {
    let labels = |release: &str| json!({"labels": {RELEASE_GROUP: release}});
    let template = |release: &str| json!({"template": {"metadata": labels(release)}});
    for (metadata, spec, expected) in [
        (json!({"name": "j", "annotations": {release::RELEASE_NAME_ANNOTATION: "nova"}}), json!({}), Some("nova")),
        (json!({"name": "j", "labels": {RELEASE_GROUP: "glance"}}), template("other"), Some("glance")),
        // Such as masakari-db-sync, magnum-domain-ks-user.
        (json!({"name": "j"}), template("magnum"), Some("magnum")),
        (json!({"name": "j", "labels": {"app": "x"}}), json!({}), None),
        (
            json!({"name": "j", "labels": {RELEASE_GROUP: "heat"}, "deletionTimestamp": "2026-11-21T00:00:00Z"}),
            json!({}),
            None,
        ),
        (
            json!({"name": "j", "labels": {RELEASE_GROUP: "heat"},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "u"}]}),
            json!({}),
            None,
        ),
    ] {
        let release = observed(metadata.clone(), spec, json!({})).map(|job| job.release);
        assert_eq!(release.as_deref(), expected, "{metadata}");
    }
}

#[test]
fn reports_progress_and_reason_of_failure() {
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "BackoffLimitExceeded",
        "message": "Job has reached the specified backoff limit"})
    };
    let why = "BackoffLimitExceeded: Job has reached the specified backoff limit";
    for (status, (complete, failed, failures, trouble)) in [
        (json!({}), (false, false, 0, None)),
        (json!({"active": 1, "failed": 2}), (false, false, 2, None)),
        (json!({"succeeded": 1, "conditions": [condition("Complete", "True")]}), (true, false, 0, None)),
        (json!({"conditions": [condition("Complete", "False")]}), (false, false, 0, None)),
        (json!({"failed": 7, "conditions": [condition("Failed", "True")]}), (false, true, 7, Some(why))),
    ] {
        let metadata = json!({"name": "j", "namespace": "n", "labels": {RELEASE_GROUP: "heat"}});
        let job = observed(metadata, json!({}), status.clone()).unwrap();
        assert_eq!((job.complete, job.failed, job.failures), (complete, failed, failures), "{status}");
        assert_eq!(job.trouble.map(|trouble| trouble.message).as_deref(), trouble);
    }
}
