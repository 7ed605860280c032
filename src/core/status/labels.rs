//! Reports the removal of node labels: its line in the status messages, and its event.

use std::collections::BTreeSet;

use super::events::event;
use super::{Event, Report};
use crate::api::{OpenStackDeploymentStatus, Phase, reason};
use crate::nodes::format_names;

/// Describes the labels whose removal waits for approval; `None` if no removal waits.
pub(super) fn awaiting(report: &Report<'_>) -> Option<String> {
    let awaiting = report.label_removal.map(|removal| &removal.awaiting).filter(|awaiting| !awaiting.is_empty())?;
    let labels: BTreeSet<&str> = awaiting.values().flat_map(|labels| labels.split(',')).collect();
    let labels: Vec<&str> = labels.into_iter().collect();
    let nodes = format_names(awaiting.keys().map(String::as_str), awaiting.len());
    let labels = labels.join(", ");
    Some(format!("labels {labels} would be removed from {nodes}, which also removes the pods that need these labels"))
}

/// Returns the phase and the line of a removal that waits for approval or that is in progress; `None` if there is no
/// removal.
pub(super) fn removal(report: &Report<'_>) -> Option<(Phase, String)> {
    if let Some(awaiting) = awaiting(report) {
        let message = format!("{awaiting}; see `osdpl plan`, then run `osdpl approve {}`", report.plan.hash);
        return Some((Phase::AwaitingApproval, message));
    }
    let removal = report.label_removal.filter(|removal| removal.left > 0)?;
    let total = removal.status.as_ref()?.nodes.len();
    let message = format!("labels are removed from nodes in batches: {} of {total} nodes left", removal.left);
    Some((Phase::Updating, message))
}

/// Returns the event that reports a removal that waits for approval; `None` if an event already reported this target
/// hash.
pub(super) fn awaiting_event(
    before: &OpenStackDeploymentStatus,
    now: &OpenStackDeploymentStatus,
    report: &Report<'_>,
) -> Option<Event> {
    awaiting(report)?;
    let (_, message) = removal(report)?;
    (before.approval != now.approval).then(|| event(false, reason::APPROVAL, message))
}
