//! Adds `CronJobs` to the status. `status.health` shows each `CronJob` as a component. Unlike other components, a
//! `CronJob` delays no release. `status.tests` shows the last result of each `CronJob` that tests the cloud.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use osdpl_values::CollectSorted;

use super::{Report, first};
use crate::api::{ComponentStatus, TestStatus};
use crate::health::cron;
use crate::observed::{FinishedRun, ObservedCronJob, ReleaseKey};

fn own_cron_jobs<'a>(report: &'a Report<'_>) -> impl Iterator<Item = &'a ObservedCronJob> {
    let ours = |cron: &&ObservedCronJob| {
        let mut keys = report.plan.decisions.values().map(|decision| &decision.key);
        keys.any(|key| key.namespace == cron.namespace && key.name == cron.release)
    };
    report.observed.crons.iter().filter(ours)
}

/// Adds the health of the cloud's `CronJobs` to the health of its components.
///
/// A workload and a `CronJob` can have the same component labels. The component then gets the worse of their two
/// states.
pub(super) fn add(health: &mut BTreeMap<String, BTreeMap<String, ComponentStatus>>, report: &Report<'_>) {
    for cron in own_cron_jobs(report) {
        let result = cron::assess(cron);
        match health.entry(cron.component.application.clone()).or_default().entry(cron.component.component.clone()) {
            Entry::Vacant(slot) => drop(slot.insert(result)),
            Entry::Occupied(mut slot) if result.status > slot.get().status => {
                let workload = slot.get_mut();
                (workload.status, workload.reason) = (result.status, result.reason);
            }
            Entry::Occupied(_) => {}
        }
    }
}

/// Returns the result of the last run of each `CronJob` that tests the cloud. The result stays in the status after
/// Kubernetes has deleted the Job of the run.
pub(super) fn tests(before: &BTreeMap<String, TestStatus>, report: &Report<'_>) -> BTreeMap<String, TestStatus> {
    let results = own_cron_jobs(report).filter_map(|cron| {
        let mut wanted = report.desired.releases.values();
        let release = wanted.find(|release| release.key == ReleaseKey::new(&cron.namespace, &cron.release))?;
        let results = release.tests.get(&cron.component)?.clone();
        let name = cron.component.to_string();
        let status = test_status(before.get(&name), cron, results);
        Some((name, status))
    });
    results.collect_map()
}

fn test_status(before: Option<&TestStatus>, cron: &ObservedCronJob, results: String) -> TestStatus {
    let known = before.cloned().unwrap_or_default();
    // Kubernetes may delete the Job of the newest run before the Job of an older run. Then `cron` contains only the
    // older run, and the status keeps the result of the newest run.
    let is_older = |run: &&FinishedRun| known.time.as_ref().is_some_and(|time| run.at.is_some_and(|at| at < time.0));
    let Some(run) = cron.last.as_ref().filter(|run| !is_older(run)) else {
        return TestStatus { results, ..known };
    };
    TestStatus {
        passed: Some(run.failure.is_none()),
        time: run.at.map(Time),
        job: Some(format!("{}/{}", cron.namespace, run.job)),
        reason: run.failure.clone().unwrap_or_default(),
        results,
    }
}

/// Describes, in one line, the first `CronJob` with a problem: its active run makes no progress, or its last run
/// failed. The line ends with the number of further `CronJobs` with a problem.
pub(super) fn failing(report: &Report<'_>) -> Option<String> {
    let failing = own_cron_jobs(report)
        .filter_map(|cron| Some(format!("CronJob {}: {}", cron.name, cron.trouble.as_ref()?.message)));
    let lines: Vec<String> = failing.collect();
    (!lines.is_empty()).then(|| first(&lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Component;

    fn cron(last: Option<FinishedRun>) -> ObservedCronJob {
        ObservedCronJob {
            namespace: "openstack".into(),
            name: "tempest-run-tests".into(),
            release: "tempest".into(),
            component: Component::parse("tempest/run-tests").unwrap(),
            suspended: false,
            scheduled: None,
            succeeded: None,
            running: false,
            last,
            trouble: None,
        }
    }

    #[test]
    fn keeps_test_results_after_job_deletion() {
        let status_of =
            |before: Option<&TestStatus>, last| test_status(before, &cron(last), "claim pvc-tempest".into());
        assert_eq!(status_of(None, None), TestStatus { results: "claim pvc-tempest".into(), ..TestStatus::default() });
        let at = "2026-11-21T03:12:00Z".parse().ok();
        let failed = Some(FinishedRun { job: "t-1".into(), at, failure: Some("BackoffLimitExceeded".into()) });
        let first = status_of(None, failed);
        assert_eq!((first.passed, first.job.as_deref()), (Some(false), Some("openstack/t-1")));
        assert_eq!((first.time.clone(), first.reason.as_str()), (at.map(Time), "BackoffLimitExceeded"));
        assert_eq!(
            status_of(Some(&first), None),
            first,
            "the status keeps the result after Kubernetes deleted its Job"
        );
        let before = FinishedRun { job: "t-0".into(), at: "2026-11-20T03:12:00Z".parse().ok(), failure: None };
        assert_eq!(status_of(Some(&first), Some(before)), first, "the Job of an older run does not replace the result");
        let passed = status_of(Some(&first), Some(FinishedRun { job: "t-2".into(), at, failure: None }));
        assert_eq!(
            (passed.passed, passed.job.as_deref(), passed.reason.as_str()),
            (Some(true), Some("openstack/t-2"), "")
        );
    }
}
