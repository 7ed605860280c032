//! Drift in the status.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::events::{Subject, event};
use super::{Event, Report, children};
use crate::api::{DriftPolicy, HelmReleaseStatus, ObjectDrift, REPAIR};
use crate::drift::{Change, DriftedObject};
use crate::plan::{Decision, DriftAction, Step};

/// The status of each release by its catalogue name.
pub(super) type Children = BTreeMap<String, HelmReleaseStatus>;

/// The maximum number of drifted objects in the status.
const MAX_OBJECTS: usize = 10;

/// Adds the drift of a release and its handling to its status.
pub(super) fn report_drift(
    child: &mut HelmReleaseStatus,
    before: Option<&HelmReleaseStatus>,
    name: &str,
    decision: &Decision,
    report: &Report<'_>,
    now: Timestamp,
) {
    let policy = report.desired.releases.get(name).map_or(DriftPolicy::Ignore, |release| release.drift);
    let known = before.map_or(&[][..], |before| before.drift.as_slice());
    let found = report.observed.drifted(&decision.key).iter();
    let found = found.filter(|drifted| !is_deleted_by_upgrade(drifted, name, decision, report));
    let found = found.map(|drifted| entry(drifted, known, now));
    // New drift is not reported while our own helm runs, because its record does not contain its changes yet.
    let helm_runs = report.observed.running.contains_key(&decision.key);
    let found: Vec<_> = found.filter(|entry| !helm_runs || known.contains(entry)).collect();
    if policy == DriftPolicy::Ignore || found.is_empty() {
        return;
    }
    child.drift = found.iter().take(MAX_OBJECTS).cloned().collect();
    let mut lines: Vec<String> = child.drift.iter().map(describe).collect();
    lines.extend((MAX_OBJECTS..found.len()).map(|_| String::new()));
    let message = format!("{}{}", children::first(&lines), advice(name, decision));
    child.message = if child.message.is_empty() { message } else { format!("{}; {message}", child.message) };
}

/// Whether the object is a deleted Job that the next upgrade deletes and recreates anyway.
///
/// This is no drift: usually the upgrade has already deleted the Job, but has not written its record yet.
fn is_deleted_by_upgrade(
    DriftedObject { id, change }: &DriftedObject,
    name: &str,
    decision: &Decision,
    report: &Report<'_>,
) -> bool {
    let has_next_step = !matches!(decision.step, Step::Ready | Step::Settling(_));
    let is_job = *change == Change::Deleted && id.kind.kind == "Job" && id.namespace == decision.key.namespace;
    let release = report.desired.releases.get(name);
    has_next_step && is_job && release.is_some_and(|release| release.plain_jobs.contains(&id.name))
}

/// Builds the status entry. Drift without a time gets the time it was first reported.
fn entry(DriftedObject { id, change }: &DriftedObject, known: &[ObjectDrift], now: Timestamp) -> ObjectDrift {
    let (change, by, at) = match change {
        Change::Deleted => ("deleted".to_owned(), None, None),
        Change::Stripped(fields) => (format!("edited: {fields} removed"), None, None),
        Change::Edited(write) => (format!("edited: {}", write.fields), Some(write.manager.clone()), write.at),
    };
    let object = id.to_string();
    let same = |known: &&ObjectDrift| known.object == object && known.change == change && at.is_none();
    let noticed = || known.iter().find(same).map_or_else(|| format!("{now:.0}"), |known| known.at.clone());
    let at = at.map_or_else(noticed, |at| format!("{at:.0}"));
    ObjectDrift { object, change, by, at }
}

fn describe(ObjectDrift { object, change, by, at }: &ObjectDrift) -> String {
    let (verb, what) = change.split_once(": ").map_or((change.as_str(), None), |(verb, what)| (verb, Some(what)));
    let who = by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
    let noticed = if by.is_none() { "noticed " } else { "" };
    let what = what.map(|what| format!(" ({what})")).unwrap_or_default();
    format!("{object} was {verb}{who}{what}, {noticed}at {at}")
}

fn advice(name: &str, decision: &Decision) -> String {
    match decision.drift_action {
        Some(DriftAction::Reported) => format!(
            "; not repaired: drift is set to Report; annotate the resource with {REPAIR}={name} to apply the release again"
        ),
        Some(DriftAction::Paused) => "; not repaired while it is paused".into(),
        Some(DriftAction::Backoff { count, until }) => {
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            format!(
                "; it came back after being repaired {times}: find and stop the client that changes it; next repair at {until:.0}"
            )
        }
        Some(DriftAction::Now) | None => String::new(),
    }
}

/// Names the drifted releases, for the end of the summary message.
pub(super) fn summary(children: &Children) -> Option<String> {
    let drifted = children.iter().filter(|(_, child)| !child.drift.is_empty());
    let names: Vec<_> = drifted.map(|(name, _)| name.as_str()).collect();
    (!names.is_empty()).then(|| format!("; objects changed outside of helm: {}", names.join(", ")))
}

/// Returns the first release with drift.
pub(super) fn degraded(children: &Children) -> Option<String> {
    let (name, child) = children.iter().find(|(_, child)| !child.drift.is_empty())?;
    Some(format!("{name}: {}", child.message))
}

/// Returns an event for each drifted object that was not reported before.
pub(super) fn events(name: &str, before: Option<&HelmReleaseStatus>, now: &HelmReleaseStatus) -> Vec<Event> {
    let known = before.map_or(&[][..], |before| before.drift.as_slice());
    let new = now.drift.iter().filter(|drift| !known.contains(drift));
    let events = new.map(|drift| Event {
        subject: drift
            .object
            .split_once(' ')
            .map(|(kind, name)| Subject::Object { kind: kind.into(), name: name.into() }),
        ..event(true, "Drifted", format!("release {name}: {}", describe(drift)))
    });
    events.collect()
}

#[cfg(test)]
mod tests;
