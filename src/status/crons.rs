//! `CronJobs` in the status: each a component of its own, none of them a reason to wait.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::Report;
use super::children::first;
use crate::api::ComponentStatus;
use crate::health::cron;
use crate::observed::CronSeen;

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

/// Those whose last runs were no success, in one line.
pub fn failing(report: &Report<'_>) -> Option<String> {
    let failing =
        own(report).filter_map(|cron| Some(format!("CronJob {}: {}", cron.name, cron.trouble.as_ref()?.message)));
    let lines: Vec<String> = failing.collect();
    (!lines.is_empty()).then(|| first(&lines))
}
