//! Reports changes outside of releases: removals of node labels, and changes of objects that wait for approval. These
//! changes get a line in the status messages. Changes that wait for approval also get an event.

use std::collections::BTreeSet;

use osdpl_values::CollectSorted;

use super::event::event;
use super::{Event, Report, first};
use crate::api::{OpenStackDeploymentStatus, Phase, reason};
use crate::nodes::format_names;

/// Describes the removals of labels and the changes of objects that wait for approval; `None` if nothing waits.
pub(super) fn awaiting(report: &Report<'_>) -> Option<String> {
    let texts: Vec<String> =
        awaiting_removal(report).into_iter().chain(report.awaiting_objects.iter().cloned()).collect();
    (!texts.is_empty()).then(|| first(&texts))
}

/// Describes the labels whose removal waits for approval; `None` if no removal waits.
fn awaiting_removal(report: &Report<'_>) -> Option<String> {
    let awaiting = report.label_removal.map(|removal| &removal.awaiting).filter(|awaiting| !awaiting.is_empty())?;
    let labels: BTreeSet<&str> = awaiting.values().flat_map(|labels| labels.split(',')).collect_set();
    let labels: Vec<&str> = labels.into_iter().collect();
    let nodes = format_names(awaiting.keys().map(String::as_str), awaiting.len());
    let labels = labels.join(", ");
    Some(format!(
        "osdpl waits for approval to remove labels {labels} from {nodes}, which also removes the pods that need these \
         labels"
    ))
}

/// Returns the phase of the cloud and a line for the status message if changes wait for approval or osdpl is removing
/// node labels; otherwise `None`.
pub(super) fn progress(report: &Report<'_>) -> Option<(Phase, String)> {
    if let Some(awaiting) = awaiting(report) {
        let message = format!("{awaiting}; see `osdpl plan`, then run `osdpl approve {}`", report.plan.hash);
        return Some((Phase::AwaitingApproval, message));
    }
    let removal = report.label_removal.filter(|removal| removal.left > 0)?;
    let total = removal.status.as_ref()?.nodes.len();
    let message = format!("osdpl removes labels from nodes in batches: {} of {total} nodes left", removal.left);
    Some((Phase::Updating, message))
}

/// Returns the event that reports changes that wait for approval; `None` if no change waits, or if an event already
/// reported the target hash of these changes.
pub(super) fn awaiting_event(
    before: &OpenStackDeploymentStatus,
    now: &OpenStackDeploymentStatus,
    report: &Report<'_>,
) -> Option<Event> {
    awaiting(report)?;
    let (_, message) = progress(report)?;
    (before.approval != now.approval).then(|| event(false, reason::APPROVAL, message))
}
