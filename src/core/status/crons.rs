//! `CronJobs` in the status: each a component of its own, none of them a reason to wait.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Report;
use super::children::first;
use crate::api::{ComponentStatus, TestStatus};
use crate::health::cron;
use crate::observed::{CronSeen, Ended, Key};

fn own<'a>(report: &'a Report<'_>) -> impl Iterator<Item = &'a CronSeen> {
    let ours = |cron: &&CronSeen| {
        let mut keys = report.plan.decisions.values().map(|decision| &decision.key);
        keys.any(|key| key.namespace == cron.namespace && key.name == cron.release)
    };
    report.observed.crons.iter().filter(ours)
}

/// Adds the verdicts on them. Where a workload has the same labels, the worse of the two is told.
pub fn add(health: &mut BTreeMap<String, BTreeMap<String, ComponentStatus>>, report: &Report<'_>) {
    for cron in own(report) {
        let verdict = cron::verdict(cron);
        match health.entry(cron.component.application.clone()).or_default().entry(cron.component.component.clone()) {
            Entry::Vacant(slot) => drop(slot.insert(verdict)),
            Entry::Occupied(mut slot) if verdict.status > slot.get().status => {
                let workload = slot.get_mut();
                (workload.status, workload.reason) = (verdict.status, verdict.reason);
            }
            Entry::Occupied(_) => {}
        }
    }
}

/// How the last runs of tests ended: as it was told before, where their Jobs are gone by now.
pub fn tests(before: &BTreeMap<String, TestStatus>, report: &Report<'_>) -> BTreeMap<String, TestStatus> {
    let told = own(report).filter_map(|cron| {
        let mut wanted = report.desired.releases.values();
        let release = wanted.find(|release| release.key == Key::new(&cron.namespace, &cron.release))?;
        let results = release.tests.get(&cron.component)?.clone();
        let name = cron.component.to_string();
        let told = told(before.get(&name), cron, results);
        Some((name, told))
    });
    told.collect()
}

fn told(before: Option<&TestStatus>, cron: &CronSeen, results: String) -> TestStatus {
    let known = before.cloned().unwrap_or_default();
    // The Job of the run that was told is gone, and that of an older one is still there.
    let is_older = |run: &&Ended| known.time.as_ref().is_some_and(|time| run.at.is_some_and(|at| at < time.0));
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

/// Those whose last runs were no success, in one line.
pub fn failing(report: &Report<'_>) -> Option<String> {
    let failing =
        own(report).filter_map(|cron| Some(format!("CronJob {}: {}", cron.name, cron.trouble.as_ref()?.message)));
    let lines: Vec<String> = failing.collect();
    (!lines.is_empty()).then(|| first(&lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Component;

    fn cron(last: Option<Ended>) -> CronSeen {
        CronSeen {
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
    fn the_last_run_of_a_test_is_told_even_when_its_job_is_gone() {
        let said = |before: Option<&TestStatus>, last| told(before, &cron(last), "claim pvc-tempest".into());
        assert_eq!(said(None, None), TestStatus { results: "claim pvc-tempest".into(), ..TestStatus::default() });
        let at = "2026-11-21T03:12:00Z".parse().ok();
        let failed = Some(Ended { job: "t-1".into(), at, failure: Some("BackoffLimitExceeded".into()) });
        let first = said(None, failed);
        assert_eq!((first.passed, first.job.as_deref()), (Some(false), Some("openstack/t-1")));
        assert_eq!((first.time.clone(), first.reason.as_str()), (at.map(Time), "BackoffLimitExceeded"));
        assert_eq!(said(Some(&first), None), first, "its Job was collected");
        let before = Ended { job: "t-0".into(), at: "2026-11-20T03:12:00Z".parse().ok(), failure: None };
        assert_eq!(said(Some(&first), Some(before)), first, "an older one is still there");
        let passed = said(Some(&first), Some(Ended { job: "t-2".into(), at, failure: None }));
        assert_eq!(
            (passed.passed, passed.job.as_deref(), passed.reason.as_str()),
            (Some(true), Some("openstack/t-2"), "")
        );
    }
}
