//! Determines the health of a CronJob, mainly from the result of its last run.

use std::cmp::Reverse;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::workload::{Template, component};
use super::{CRON_JOB, RELEASE_GROUP, job};
use crate::api::{ComponentHealth, ComponentStatus};
use crate::observed::{FinishedRun, ObservedCronJob, Run, RunState};
use crate::release;
use crate::scrub::Scrubber;

/// The fields of a CronJob's `spec` that osdpl reads.
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

/// The fields of a CronJob's `status` that osdpl reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    active: Vec<IgnoredAny>,
    last_schedule_time: Option<Time>,
    last_successful_time: Option<Time>,
}

/// Converts a `CronJob` of the API server to osdpl's type; returns `None` if the `CronJob` belongs to no helm release.
///
/// osdpl finds the release by helm's annotation, or by upstream's label `release_group` on the `CronJob` or its pod
/// template.
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

/// Converts a Job of a `CronJob` to a run of that `CronJob`; returns `None` if no `CronJob` created the Job, or if the
/// Job is being deleted. `scrubber` removes secrets from the reason of a failure.
pub fn run(metadata: &ObjectMeta, status: &job::Status, scrubber: &Scrubber) -> Option<Run> {
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.kind == CRON_JOB)?;
    if metadata.deletion_timestamp.is_some() {
        return None;
    }
    let created_at = metadata.creation_timestamp.as_ref().map(|time| time.0);
    Some(Run { cron: owner.name.clone(), created_at, end: status.end(scrubber), ended: status.ended() })
}

/// Returns the newest finished run of a `CronJob`; `None` if no run has finished. `runs` are the Jobs of the `CronJob`,
/// each with its name.
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

/// Returns the problem of a `CronJob`, and the name of the Job that has the problem. There is no name if Kubernetes has
/// already deleted that Job. Returns `None` if the `CronJob` is suspended or has no problem.
///
/// `runs` are the Jobs of the `CronJob`, each with its name. `stuck` takes the name of a Job, and returns why the Job's
/// pods can't continue; `None` if they can.
///
/// If the newest finished run failed, that is a problem, and osdpl reports it until a later run succeeds. A run that is
/// still active is a problem only if its pods can't continue, or if one of its pods has failed. If Kubernetes keeps no
/// Jobs (`failedJobsHistoryLimit: 0`), osdpl reads the status of the `CronJob`: the last run failed if no run is
/// active, and `lastScheduleTime` is later than `lastSuccessfulTime` (Kubernetes: `pkg/controller/cronjob`,
/// `syncCronJob`).
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

/// Returns the health of a `CronJob`. A `CronJob` with a problem is degraded and not unhealthy, because no other object
/// waits for a `CronJob`.
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
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    const EARLY: &str = "2026-11-21T00:00:00Z";
    const LATE: &str = "2026-11-21T12:00:00Z";

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn observed(metadata: Value, spec: Value, status: Value) -> Option<ObservedCronJob> {
        observe(&read(metadata), &read(spec), &read(status))
    }

    fn rotate(spec: Value, status: Value) -> ObservedCronJob {
        observed(json!({"name": "rotate", "annotations": {release::RELEASE_NAME_ANNOTATION: "keystone"}}), spec, status)
            .unwrap()
    }

    #[test]
    fn takes_release_and_component_from_object_or_pods() {
        let labels = json!({RELEASE_GROUP: "nova", "application": "nova", "component": "cell-setup"});
        let pods = json!({"jobTemplate": {"spec": {"template": {"metadata": {"labels": labels}}}}});
        let annotated = json!({"name": "c", "annotations": {release::RELEASE_NAME_ANNOTATION: "keystone"}});
        for (metadata, spec, expected) in [
            (json!({"name": "c", "labels": labels}), json!({}), Some("nova nova/cell-setup")),
            // Most of upstream's CronJobs, such as nova-cell-setup, have these labels only in their pod template. The
            // labels name the release and the component.
            (json!({"name": "c"}), pods.clone(), Some("nova nova/cell-setup")),
            (annotated.clone(), pods, Some("keystone nova/cell-setup")),
            (annotated, json!({}), Some("keystone keystone/c")),
            (json!({"name": "c"}), json!({}), None),
        ] {
            let found =
                observed(metadata.clone(), spec, json!({})).map(|cron| format!("{} {}", cron.release, cron.component));
            assert_eq!(found.as_deref(), expected, "{metadata}");
        }
    }

    fn run_of(made: &str, status: Value) -> Run {
        let owner =
            json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "rotate", "uid": "u", "controller": true}]);
        let metadata = json!({"name": "r", "creationTimestamp": made, "ownerReferences": owner});
        run(&read(metadata), &read(status), &Scrubber::default()).unwrap()
    }

    #[test]
    fn last_run_is_the_newest_finished_one() {
        let ended = |kind: &str, at: &str| json!({"conditions": [{"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": at}]});
        let (early, late) = (run_of(EARLY, ended("Complete", EARLY)), run_of(LATE, ended("Failed", LATE)));
        let going = run_of("2026-11-21T13:00:00Z", json!({"active": 1}));
        let at = |time: &str| time.parse::<Timestamp>().ok();
        let failed = FinishedRun { job: "b".into(), at: at(LATE), failure: Some("BackoffLimitExceeded".into()) };
        assert_eq!(last(&[("a", &early), ("b", &late), ("c", &going)]), Some(failed));
        assert_eq!(
            last(&[("a", &early), ("c", &going)]),
            Some(FinishedRun { job: "a".into(), at: at(EARLY), failure: None })
        );
        assert_eq!(last(&[("c", &going)]), None);
    }

    #[test]
    fn newest_finished_run_decides() {
        let ended =
            |kind: &str| json!({"conditions": [{"type": kind, "status": "True", "reason": "BackoffLimitExceeded"}]});
        let (good, bad) = (run_of(EARLY, ended("Complete")), run_of(LATE, ended("Failed")));
        let (going, failing) = (run_of(LATE, json!({"active": 1})), run_of(LATE, json!({"failed": 2})));
        let late_good = run_of(LATE, ended("Complete"));
        let early_bad = run_of(EARLY, ended("Failed"));
        let cron = rotate(json!({}), json!({"lastScheduleTime": LATE, "lastSuccessfulTime": EARLY, "active": [{}]}));
        let failed = Some("its last Job, b, failed: BackoffLimitExceeded");
        for (runs, expected) in [
            (vec![("a", &good), ("b", &bad)], failed),
            (vec![("b", &early_bad), ("c", &late_good)], None),
            (vec![("b", &early_bad), ("c", &going)], failed),
            (vec![("a", &good), ("c", &going)], None),
            (vec![("a", &good), ("c", &failing)], Some("its Job c makes no progress: its pods fail")),
            (vec![], None),
        ] {
            let found = trouble(&cron, runs, |_| None).map(|(message, _)| message);
            assert_eq!(found.as_deref(), expected);
        }
        let (message, run) = trouble(&cron, vec![("c", &going)], |_| Some("p: ImagePullBackOff x".into())).unwrap();
        assert_eq!((message.as_str(), run), ("its Job c makes no progress: p: ImagePullBackOff x", Some("c")));
        let suspended = rotate(json!({"suspend": true}), json!({}));
        assert_eq!(trouble(&suspended, vec![("b", &bad)], |_| None), None);
    }

    #[test]
    fn falls_back_to_the_last_success_in_status() {
        let last = format!("its last run, started at {LATE}, did not succeed");
        for (status, expected) in [
            (json!({}), None),
            (json!({"lastScheduleTime": LATE}), Some(&last)),
            (json!({"lastScheduleTime": LATE, "lastSuccessfulTime": EARLY}), Some(&last)),
            (json!({"lastScheduleTime": LATE, "lastSuccessfulTime": EARLY, "active": [{}]}), None),
            (json!({"lastScheduleTime": EARLY, "lastSuccessfulTime": LATE}), None),
        ] {
            let found = trouble(&rotate(json!({}), status.clone()), vec![], |_| None);
            assert_eq!(found.map(|(message, _)| message).as_ref(), expected, "{status}");
        }
    }

    #[test]
    fn failing_is_degraded_and_never_run_is_ready() {
        let scheduled: Option<Timestamp> = LATE.parse().ok();
        let trouble = || Some(crate::observed::Issue { stuck: false, message: "why".into() });
        let idle = rotate(json!({}), json!({}));
        for (cron, expected) in [
            (idle.clone(), (ComponentHealth::Ready, "0/0", "")),
            (
                ObservedCronJob { suspended: true, scheduled, ..idle.clone() },
                (ComponentHealth::Ready, "0/0", "CronJob rotate is suspended"),
            ),
            (ObservedCronJob { scheduled, ..idle.clone() }, (ComponentHealth::Ready, "1/1", "")),
            (ObservedCronJob { trouble: trouble(), ..idle }, (ComponentHealth::Degraded, "0/1", "CronJob rotate: why")),
        ] {
            let ComponentStatus { status, ready, reason, .. } = assess(&cron);
            assert_eq!((status, ready.as_str(), reason.as_str()), expected);
        }
    }
}
