//! What people should hear of, once: the difference of two statuses. A restart repeats nothing, as the previous status is the stored one.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::Report;
use super::conditions::{WARNINGS, doubts};
use crate::api::{ChildStatus, OpenStackDeploymentStatus, condition, reason};
use crate::catalog::Level;
use crate::credentials::Restored;
use crate::nodes::several;
use crate::openstack::Forgotten;
use crate::plan::{Step, Wait};

/// A Kubernetes Event on the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether it is a warning.
    pub warning: bool,
    /// One word of a closed set.
    pub reason: &'static str,
    /// One line, at most 1,000 bytes.
    pub note: String,
    /// What it is about: events of one reason about several releases must not be folded into one.
    pub about: Option<About>,
}

/// What an event is about, beside the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A release, by its name in the catalogue.
    Release(String),
    /// A Secret in the resource's namespace.
    Secret(String),
    /// A field of the resource, as it is now.
    Field(String),
    /// An object of a release.
    Object {
        /// `Deployment` and the like.
        kind: String,
        /// Its name.
        name: String,
    },
}

/// That a Secret of ours was put back: told when it was written, whatever the status says.
pub fn restored(restored: &Restored) -> Event {
    let about = Some(About::Secret(restored.secret.clone()));
    Event { about, ..event(true, "CredentialRestored", restored.to_string()) }
}

/// That `count` new hosts of Nova's are mapped into a cell.
pub fn mapping<'a>(hosts: impl Iterator<Item = &'a str>, count: usize, job: &str) -> Event {
    let names = several(hosts, count);
    let about = Some(About::Object { kind: "Job".into(), name: job.into() });
    Event { about, ..event(false, "MappingHosts", format!("Job {job} maps new computes into their cell: {names}")) }
}

/// That Nova and Neutron know the host of a node no more.
pub fn forgotten(node: &str, found: &Forgotten) -> Event {
    let Forgotten { host, agents } = found;
    let words = format!("host {host} is forgotten: its nova-compute and {agents} of Neutron's agents");
    Event {
        about: Some(About::Object { kind: "Node".into(), name: node.into() }),
        ..event(false, "HostForgotten", words)
    }
}

/// That a person asked for it in vain, and why.
pub fn not_forgotten(node: &str, why: &str) -> Event {
    let about = Some(About::Object { kind: "Node".into(), name: node.into() });
    Event { about, ..event(true, "HostNotForgotten", format!("{node} is not forgotten: {why}")) }
}

/// That a cloud goes and leaves what it made, because releases stay whose pods may live on it.
pub fn retained(releases: &[String], kept: &[String]) -> Event {
    let (releases, kept) = (releases.join(", "), kept.join(", "));
    let words = format!(
        "not osdpl's and left as it is: {releases}; with it stays what its pods may live on: {kept}; what the README says of deleting removes it later"
    );
    event(false, "Retained", words)
}

/// The reason of an event about a failure.
const FAILED: &str = "Failed";

impl Event {
    /// The release whose failure it tells.
    pub fn failure(&self) -> Option<&str> {
        match &self.about {
            Some(About::Release(name)) if self.reason == FAILED => Some(name),
            Some(About::Release(_) | About::Secret(_) | About::Field(_) | About::Object { .. }) | None => None,
        }
    }
}

pub fn events(before: &OpenStackDeploymentStatus, now: &OpenStackDeploymentStatus, report: &Report<'_>) -> Vec<Event> {
    let mut events = Vec::new();
    for (name, child) in &now.children {
        let before = before.children.get(name);
        let said = installing(name, before, child).into_iter().chain(release(name, before, child));
        let said = said.chain(failed(name, child, report));
        events.extend(said.map(|event| Event { about: Some(About::Release(name.clone())), ..event }));
        events.extend(super::drift::events(name, before, child));
    }
    for name in gone(&before.children, &now.children).into_iter().filter(|name| !stands(name, report)) {
        let gone = event(false, "Uninstalled", format!("release {name} is gone"));
        events.push(Event { about: Some(About::Release(name.to_owned())), ..gone });
    }
    events.extend(super::rollouts::events(&before.rollouts, &now.rollouts));
    events.extend(warned(before, report));
    events.extend(pulled_in(before, now, report));
    events.extend(turned(before, now));
    events
}

fn ready(status: &OpenStackDeploymentStatus) -> Option<&Condition> {
    status.conditions.iter().find(|condition| condition.type_ == condition::READY)
}

/// Another answer of Ready. What is merely on its way is spoken of where it takes Ready, or a pause, away.
pub fn turned(before: &OpenStackDeploymentStatus, now: &OpenStackDeploymentStatus) -> Option<Event> {
    let (old, Condition { status, reason: why, message, .. }) = (ready(before), ready(now)?);
    if old.is_some_and(|old| old.status == *status && old.reason == *why) {
        return None;
    }
    let under_way = matches!(why.as_str(), reason::RELEASES | reason::WORKLOADS);
    let resumed = old.is_some_and(|old| old.reason == reason::PAUSED) && why != reason::DELETING;
    let lost = old.is_some_and(|old| old.status == "True");
    match (under_way, resumed) {
        (true, true) => Some(event(false, "Resumed", format!("not paused any more: {message}"))),
        (true, false) if !lost => None,
        (true, false) => Some(event(false, spoken_reason(why), message.clone())),
        (false, _) => {
            let calm = matches!(why.as_str(), reason::DELETING | reason::PAUSED | reason::APPROVAL);
            Some(event(status == "False" && !calm, spoken_reason(why), message.clone()))
        }
    }
}

/// Warnings about the spec that Ready's message tells and did not have yet, by field: what it never tells would be news each time.
fn warned(before: &OpenStackDeploymentStatus, report: &Report<'_>) -> Vec<Event> {
    let known = ready(before).map_or("", |condition| condition.message.as_str());
    let warnings = doubts(report).into_iter().take(WARNINGS);
    let mut news: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (field, text) in warnings.map(|finding| (finding.field.as_str(), finding.to_string())) {
        if !known.contains(text.as_str()) {
            news.entry(field).or_default().push(text);
        }
    }
    let about = |field: &str| Some(About::Field(field.to_owned()));
    let warning = |(field, texts): (&str, Vec<String>)| Event {
        about: about(field),
        ..event(true, "SpecWarning", texts.join("; "))
    };
    news.into_iter().map(warning).collect()
}

/// Services that others need, when they become part of the cloud.
fn pulled_in<'a>(
    before: &'a OpenStackDeploymentStatus,
    now: &'a OpenStackDeploymentStatus,
    report: &'a Report<'_>,
) -> impl Iterator<Item = Event> + 'a {
    let notes = report.findings.iter().filter(|finding| finding.level == Level::Note);
    notes.filter_map(|note| {
        let service = note.field.strip_prefix("spec.services.")?;
        let mut own = report.desired.releases.iter().filter(|(_, release)| release.service == service);
        let is_new = |name: &String| now.children.contains_key(name) && !before.children.contains_key(name);
        own.any(|(name, _)| is_new(name)).then(|| event(false, "ServiceAdded", note.to_string()))
    })
}

fn gone<'a>(before: &'a BTreeMap<String, ChildStatus>, now: &BTreeMap<String, ChildStatus>) -> Vec<&'a str> {
    before
        .iter()
        .filter(|(name, child)| child.revision.is_some() && !now.contains_key(*name))
        .map(|(name, _)| name.as_str())
        .collect()
}

/// Whether a record of it stands, though nothing is decided of it any more: it is let go, or nobody's. What others call alike, anywhere in the cluster, is
/// another release.
fn stands(name: &str, report: &Report<'_>) -> bool {
    let mut seen = report.observed.releases.iter();
    seen.any(|(key, seen)| match seen.status.as_str() {
        "uninstalled" => false,
        _ if seen.is_ours() => seen.release.as_deref().unwrap_or(&key.name) == name,
        _ => report.names.get(key).is_some_and(|known| known == name),
    })
}

/// Its first record, however it stands by now: a fast helm is done before anyone looked.
fn installing(name: &str, before: Option<&ChildStatus>, now: &ChildStatus) -> Option<Event> {
    let known = before.is_some_and(|child| child.revision.is_some() || child.status == "unmanaged");
    let pending = now.status == "pending-install" && before.is_none_or(|child| child.status != now.status);
    let recorded = before.is_some() && now.revision.is_some() && now.status != "unmanaged";
    (!known && (recorded || pending)).then(|| event(false, "Installing", format!("helm installs release {name}")))
}

/// A failure in the words of its own outcome: a helm that was stopped on purpose has none. What follows it may be said in many ways, one after
/// the other: that it was told is remembered with it.
fn failed(name: &str, now: &ChildStatus, report: &Report<'_>) -> Option<Event> {
    let decision = report.plan.decisions.get(name)?;
    let after = match &decision.step {
        Step::Wait(Wait::Backoff { .. }) => true,
        Step::Wait(Wait::Blocked { reason, .. }) => reason == reason::FAILED,
        Step::Wait(_) | Step::Do(..) | Step::Settle(_) | Step::Ready => false,
    };
    let failure = report.observed.failures.get(&decision.key).filter(|failure| !failure.told)?;
    let revision = now.revision.map(|revision| format!(", revision {revision}")).unwrap_or_default();
    let note = format!("release {name} failed{revision}: {}", failure.message);
    after.then(|| event(true, FAILED, note))
}

fn release(name: &str, before: Option<&ChildStatus>, now: &ChildStatus) -> Option<Event> {
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

/// Reasons of events are a closed set as well: those of the conditions that are spoken of.
fn spoken_reason(why: &str) -> &'static str {
    let known = [
        reason::READY,
        reason::RELEASES,
        reason::WORKLOADS,
        reason::FAILED,
        reason::UNHEALTHY,
        reason::APPROVAL,
        reason::INVALID,
        reason::NOT_THE_ONE,
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

pub fn event(warning: bool, reason: &'static str, mut note: String) -> Event {
    // events.k8s.io refuses notes over 1 kB.
    if note.len() > 1000 {
        let end = (0..=997).rev().find(|end| note.is_char_boundary(*end)).unwrap_or(0);
        note.truncate(end);
        note.push('…');
    }
    Event { warning, reason, note, about: None }
}
