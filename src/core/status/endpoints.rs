//! The APIs of services in the status: each a component `endpoint` beside the workloads that answer.

use std::collections::BTreeMap;

use super::Report;
use crate::api::ComponentStatus;
use crate::endpoint::{COMPONENT, verdict};

/// Adds the verdicts on those that were asked and could be reached.
pub fn add(health: &mut BTreeMap<String, BTreeMap<String, ComponentStatus>>, report: &Report<'_>) {
    for decision in report.plan.decisions.values() {
        if let Some(seen) = report.observed.endpoints.get(&decision.key) {
            health.entry(seen.application.clone()).or_default().insert(COMPONENT.into(), verdict(seen));
        }
    }
}
