//! Reports drift in the status: which object of a release changed, who changed it, and what osdpl does about the
//! change.

use k8s_openapi::jiff::Timestamp;

use super::event::{Subject, event};
use super::{Children, Event, Report, first};
use crate::api::{DriftPolicy, HelmReleaseStatus, ObjectDrift, REPAIR};
use crate::drift::{Change, DriftedObject};
use crate::plan::{Decision, DriftAction, Step};

/// The maximum number of drifted objects in the status of a release.
const MAX_OBJECTS: usize = 10;

/// Adds the drift of a release, and what osdpl does about it, to the status of the release.
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
    // While helm runs, report only drift that the previous status already contains. New differences between the objects
    // and the record may come from helm, which changes the objects before it updates the record.
    let helm_runs = report.observed.running.contains_key(&decision.key);
    let found: Vec<_> = found.filter(|entry| !helm_runs || known.contains(entry)).collect();
    if policy == DriftPolicy::Ignore || found.is_empty() {
        return;
    }
    child.drift = found.iter().take(MAX_OBJECTS).cloned().collect();
    let mut lines: Vec<String> = child.drift.iter().map(describe).collect();
    lines.extend((MAX_OBJECTS..found.len()).map(|_| String::new()));
    let message = format!("{}{}", first(&lines), advice(name, decision));
    child.message = if child.message.is_empty() { message } else { format!("{}; {message}", child.message) };
}

/// Whether the drift is a deleted Job that the next upgrade creates again.
///
/// Such a Job is not reported as drift: usually osdpl itself has just deleted the Job before an upgrade, and helm has
/// not made the record of the upgrade yet.
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

/// Returns the status entry of a drifted object.
///
/// If the time of the change is unknown, the entry contains the time when osdpl first reported the change.
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
            "; osdpl does not repair the release, because `drift` is set to Report; to apply the release again, annotate the OpenStackDeployment with {REPAIR}={name}"
        ),
        Some(DriftAction::Paused) => {
            "; osdpl does not repair the release while the release or the cloud is paused, or the namespace is being \
             deleted"
                .into()
        }
        Some(DriftAction::Backoff { count, until }) => {
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            format!(
                "; drift came back after osdpl repaired the release {times}, so osdpl waits until {until:.0} before \
                 the next repair; find and stop the client that makes the change"
            )
        }
        Some(DriftAction::Now) | None => String::new(),
    }
}

/// Names the releases with drift, for the end of the status message; `None` if no release has drift.
pub(super) fn summary(children: &Children) -> Option<String> {
    let drifted = children.iter().filter(|(_, child)| !child.drift.is_empty());
    let names: Vec<_> = drifted.map(|(name, _)| name.as_str()).collect();
    (!names.is_empty()).then(|| format!("; releases with objects changed outside of helm: {}", names.join(", ")))
}

/// Returns the message of the condition Degraded about the first release with drift; `None` if no release has drift.
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
mod tests {
    use super::*;
    use crate::drift::{ForeignWrite, ObjectId, ObservedDrift, find_kind};
    use crate::release::Status;
    use crate::testing::{self, Fixture};

    const EARLY: Timestamp = Timestamp::constant(1_800_000_000, 0);
    const LATE: Timestamp = Timestamp::constant(1_800_000_100, 0);

    fn drifted(change: Change) -> DriftedObject {
        DriftedObject {
            id: ObjectId { kind: find_kind("v1", "Service").unwrap(), namespace: "n".into(), name: "api".into() },
            change,
        }
    }

    fn edited(at: Option<Timestamp>) -> Change {
        Change::Edited(ForeignWrite { manager: "kubectl".into(), at, fields: "spec.ports".into() })
    }

    #[test]
    fn drift_without_time_keeps_first_report_time() {
        for change in [Change::Deleted, Change::Stripped("spec.x".into()), edited(None)] {
            let first = entry(&drifted(change.clone()), &[], EARLY);
            assert_eq!(first.at, EARLY.to_string());
            assert_eq!(entry(&drifted(change), std::slice::from_ref(&first), LATE), first);
        }
        let other = entry(&drifted(edited(None)), &[entry(&drifted(Change::Deleted), &[], EARLY)], LATE);
        assert_eq!(other.at, LATE.to_string(), "a different change of the same object gets the time of its own report");
        let timed = entry(&drifted(edited(Some(EARLY))), &[], LATE);
        assert_eq!(describe(&timed), "Service api was edited by kubectl (spec.ports), at 2027-01-15T08:00:00Z");
        let gone = entry(&drifted(Change::Deleted), &[], LATE);
        assert_eq!(describe(&gone), "Service api was deleted, noticed at 2027-01-15T08:01:40Z");
    }

    #[test]
    fn reports_each_object_once() {
        let child = |drift: Vec<ObjectDrift>| HelmReleaseStatus { drift, ..HelmReleaseStatus::default() };
        let (one, two) =
            (entry(&drifted(Change::Deleted), &[], EARLY), entry(&drifted(edited(Some(EARLY))), &[], EARLY));
        let before = child(vec![one.clone()]);
        assert_eq!(events("x", None, &before).len(), 1);
        assert!(events("x", Some(&before), &before).is_empty());
        let new = events("x", Some(&before), &child(vec![one, two]));
        assert_eq!(new.len(), 1);
        assert!(
            new[0].warning
                && matches!(&new[0].subject, Some(Subject::Object { kind, name }) if kind == "Service" && name == "api"),
            "{new:?}"
        );
        assert!(events("x", Some(&before), &child(Vec::new())).is_empty());
    }

    /// Returns a cloud in which someone deleted a Job and a Service that revision 3 of the release `store` contains.
    fn deleted_objects() -> Fixture {
        let object = |kind_: &str, version: &str, name: &str| DriftedObject {
            id: ObjectId { kind: find_kind(version, kind_).unwrap(), namespace: "openstack".into(), name: name.into() },
            change: Change::Deleted,
        };
        let objects = vec![object("Job", "batch/v1", "store-setup"), object("Service", "v1", "store")];
        testing::fixture().with_release("store", testing::observed_release(Status::Deployed)).with(|fixture| {
            let key = fixture.desired.releases["store"].key.clone();
            fixture.observed.drift = std::sync::Arc::new([(key, ObservedDrift { revision: 3, objects })].into());
        })
    }

    /// Returns the status of the release `store` with its drift. `before` is its previous status.
    fn reported(fixture: &Fixture, before: Option<&HelmReleaseStatus>) -> HelmReleaseStatus {
        let (plan, spec) = (fixture.plan(), crate::api::OpenStackDeploymentSpec::default());
        let report = Report::new(&spec, 1, &fixture.desired, &fixture.observed, &plan);
        let mut child = HelmReleaseStatus::default();
        report_drift(&mut child, before, "store", &plan.decisions["store"], &report, EARLY);
        child
    }

    fn names(child: &HelmReleaseStatus) -> Vec<&str> {
        child.drift.iter().map(|drift| drift.object.as_str()).collect()
    }

    #[test]
    fn reports_new_drift_only_after_helm_ended() {
        let idle = deleted_objects();
        let known = reported(&idle, None);
        assert_eq!(names(&known), ["Job store-setup", "Service store"]);
        let busy = deleted_objects().with(|fixture| {
            let key = fixture.desired.releases["store"].key.clone();
            fixture.observed.running.insert(key, testing::running_helm("newer"));
            fixture.desired.releases.get_mut("store").unwrap().inputs = "newer".into();
        });
        assert_eq!(reported(&busy, None), HelmReleaseStatus::default());
        assert_eq!(names(&reported(&busy, Some(&known))), ["Service store"]);
    }

    #[test]
    fn ignores_jobs_that_the_next_upgrade_deletes() {
        let waiting = deleted_objects()
            .with(|fixture| fixture.desired.releases.get_mut("store").unwrap().inputs = "newer".into());
        assert_eq!(names(&reported(&waiting, None)), ["Service store"]);
    }
}
