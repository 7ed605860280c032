//! The fields of a CronJob that its health requires, and the health: whether its last run succeeded.

use std::cmp::Reverse;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::job::{self, RELEASE_GROUP};
use super::workload::{Template, component};
use crate::api::{ComponentHealth, ComponentStatus};
use crate::observed::{FinishedRun, ObservedCronJob, Run, RunState};
use crate::release;

/// The kind in the owner references of its Jobs.
pub const KIND: &str = "CronJob";

/// The required fields of `spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    suspend: bool,
    job_template: JobTemplate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct JobTemplate {
    spec: TemplateSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateSpec {
    template: Template,
}

/// The required fields of `status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    active: Vec<IgnoredAny>,
    last_schedule_time: Option<Time>,
    last_successful_time: Option<Time>,
}

/// Returns the `CronJob` if it belongs to a release, according to helm's annotation or upstream's label on it or its
/// pods.
pub fn observe(metadata: &ObjectMeta, spec: &Spec, status: &Status) -> Option<ObservedCronJob> {
    let template = &spec.job_template.spec.template;
    let annotated =
        metadata.annotations.as_ref().and_then(|annotations| annotations.get(release::RELEASE_NAME_ANNOTATION));
    let labelled = || metadata.labels.as_ref().and_then(|labels| labels.get(RELEASE_GROUP));
    let templated = || template.labels().and_then(|labels| labels.get(RELEASE_GROUP));
    let release = annotated.or_else(labelled).or_else(templated)?.clone();
    let name = metadata.name.clone()?;
    Some(ObservedCronJob {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        component: component(metadata, template, &release, &name),
        name,
        release,
        suspended: spec.suspend,
        scheduled: status.last_schedule_time.as_ref().map(|time| time.0),
        succeeded: status.last_successful_time.as_ref().map(|time| time.0),
        running: !status.active.is_empty(),
        last: None,
        trouble: None,
    })
}

/// Returns the run if a `CronJob` created the Job and the Job is not being deleted.
pub fn run(metadata: &ObjectMeta, status: &job::Status) -> Option<Run> {
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.kind == KIND)?;
    if metadata.deletion_timestamp.is_some() {
        return None;
    }
    let created_at = metadata.creation_timestamp.as_ref().map(|time| time.0);
    Some(Run { cron: owner.name.clone(), created_at, end: status.end(), ended: status.ended() })
}

/// Returns the newest finished run. `runs` are its Jobs by name.
pub fn last(runs: &[(&str, &Run)]) -> Option<FinishedRun> {
    let ended = runs.iter().filter_map(|(name, run)| {
        let failure = match &run.end {
            RunState::Complete => None,
            RunState::Failed(why) => Some(why.clone()),
            RunState::Running { .. } => return None,
        };
        Some((run.created_at, FinishedRun { job: (*name).to_owned(), at: run.ended, failure }))
    });
    ended.max_by_key(|(created_at, run)| (*created_at, run.job.clone())).map(|(_, run)| run)
}

/// Returns the problem of a `CronJob`, and the Job that has it, if any.
///
/// `runs` are its Jobs by name; `stuck` returns why the pods of a Job cannot continue. The newest finished run decides,
/// so a failure is reported until another run succeeds. Without any run (`failedJobsHistoryLimit: 0`) the last success
/// in the `CronJob`'s status decides (Kubernetes: `pkg/controller/cronjob`, `syncCronJob`).
pub fn trouble<'a>(
    cron: &ObservedCronJob,
    mut runs: Vec<(&'a str, &Run)>,
    stuck: impl Fn(&str) -> Option<String>,
) -> Option<(String, Option<&'a str>)> {
    if cron.suspended {
        return None;
    }
    runs.sort_by_key(|(name, run)| Reverse((run.created_at, *name)));
    for (name, run) in runs {
        match &run.end {
            RunState::Complete => return None,
            RunState::Failed(why) => return Some((format!("its last Job, {name}, failed: {why}"), Some(name))),
            RunState::Running { failing } => {
                let failed = || failing.then(|| "its pods fail".to_owned());
                if let Some(why) = stuck(name).or_else(failed) {
                    return Some((format!("its Job {name} makes no progress: {why}"), Some(name)));
                }
            }
        }
    }
    let scheduled = cron.scheduled.filter(|_| !cron.running && cron.scheduled > cron.succeeded)?;
    Some((format!("its last run, started at {scheduled:.0}, did not succeed"), None))
}

/// Returns the health of a `CronJob`. A failing one is only degraded, because nothing waits for it.
pub fn assess(cron: &ObservedCronJob) -> ComponentStatus {
    let (status, ready, reason) = match &cron.trouble {
        Some(trouble) => (ComponentHealth::Degraded, "0/1", format!("CronJob {}: {}", cron.name, trouble.message)),
        None if cron.suspended => (ComponentHealth::Ready, "0/0", format!("CronJob {} is suspended", cron.name)),
        None if cron.scheduled.is_none() => (ComponentHealth::Ready, "0/0", String::new()),
        None => (ComponentHealth::Ready, "1/1", String::new()),
    };
    ComponentStatus { status, generation: None, ready: ready.into(), reason }
}

#[cfg(test)]
mod tests;
