//! Creates Kubernetes Events for the differences between the previous and the new status of an `OpenStackDeployment`.
//!
//! A restarted operator repeats no event, because it reads the previous status from the `OpenStackDeployment`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::conditions::{WARNINGS, spec_warnings};
use super::event::{Event, Subject, event};
use super::{Report, drift, images, labels, rollouts};
use crate::api::{HelmReleaseStatus, OpenStackDeploymentStatus, condition, reason};
use crate::catalog::Level;
use crate::plan::{Step, Wait};
use crate::release::Status;

/// The reason of an event about a failed release.
const FAILED: &str = "Failed";

impl Event {
    /// Returns the name of the release whose failure the event reports; `None` for any other event.
    pub fn failure(&self) -> Option<&str> {
        match &self.subject {
            Some(Subject::Release(name)) if self.reason == FAILED => Some(name),
            Some(Subject::Release(_) | Subject::Secret(_) | Subject::Field(_) | Subject::Object { .. }) | None => None,
        }
    }
}

pub(super) fn events(
    before: &OpenStackDeploymentStatus,
    now: &OpenStackDeploymentStatus,
    report: &Report<'_>,
) -> Vec<Event> {
    let mut events = Vec::new();
    for (name, child) in &now.children {
        let before = before.children.get(name);
        let events_of = installing(name, before, child).into_iter().chain(release(name, before, child));
        let events_of = events_of.chain(failed(name, child, report));
        events.extend(events_of.map(|event| Event { subject: Some(Subject::Release(name.clone())), ..event }));
        events.extend(drift::events(name, before, child));
        events.extend(images::events(name, before, child, report));
    }
    for name in removed(&before.children, &now.children).into_iter().filter(|name| !still_exists(name, report)) {
        let event = event(false, "Uninstalled", format!("release {name} is removed"));
        events.push(Event { subject: Some(Subject::Release(name.to_owned())), ..event });
    }
    events.extend(rollouts::events(&before.rollouts, &now.rollouts));
    events.extend(labels::awaiting_event(before, now, report));
    events.extend(new_warnings(before, report));
    events.extend(added_services(before, now, report));
    events.extend(ready_changed(before, now));
    events
}

fn ready(status: &OpenStackDeploymentStatus) -> Option<&Condition> {
    status.conditions.iter().find(|condition| condition.type_ == condition::READY)
}

/// Returns the event for a change of the condition Ready; `None` if neither its status nor its reason changed.
///
/// The reasons [`reason::RELEASES`] and [`reason::WORKLOADS`] only say that releases or workloads make progress. If
/// Ready has one of these reasons now, the function returns an event only if Ready was true before, or if the cloud was
/// paused before.
pub(super) fn ready_changed(before: &OpenStackDeploymentStatus, now: &OpenStackDeploymentStatus) -> Option<Event> {
    let (old, Condition { status, reason: why, message, .. }) = (ready(before), ready(now)?);
    if old.is_some_and(|old| old.status == *status && old.reason == *why) {
        return None;
    }
    let is_progressing = matches!(why.as_str(), reason::RELEASES | reason::WORKLOADS);
    let resumed = old.is_some_and(|old| old.reason == reason::PAUSED) && why != reason::DELETING;
    let lost = old.is_some_and(|old| old.status == "True");
    match (is_progressing, resumed) {
        (true, true) => Some(event(false, "Resumed", format!("the cloud is no longer paused: {message}"))),
        (true, false) if !lost => None,
        (true, false) => Some(event(false, event_reason(why), message.clone())),
        (false, _) => {
            let is_expected = matches!(why.as_str(), reason::DELETING | reason::PAUSED | reason::APPROVAL);
            Some(event(status == "False" && !is_expected, event_reason(why), message.clone()))
        }
    }
}

/// Returns one event for each field with new warnings. A warning is new if the previous message of the condition Ready
/// did not contain it.
///
/// That message contains only the first [`WARNINGS`] warnings. So the function ignores all further warnings: they would
/// seem new in every pass.
fn new_warnings(before: &OpenStackDeploymentStatus, report: &Report<'_>) -> Vec<Event> {
    let known = ready(before).map_or("", |condition| condition.message.as_str());
    let warnings = spec_warnings(report).into_iter().take(WARNINGS);
    let mut new_by_field: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (field, text) in warnings.map(|finding| (finding.location.field.as_str(), finding.to_string())) {
        if !known.contains(text.as_str()) {
            new_by_field.entry(field).or_default().push(text);
        }
    }
    let about = |field: &str| Some(Subject::Field(field.to_owned()));
    let warning = |(field, texts): (&str, Vec<String>)| Event {
        subject: about(field),
        ..event(true, "SpecWarning", texts.join("; "))
    };
    new_by_field.into_iter().map(warning).collect()
}

/// Returns an event for each service that osdpl adds because another service requires it. osdpl sends the event when
/// the status first contains a release of the added service.
fn added_services<'a>(
    before: &'a OpenStackDeploymentStatus,
    now: &'a OpenStackDeploymentStatus,
    report: &'a Report<'_>,
) -> impl Iterator<Item = Event> + 'a {
    let notes = report.findings.iter().filter(|finding| finding.level == Level::Note);
    notes.filter_map(|note| {
        let service = note.field().strip_prefix("spec.services.")?;
        let mut own = report.desired.releases.iter().filter(|(_, release)| release.service == service);
        let is_new = |name: &String| now.children.contains_key(name) && !before.children.contains_key(name);
        own.any(|(name, _)| is_new(name)).then(|| event(false, "ServiceAdded", note.to_string()))
    })
}

fn removed<'a>(
    before: &'a BTreeMap<String, HelmReleaseStatus>,
    now: &BTreeMap<String, HelmReleaseStatus>,
) -> Vec<&'a str> {
    before
        .iter()
        .filter(|(name, child)| child.revision.is_some() && !now.contains_key(*name))
        .map(|(name, _)| name.as_str())
        .collect()
}

/// Whether a release that is no longer in the status still has a record, for example because osdpl unmanaged it. If so,
/// helm has not uninstalled the release.
///
/// A release with the same name in another namespace counts only if osdpl made one of that release's revisions.
fn still_exists(name: &str, report: &Report<'_>) -> bool {
    let mut records = report.observed.releases.iter();
    records.any(|(key, record)| match record.status {
        Status::Uninstalled => false,
        _ if record.is_ours() => record.release.as_deref().unwrap_or(&key.name) == name,
        _ => report.names.get(key).is_some_and(|known| known == name),
    })
}

/// Returns the event that reports the install of a release, when the release's first record appears.
///
/// helm may finish before the next pass, so the record may have any status.
fn installing(name: &str, before: Option<&HelmReleaseStatus>, now: &HelmReleaseStatus) -> Option<Event> {
    let known = before.is_some_and(|child| child.revision.is_some() || child.status == "unmanaged");
    let pending = now.status == "pending-install" && before.is_none_or(|child| child.status != now.status);
    let recorded = before.is_some() && now.revision.is_some() && now.status != "unmanaged";
    (!known && (recorded || pending)).then(|| event(false, "Installing", format!("helm installs release {name}")))
}

/// Returns the event that reports a failed operation on a release; `None` if an event already reported the failure, or
/// if the release does not wait because of the failure. For example, osdpl stopped helm on purpose, or already starts
/// the next operation.
///
/// The failure's field `is_reported` says whether an event already reported the failure. The release's step can't tell
/// this, because the step changes several times after one failure.
fn failed(name: &str, now: &HelmReleaseStatus, report: &Report<'_>) -> Option<Event> {
    let decision = report.plan.decisions.get(name)?;
    let after = match &decision.step {
        Step::Wait(Wait::Backoff { .. }) => true,
        Step::Wait(Wait::Blocked { reason, .. }) => reason == reason::FAILED,
        Step::Wait(_) | Step::Do(..) | Step::Settling(_) | Step::Ready => false,
    };
    let failure = report.observed.failures.get(&decision.key).filter(|failure| !failure.is_reported)?;
    let revision = now.revision.map(|revision| format!(", revision {revision}")).unwrap_or_default();
    let note = format!("release {name} failed{revision}: {}", failure.message);
    after.then(|| event(true, FAILED, note))
}

fn release(name: &str, before: Option<&HelmReleaseStatus>, now: &HelmReleaseStatus) -> Option<Event> {
    let (old, old_revision) = before.map_or(("", None), |child| (child.status.as_str(), child.revision));
    if old == now.status && old_revision == now.revision {
        return None;
    }
    let revision = now.revision.unwrap_or_default();
    match now.status.as_str() {
        "deployed" => Some(event(false, "Deployed", format!("release {name} is deployed, revision {revision}"))),
        "pending-upgrade" => {
            Some(event(false, "Upgrading", format!("helm upgrades release {name} to revision {revision}")))
        }
        "pending-rollback" => Some(event(true, "RollingBack", format!("someone rolls back release {name}"))),
        "uninstalling" => Some(event(false, "Uninstalling", format!("helm uninstalls release {name}"))),
        "unmanaged" => Some(event(true, "Unmanaged", format!("release {name}: {}", now.message))),
        _ => None,
    }
}

/// Returns the reason of an event about the condition Ready. It is `why`, the reason of the condition, as a static
/// string; [`reason::NONE`] if this function does not list `why`.
fn event_reason(why: &str) -> &'static str {
    let known = [
        reason::READY,
        reason::RELEASES,
        reason::WORKLOADS,
        reason::FAILED,
        reason::UNHEALTHY,
        reason::APPROVAL,
        reason::INVALID,
        reason::OLDER_RESOURCE,
        reason::OUTSIDE,
        reason::NO_NODES,
        reason::PAUSED,
        reason::DELETING,
        reason::CHART,
        reason::INPUTS,
        reason::FAILING,
        reason::FOREIGN,
    ];
    known.into_iter().find(|known| *known == why).unwrap_or(reason::NONE)
}
