//! The truth for people and programs: `report(previous, …, now)` makes the next status and the events of what changed.
//!
//! Pure room. Equal inputs give equal statuses, so that nothing is written when nothing changed; transition times are kept from `previous`.

mod causes;
mod children;
mod conditions;
mod crons;
mod drift;
mod endpoints;
mod events;
mod failing;
mod rollouts;
mod verdict;

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

pub use events::{About, Event, forgotten, mapping, not_forgotten, restored, retained};
pub use failing::failing;
pub use rollouts::line as rollout_line;

use crate::api::{OpenStackDeploymentSpec, OpenStackDeploymentStatus, ReleaseStatus, RoleStatus};
use crate::ceph::Declared;
use crate::desired::{Desired, Finding};
use crate::observed::{Key, Observed};
use crate::plan::{Plan, Step};
use crate::rollout;

/// Everything that a status speaks of.
pub struct Report<'a> {
    /// The spec.
    pub spec: &'a OpenStackDeploymentSpec,
    /// `metadata.generation`.
    pub generation: i64,
    /// The version of helm.
    pub helm: String,
    /// What is wanted.
    pub desired: &'a Desired,
    /// What is.
    pub observed: &'a Observed,
    /// What the spec calls releases, wanted or not.
    pub names: &'a BTreeMap<Key, String>,
    /// What is done about it.
    pub plan: &'a Plan,
    /// What is wrong with the spec, or should be known about it.
    pub findings: &'a [Finding],
    /// The values that changes which wait for approval would change, by release.
    pub changes: &'a BTreeMap<String, Vec<String>>,
    /// Troubles that belong to no release: a watch that is refused, an API that does not answer.
    pub problems: &'a [String],
    /// The Ceph that the spec declares; none where it declares none.
    pub ceph: Option<&'a Declared>,
    /// Who plays which role.
    pub roles: &'a BTreeMap<String, RoleStatus>,
    /// How far rollouts of the data plane are.
    pub rollouts: &'a rollout::Rollouts,
    /// The older resource that rules, when this one does not.
    pub not_the_one: Option<String>,
    /// Whether the resource is being deleted; what is still to do after the releases are gone.
    pub deleting: Option<String>,
}

/// What nobody knows anything of.
static NAMES: BTreeMap<Key, String> = BTreeMap::new();
static CHANGES: BTreeMap<String, Vec<String>> = BTreeMap::new();
static ROLES: BTreeMap<String, RoleStatus> = BTreeMap::new();
static ROLLOUTS: rollout::Rollouts = BTreeMap::new();

impl<'a> Report<'a> {
    /// One of which nothing is known but this.
    pub fn new(
        spec: &'a OpenStackDeploymentSpec,
        generation: i64,
        (desired, observed): (&'a Desired, &'a Observed),
        plan: &'a Plan,
    ) -> Self {
        Self {
            spec,
            generation,
            helm: String::new(),
            desired,
            observed,
            names: &NAMES,
            plan,
            findings: &[],
            changes: &CHANGES,
            problems: &[],
            ceph: None,
            roles: &ROLES,
            rollouts: &ROLLOUTS,
            not_the_one: None,
            deleting: None,
        }
    }
}

/// The next status, and what changed in it that people should hear of.
pub fn report(
    previous: Option<&OpenStackDeploymentStatus>,
    report: &Report<'_>,
    now: Timestamp,
) -> (OpenStackDeploymentStatus, Vec<Event>) {
    let before = previous.cloned().unwrap_or_default();
    let children = children::children(&before, report, now);
    let mut health = children::health(report);
    let (components, healthy) = (health.values().flatten().count(), children::healthy(&health));
    endpoints::add(&mut health, report);
    let verdict = verdict::verdict(report, &health, &children);
    let ready = report.plan.decisions.values().filter(|decision| decision.step == Step::Ready).count();
    crons::add(&mut health, report);
    let waiting = report.plan.awaiting().next().is_some() || rollout::awaiting(report.rollouts).next().is_some();
    let status = OpenStackDeploymentStatus {
        observed_generation: Some(report.generation),
        phase: Some(verdict.phase),
        message: shortened(&format!("{}{}", verdict.message, conditions::warnings(report, &children))),
        releases: format!("{ready}/{}", report.plan.decisions.len()),
        components: format!("{healthy}/{components}"),
        openstack_release: openstack_release(&before.openstack_release, report),
        helm: Some(report.helm.clone()).filter(|version| !version.is_empty()),
        approval: waiting.then(|| report.plan.hash.clone()),
        conditions: conditions::conditions(&before.conditions, &verdict, report, &children, now),
        causes: causes::causes(&before.causes, report, now),
        roles: report.roles.clone(),
        rollouts: report.rollouts.clone(),
        tests: crons::tests(&before.tests, report),
        children,
        health,
    };
    let events = events::events(&before, &status, report);
    (status, events)
}

/// For a column of a table: cut at a word's end. The conditions and the children have the whole of it.
fn shortened(message: &str) -> String {
    const MOST: usize = 200;
    let Some((most, _)) = message.char_indices().nth(MOST) else { return message.to_owned() };
    let end = message[..most].rfind(' ').unwrap_or(most);
    format!("{}…", message[..end].trim_end_matches([' ', ',', ';', ':']))
}

/// What is deployed: settled once by the first release in sync, changed only when all are.
fn openstack_release(before: &ReleaseStatus, report: &Report<'_>) -> ReleaseStatus {
    let target = Some(report.spec.openstack_release.clone());
    let synced = |step: &Step| matches!(step, Step::Ready | Step::Settle(_));
    let mut steps = report.plan.decisions.values().map(|decision| &decision.step);
    let deployed = match &before.deployed {
        _ if !report.desired.releases.is_empty() && steps.clone().all(synced) => target.clone(),
        None if steps.any(synced) => target.clone(),
        known => known.clone(),
    };
    ReleaseStatus { target, deployed }
}

#[cfg(test)]
mod tests;
