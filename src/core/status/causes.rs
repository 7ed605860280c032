//! `status.causes`: each root cause once, with the affected objects.

use k8s_openapi::jiff::Timestamp;

use super::Report;
use crate::api::RootCauseStatus;
use crate::observed::Cause;

/// The maximum number of causes in the status. The others are reported once these are fixed.
const MAX_CAUSES: usize = 20;

/// The maximum number of affected objects per cause.
const MAX_AFFECTED: usize = 20;

/// The maximum number of affected objects in a condition's message.
const MAX_AFFECTED_IN_MESSAGE: usize = 3;

/// Returns the causes that concern the resource's releases, most severe first.
fn own_causes<'a>(report: &'a Report<'_>) -> impl Iterator<Item = &'a Cause> {
    let ours = |cause: &&Cause| report.plan.decisions.values().any(|decision| cause.releases.contains(&decision.key));
    report.observed.causes.iter().filter(ours)
}

/// Returns the root causes. A known cause keeps its time.
pub(super) fn causes(before: &[RootCauseStatus], report: &Report<'_>, now: Timestamp) -> Vec<RootCauseStatus> {
    let causes = own_causes(report).take(MAX_CAUSES).map(|cause| {
        let known = before.iter().find(|known| known.message == cause.message);
        RootCauseStatus {
            message: cause.message.clone(),
            objects: cause.objects.clone(),
            affected: limit_names(&cause.affected, MAX_AFFECTED),
            since: known.map_or_else(|| format!("{now:.0}"), |known| known.since.clone()),
        }
    });
    causes.collect()
}

/// Prepends the first cause to a message. With `only_stuck` causes that may resolve by themselves are skipped.
pub(super) fn prepend_cause(message: String, report: &Report<'_>, only_stuck: bool) -> String {
    let is_relevant = |cause: &&Cause| !cause.is_periodic() && (cause.stuck || !only_stuck);
    let Some(first) = own_causes(report).find(is_relevant) else { return message };
    let line = line(first);
    // Skip the prefix if the message contains the same reason already.
    let repeats = first.message.split_once(": ").is_some_and(|(_, why)| message.contains(why));
    if repeats || message.is_empty() { line } else { format!("{line}; {message}") }
}

/// Formats a cause with the affected objects in one line.
fn line(cause: &Cause) -> String {
    let affected = limit_names(&cause.affected, MAX_AFFECTED_IN_MESSAGE);
    if affected.is_empty() {
        cause.message.clone()
    } else {
        format!("{} ({} waiting)", cause.message, affected.join(", "))
    }
}

fn limit_names(all: &[String], most: usize) -> Vec<String> {
    let mut names: Vec<String> = all.iter().take(most).cloned().collect();
    if all.len() > most {
        names.push(format!("and {} more", all.len() - most));
    }
    names
}

#[cfg(test)]
mod tests;
