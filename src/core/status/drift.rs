//! What others did to the objects of releases, in words.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::events::{About, event};
use super::{Event, Report, children};
use crate::api::{ChildStatus, DriftPolicy, ObjectDrift, REPAIR};
use crate::drift::{Change, Drifted};
use crate::plan::{Decision, Mending, Step};

/// Each release by its name in the catalogue.
pub type Children = BTreeMap<String, ChildStatus>;

/// So many objects of a release are listed.
const LISTED: usize = 10;

/// Adds to a release's status what others did to its objects, and what is done about it.
pub fn tell(
    child: &mut ChildStatus,
    before: Option<&ChildStatus>,
    name: &str,
    decision: &Decision,
    report: &Report<'_>,
    now: Timestamp,
) {
    let policy = report.desired.releases.get(name).map_or(DriftPolicy::Ignore, |release| release.drift);
    let known = before.map_or(&[][..], |before| before.drift.as_slice());
    let found = report.observed.drifted(&decision.key).iter();
    let found = found.filter(|drifted| !is_due(drifted, name, decision, report));
    let found = found.map(|drifted| entry(drifted, known, now));
    // What changes while our own helm is at the release is no news before its record tells what helm has done.
    let at_work = report.observed.running.contains_key(&decision.key);
    let found: Vec<_> = found.filter(|entry| !at_work || known.contains(entry)).collect();
    if policy == DriftPolicy::Ignore || found.is_empty() {
        return;
    }
    child.drift = found.iter().take(LISTED).cloned().collect();
    let mut lines: Vec<String> = child.drift.iter().map(line).collect();
    lines.extend((LISTED..found.len()).map(|_| String::new()));
    let told = format!("{}{}", children::first(&lines), advice(name, decision));
    child.message = if child.message.is_empty() { told } else { format!("{}; {told}", child.message) };
}

/// Whether a Job is gone that the upgrade to come deletes in any case, and makes anew. Mostly that has deleted it already, and has not come to its
/// record yet, or never will: nobody did that beside us.
fn is_due(Drifted { id, change }: &Drifted, name: &str, decision: &Decision, report: &Report<'_>) -> bool {
    let comes = !matches!(decision.step, Step::Ready | Step::Settle(_));
    let is_job = *change == Change::Deleted && id.kind.kind == "Job" && id.namespace == decision.key.namespace;
    let release = report.desired.releases.get(name);
    comes && is_job && release.is_some_and(|release| release.plain_jobs.contains(&id.name))
}

/// What leaves no time was noticed when it was first told.
fn entry(Drifted { id, change }: &Drifted, known: &[ObjectDrift], now: Timestamp) -> ObjectDrift {
    let (change, by, at) = match change {
        Change::Deleted => ("deleted".to_owned(), None, None),
        Change::Stripped(fields) => (format!("edited: {fields} taken out"), None, None),
        Change::Edited(write) => (format!("edited: {}", write.fields), Some(write.manager.clone()), write.at),
    };
    let object = id.to_string();
    let same = |known: &&ObjectDrift| known.object == object && known.change == change && at.is_none();
    let noticed = || known.iter().find(same).map_or_else(|| format!("{now:.0}"), |known| known.at.clone());
    let at = at.map_or_else(noticed, |at| format!("{at:.0}"));
    ObjectDrift { object, change, by, at }
}

fn line(ObjectDrift { object, change, by, at }: &ObjectDrift) -> String {
    let (verb, what) = change.split_once(": ").map_or((change.as_str(), None), |(verb, what)| (verb, Some(what)));
    let who = by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
    let noticed = if by.is_none() { "noticed " } else { "" };
    let what = what.map(|what| format!(" ({what})")).unwrap_or_default();
    format!("{object} was {verb}{who}{what}, {noticed}at {at}")
}

fn advice(name: &str, decision: &Decision) -> String {
    match decision.mending {
        Some(Mending::Told) => format!(
            "; drift is set to Report, so it is left; annotate the resource with {REPAIR}={name} to have the release applied again"
        ),
        Some(Mending::Held) => "; nothing is done about it while it is paused".into(),
        Some(Mending::Fought { count, until }) => {
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            format!(
                "; it was taken back {times} and done again: whoever does it has to be stopped; next repair at {until:.0}"
            )
        }
        Some(Mending::Now) | None => String::new(),
    }
}

/// Names the releases whose objects others changed, for the end of the one message about all of them.
pub fn summary(children: &Children) -> Option<String> {
    let drifted = children.iter().filter(|(_, child)| !child.drift.is_empty());
    let names: Vec<_> = drifted.map(|(name, _)| name.as_str()).collect();
    (!names.is_empty()).then(|| format!("; objects changed beside helm: {}", names.join(", ")))
}

/// The first release whose objects others changed.
pub fn degraded(children: &Children) -> Option<String> {
    let (name, child) = children.iter().find(|(_, child)| !child.drift.is_empty())?;
    Some(format!("{name}: {}", child.message))
}

/// What was not told of a release before, object by object.
pub fn events(name: &str, before: Option<&ChildStatus>, now: &ChildStatus) -> Vec<Event> {
    let known = before.map_or(&[][..], |before| before.drift.as_slice());
    let new = now.drift.iter().filter(|drift| !known.contains(drift));
    let told = new.map(|drift| Event {
        about: drift.object.split_once(' ').map(|(kind, name)| About::Object { kind: kind.into(), name: name.into() }),
        ..event(true, "Drifted", format!("release {name}: {}", line(drift)))
    });
    told.collect()
}

#[cfg(test)]
mod tests;
