//! What people should hear of, once: the difference of two statuses. A restart repeats nothing, as the previous status is the stored one.

use std::collections::BTreeMap;

use crate::api::{ChildStatus, OpenStackDeploymentStatus, condition, reason};

/// A Kubernetes Event on the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether it is a warning.
    pub warning: bool,
    /// One word of a closed set.
    pub reason: &'static str,
    /// One line, at most 1,000 bytes.
    pub note: String,
    /// The release that it is about: events of one reason about several releases must not be folded into one.
    pub release: Option<String>,
}

pub fn events(before: &OpenStackDeploymentStatus, now: &OpenStackDeploymentStatus) -> Vec<Event> {
    let mut events = Vec::new();
    for (name, child) in &now.children {
        let said = release(name, before.children.get(name), child);
        events.extend(said.map(|event| Event { release: Some(name.clone()), ..event }));
    }
    for name in gone(&before.children, &now.children) {
        let gone = event(false, "Uninstalled", format!("release {name} is gone"));
        events.push(Event { release: Some(name.to_owned()), ..gone });
    }
    let ready = |status: &OpenStackDeploymentStatus| {
        let found = status.conditions.iter().find(|condition| condition.type_ == condition::READY);
        found.map(|condition| (condition.status.clone(), condition.reason.clone(), condition.message.clone()))
    };
    if let Some((status, why, message)) = ready(now) {
        let same = ready(before).is_some_and(|(old, old_why, _)| old == status && old_why == why);
        let spoken = !matches!(why.as_str(), reason::RELEASES | reason::WORKLOADS);
        if !same && spoken {
            let warning =
                status == "False" && !matches!(why.as_str(), reason::DELETING | reason::PAUSED | reason::APPROVAL);
            events.push(event(warning, spoken_reason(&why), message));
        }
    }
    events
}

fn gone<'a>(before: &'a BTreeMap<String, ChildStatus>, now: &BTreeMap<String, ChildStatus>) -> Vec<&'a str> {
    before
        .iter()
        .filter(|(name, child)| child.revision.is_some() && !now.contains_key(*name))
        .map(|(name, _)| name.as_str())
        .collect()
}

fn release(name: &str, before: Option<&ChildStatus>, now: &ChildStatus) -> Option<Event> {
    let (old, old_revision) = before.map_or(("", None), |child| (child.status.as_str(), child.revision));
    if old == now.status && old_revision == now.revision {
        return None;
    }
    let revision = now.revision.unwrap_or_default();
    match now.status.as_str() {
        "deployed" => Some(event(false, "Deployed", format!("release {name} is deployed, revision {revision}"))),
        "failed" => Some(event(true, "Failed", format!("release {name} failed, revision {revision}: {}", now.message))),
        "pending-install" => Some(event(false, "Installing", format!("helm installs release {name}"))),
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
        reason::FOREIGN,
    ];
    known.into_iter().find(|known| *known == why).unwrap_or(reason::NONE)
}

fn event(warning: bool, reason: &'static str, mut note: String) -> Event {
    // events.k8s.io refuses notes over 1 kB.
    if note.len() > 1000 {
        let end = (0..=997).rev().find(|end| note.is_char_boundary(*end)).unwrap_or(0);
        note.truncate(end);
        note.push('…');
    }
    Event { warning, reason, note, release: None }
}
