//! Reads from a Job the fields on which its health depends.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use super::workload::Template;
use super::{CRON_JOB, Condition, RELEASE_GROUP};
use crate::observed::{Issue, ObservedJob, RunState};
use crate::release;
use crate::scrub::Scrubber;

/// The fields of a Job's `spec` that osdpl reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Spec {
    template: Template,
}

/// The fields of a Job's `status` that osdpl reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    failed: i32,
    conditions: Vec<Condition>,
}

impl Status {
    /// Returns whether the Job runs, is complete or has failed. `scrubber` removes secrets from the reason of a
    /// failure.
    pub(super) fn end(&self, scrubber: &Scrubber) -> RunState {
        match condition(self, "Failed") {
            _ if condition(self, "Complete").is_some() => RunState::Complete,
            Some(failure) => RunState::Failed(explain(failure, scrubber)),
            None => RunState::Running { failing: self.failed > 0 },
        }
    }

    /// Returns the time when the Job completed or failed; `None` while the Job runs, or if its status does not contain
    /// the time.
    pub(super) fn ended(&self) -> Option<Timestamp> {
        let end = condition(self, "Complete").or_else(|| condition(self, "Failed"))?;
        end.since.as_ref().map(|since| since.0)
    }
}

/// Converts a Job of the API server to osdpl's type; returns `None` if the Job belongs to no helm release, if a
/// `CronJob` created the Job, or if the Job is being deleted.
///
/// osdpl finds the release by helm's annotation, or by the charts' label [`RELEASE_GROUP`] on the Job or its pod
/// template. The function skips the Jobs of a `CronJob`: helm does not create them, so no release waits for them.
///
/// `scrubber` removes secrets from the message of Kubernetes about a failed Job.
pub fn observe(metadata: &ObjectMeta, spec: &Spec, status: &Status, scrubber: &Scrubber) -> Option<ObservedJob> {
    let periodic = metadata.owner_references.iter().flatten().any(|owner| owner.kind == CRON_JOB);
    if periodic || metadata.deletion_timestamp.is_some() {
        return None;
    }
    let annotated =
        metadata.annotations.as_ref().and_then(|annotations| annotations.get(release::RELEASE_NAME_ANNOTATION));
    let labelled = || metadata.labels.as_ref().and_then(|labels| labels.get(RELEASE_GROUP));
    let templated = || spec.template.labels().and_then(|labels| labels.get(RELEASE_GROUP));
    let release = annotated.or_else(labelled).or_else(templated)?.clone();
    let failure = condition(status, "Failed");
    Some(ObservedJob {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone()?,
        release,
        complete: condition(status, "Complete").is_some(),
        failed: failure.is_some(),
        failures: status.failed,
        trouble: failure.map(|failure| Issue { stuck: true, message: explain(failure, scrubber) }),
    })
}

fn condition<'a>(status: &'a Status, kind: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|condition| condition.kind == kind && condition.status == "True")
}

fn explain(condition: &Condition, scrubber: &Scrubber) -> String {
    let message = scrubber.scrub_output(&condition.message);
    match (condition.reason.as_str(), message.as_str()) {
        ("", "") => "it failed".into(),
        ("", message) => message.into(),
        (reason, "") => reason.into(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn observed(metadata: Value, spec: Value, status: Value) -> Option<ObservedJob> {
        let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
        let (spec, status) = (serde_json::from_value(spec).unwrap(), serde_json::from_value(status).unwrap());
        observe(&metadata, &spec, &status, &Scrubber::new(["correct-horse"]))
    }

    #[test]
    fn a_failed_job_shows_no_secret() {
        let condition = json!({"type": "Failed", "status": "True", "reason": "PodFailurePolicy",
            "message": "Container x failed: correct-\u{1b}[1mhorse"});
        let metadata = json!({"name": "j", "labels": {RELEASE_GROUP: "heat"}});
        let job = observed(metadata, json!({}), json!({"conditions": [condition]})).unwrap();
        assert_eq!(job.trouble.unwrap().message, "PodFailurePolicy: Container x failed: [redacted]");
    }

    #[test]
    fn takes_release_from_object_or_pods() {
        let labels = |release: &str| json!({"labels": {RELEASE_GROUP: release}});
        let template = |release: &str| json!({"template": {"metadata": labels(release)}});
        for (metadata, spec, expected) in [
            (json!({"name": "j", "annotations": {release::RELEASE_NAME_ANNOTATION: "nova"}}), json!({}), Some("nova")),
            (json!({"name": "j", "labels": {RELEASE_GROUP: "glance"}}), template("other"), Some("glance")),
            // Some of upstream's Jobs, such as masakari-db-sync and magnum-domain-ks-user, have the label
            // `release_group` only in their pod template.
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
}
