//! The fields of a Job that its health requires.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use super::cron;
use super::workload::{Condition, Template};
use crate::observed::{Issue, ObservedJob, RunState};
use crate::release;

/// Upstream's label with the release name: hooks have no helm annotation.
pub const RELEASE_GROUP: &str = "release_group";

/// The required fields of `spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Spec {
    template: Template,
}

/// The required fields of `status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    failed: i32,
    conditions: Vec<Condition>,
}

impl Status {
    /// Its state.
    pub(super) fn end(&self) -> RunState {
        match condition(self, "Failed") {
            _ if condition(self, "Complete").is_some() => RunState::Complete,
            Some(failure) => RunState::Failed(explain(failure)),
            None => RunState::Running { failing: self.failed > 0 },
        }
    }

    /// Returns when it finished.
    pub(super) fn ended(&self) -> Option<Timestamp> {
        let end = condition(self, "Complete").or_else(|| condition(self, "Failed"))?;
        end.since.as_ref().map(|since| since.0)
    }
}

/// Returns the Job if it belongs to a release, according to helm's annotation or upstream's label on it or its pods.
///
/// Jobs of a `CronJob` belong to no revision, and Jobs that are being deleted are ignored.
pub fn observe(metadata: &ObjectMeta, spec: &Spec, status: &Status) -> Option<ObservedJob> {
    let periodic = metadata.owner_references.iter().flatten().any(|owner| owner.kind == cron::KIND);
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
        trouble: failure.map(|failure| Issue { stuck: true, message: explain(failure) }),
    })
}

fn condition<'a>(status: &'a Status, kind: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|condition| condition.kind == kind && condition.status == "True")
}

fn explain(condition: &Condition) -> String {
    match (condition.reason.as_str(), condition.message.as_str()) {
        ("", "") => "it failed".into(),
        ("", message) => message.into(),
        (reason, "") => reason.into(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

#[cfg(test)]
mod tests;
