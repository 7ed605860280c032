//! Fills `status.children` (one entry for each release) and `status.health` (one entry for each component). If osdpl
//! probes the API of a release, `status.health` shows the result as a component named `endpoint`.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use osdpl_values::CollectSorted;

use super::{Children, Report, drift, first, images};
use crate::api::{ComponentHealth, ComponentStatus, HelmReleaseStatus, OpenStackDeploymentStatus};
use crate::endpoint;
use crate::health;
use crate::observed::RecordBody;
use crate::plan::{Decision, Step, Wait};
use crate::release::RECORD_LIMIT;

/// If the size of a release record reaches this percentage of [`RECORD_LIMIT`], the status contains a warning.
const WARN_PERCENT: usize = 70;

/// The message of a release with `managed: false` in the spec.
const UNMANAGED: &str = "unmanaged: osdpl does not change it or watch it for drift (managed: false)";

/// Returns the status of each release, by its name in the catalogue.
pub(super) fn children(before: &OpenStackDeploymentStatus, report: &Report<'_>, now: Timestamp) -> Children {
    let decisions = report.plan.decisions.iter();
    let all = decisions.map(|(name, decision)| {
        let mut child = child(name, decision, report);
        drift::report_drift(&mut child, before.children.get(name), name, decision, report, now);
        images::report_images(&mut child, before.children.get(name), name, decision, report);
        (name.clone(), child)
    });
    all.collect_map()
}

fn child(name: &str, decision: &Decision, report: &Report<'_>) -> HelmReleaseStatus {
    let desired = report.desired.releases.get(name);
    let record = report.observed.releases.get(&decision.key);
    let body = record.and_then(|record| record.body.as_ref());
    let status = match (record, &decision.step) {
        (_, Step::Wait(Wait::Unmanaged(_))) => "unmanaged".to_owned(),
        (Some(record), _) => record.status.to_string(),
        (None, Step::Wait(Wait::Helm { .. })) => "starting".into(),
        (None, _) => "absent".into(),
    };
    let version = body.map(|body| body.chart_version.clone()).filter(|version| !version.is_empty());
    HelmReleaseStatus {
        status,
        ready: decision.step == Step::Ready,
        revision: record.map(|record| record.revision),
        chart: desired.map(|desired| desired.chart.clone()).unwrap_or_default(),
        version: version.or_else(|| desired.and_then(|desired| desired.version.clone())),
        chart_digest: desired.and_then(|desired| desired.chart_digest.clone()),
        digest: record.and_then(|record| record.inputs.as_ref()).map(|inputs| inputs.chars().take(12).collect()),
        since: record.and_then(|record| record.created_at).map(|since| format!("{since:.0}")),
        hook: body.and_then(|body| body.hook.as_ref()).filter(|hook| !hook.failed).map(|hook| hook.name.clone()),
        message: match desired {
            Some(desired) if !desired.managed && decision.step == Step::Ready => UNMANAGED.to_owned(),
            _ => with_size(message(&decision.step), body),
        },
        changes: report.changes.get(name).cloned().unwrap_or_default(),
        images: Vec::new(),
        previous_images: Vec::new(),
        drift: Vec::new(),
    }
}

fn message(step: &Step) -> String {
    match step {
        Step::Do(action, why) => format!("{action}: {why}"),
        Step::Wait(wait) => wait.to_string(),
        Step::Settling(lines) => first(lines),
        Step::Ready => String::new(),
    }
}

/// Appends a warning to the release's message if its record nearly fills a Secret.
///
/// helm cannot store a record that does not fit into a Secret, so every later operation on the release would fail.
fn with_size(message: String, body: Option<&RecordBody>) -> String {
    let Some(warning) = body.and_then(|body| size_warning(body.stored_bytes)) else { return message };
    if message.is_empty() { warning } else { format!("{message}; {warning}") }
}

/// Returns the warning about a record whose payload has `stored` bytes; `None` if the record is small enough.
pub(super) fn size_warning(stored: usize) -> Option<String> {
    let percent = stored.saturating_mul(100) / RECORD_LIMIT;
    (percent >= WARN_PERCENT).then(|| {
        format!(
            "its helm record fills {percent} % of the 1 MiB that a Secret may contain, and helm fails if the record does not fit; make the release's values shorter, because the record contains the values and the rendered manifests"
        )
    })
}

/// Returns the health of all components of releases that are desired or still exist, by application and component.
pub(super) fn health(report: &Report<'_>) -> BTreeMap<String, BTreeMap<String, ComponentStatus>> {
    let mut all: BTreeMap<String, BTreeMap<String, ComponentStatus>> = BTreeMap::new();
    for (name, decision) in &report.plan.decisions {
        let components = report.desired.releases.get(name).into_iter().flat_map(|release| release.components.keys());
        for component in components {
            all.entry(component.application.clone())
                .or_default()
                .entry(component.component.clone())
                .or_insert_with(unknown);
        }
        let key = &decision.key;
        let own = report.observed.workloads.iter().filter(|w| w.namespace == key.namespace && w.release == key.name);
        let mut grouped: BTreeMap<_, Vec<_>> = BTreeMap::new();
        own.for_each(|workload| grouped.entry(&workload.component).or_default().push(workload));
        for (component, workloads) in grouped {
            let slot = all.entry(component.application.clone()).or_default();
            let scaled_away = workloads.iter().find(|workload| report.observed.is_scaled_to_zero(workload));
            let status =
                scaled_away.map_or_else(|| health::aggregate(&workloads), |workload| health::scaled_to_zero(workload));
            slot.insert(component.component.clone(), status);
        }
    }
    all
}

fn unknown() -> ComponentStatus {
    ComponentStatus {
        status: ComponentHealth::Unknown,
        generation: None,
        ready: "0/0".into(),
        reason: "its workload does not exist yet".into(),
    }
}

/// Returns the number of components that are ready.
pub(super) fn healthy(health: &BTreeMap<String, BTreeMap<String, ComponentStatus>>) -> usize {
    health.values().flat_map(BTreeMap::values).filter(|status| status.status == ComponentHealth::Ready).count()
}

/// Adds the health of each API that osdpl probes, as a component named `endpoint`.
pub(super) fn add_endpoints(health: &mut BTreeMap<String, BTreeMap<String, ComponentStatus>>, report: &Report<'_>) {
    for decision in report.plan.decisions.values() {
        if let Some(probe) = report.observed.endpoints.get(&decision.key) {
            health
                .entry(probe.application.clone())
                .or_default()
                .insert(endpoint::COMPONENT.into(), endpoint::assess(probe));
        }
    }
}
