//! API probes in the status: each is a component `endpoint` next to the workloads that serve it.

use std::collections::BTreeMap;

use super::Report;
use crate::api::ComponentStatus;
use crate::endpoint::{COMPONENT, assess};

/// Adds the results for the APIs that were probed and reachable.
pub fn add(health: &mut BTreeMap<String, BTreeMap<String, ComponentStatus>>, report: &Report<'_>) {
    for decision in report.plan.decisions.values() {
        if let Some(seen) = report.observed.endpoints.get(&decision.key) {
            health.entry(seen.application.clone()).or_default().insert(COMPONENT.into(), assess(seen));
        }
    }
}
