//! Computes the status of an OpenStackDeployment: `report(previous, …, now)` returns the next status and the events for
//! its changes.
//!
//! Pure module (no I/O). Equal inputs give equal statuses, so that the operator does not write an unchanged status. A
//! condition that did not change keeps its transition time from `previous`.

mod assessment;
mod causes;
mod children;
mod conditions;
mod crons;
mod drift;
mod event;
mod events;
mod failing;
mod images;
mod labels;
mod rollouts;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

pub use event::{
    Event, Subject, credential_restored_event, host_deleted_event, host_not_deleted_event, mapping_hosts_event,
    retained_event,
};
pub use failing::failing_status;
pub use rollouts::line as rollout_line;

use crate::api::{
    Approval, HelmReleaseStatus, OpenStackDeploymentSpec, OpenStackDeploymentStatus, ReleaseStatus, RoleStatus,
};
use crate::ceph::DeclaredCeph;
use crate::desired::{Desired, Finding};
use crate::nodes::LabelRemoval;
use crate::observed::{Observed, ReleaseKey};
use crate::plan::{Plan, Step};
use crate::rollout;

/// The input of [`report`]: the results of a reconcile pass, such as the desired state, the observed state and the
/// plan.
pub struct Report<'a> {
    /// The spec of the OpenStackDeployment.
    pub spec: &'a OpenStackDeploymentSpec,
    /// The `metadata.generation` of the OpenStackDeployment that the pass read. The status reports it in
    /// `observedGeneration`.
    pub generation: i64,
    /// The version of the helm program that the operator runs; empty if unknown.
    pub helm: String,
    /// The desired state of the cloud.
    pub desired: &'a Desired,
    /// The observed state of the cloud.
    pub observed: &'a Observed,
    /// The catalogue's name of each helm release, including releases that are no longer desired.
    pub names: &'a BTreeMap<ReleaseKey, String>,
    /// The plan of the pass, with the step of each release.
    pub plan: &'a Plan,
    /// The findings about the spec.
    pub findings: &'a [Finding],
    /// For each release: the changes of its values that wait for approval. Each string describes one change.
    pub changes: &'a BTreeMap<String, Vec<String>>,
    /// Problems that concern no single release, for example a watch that the API server forbids.
    pub problems: &'a [String],
    /// The settings and status of the Ceph cluster that the spec declares, or why the operator can't read them; `None`
    /// if the cloud does not use Ceph.
    pub ceph: Option<&'a DeclaredCeph>,
    /// The status of each node role, by role name: its labels and nodes.
    pub roles: &'a BTreeMap<String, RoleStatus>,
    /// The node labels that osdpl is removing, and the removals that wait for approval; `None` if the pass did not
    /// decide about removals. The status then keeps the previous `labelRemoval`.
    pub label_removal: Option<&'a LabelRemoval>,
    /// Descriptions of the actions that change objects outside of releases and that wait for approval.
    pub awaiting_objects: &'a [String],
    /// The status of each rollout of the data plane, by component.
    pub rollouts: &'a rollout::Rollouts,
    /// The releases that belong to the cloud; `None` if the pass did not determine them. The status then keeps the
    /// previous list.
    pub owned: Option<&'a BTreeSet<ReleaseKey>>,
    /// For each addition to the catalogue: the digest of its approved content. `None` if the pass did not determine the
    /// digests. The status then keeps the previous digests.
    pub additions: Option<&'a BTreeMap<String, String>>,
    /// The digests of the charts from repositories, by `chart@version`; `None` if the pass did not determine them. The
    /// status then keeps the previous digests.
    pub charts: Option<&'a BTreeMap<String, String>>,
    /// Why osdpl ignores the OpenStackDeployment; `None` if osdpl does not ignore it.
    pub ignored: Option<Ignored>,
    /// The work that remains before the OpenStackDeployment can be deleted, or what blocks the deletion; `None` if the
    /// OpenStackDeployment is not being deleted.
    pub deleting: Option<String>,
}

/// The status of each release, by the release's name in the catalogue.
type Children = BTreeMap<String, HelmReleaseStatus>;

/// Why osdpl ignores an `OpenStackDeployment`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// Another `OpenStackDeployment` is older, and osdpl manages only the oldest one.
    Older {
        /// The namespace and name of the older `OpenStackDeployment`.
        other: String,
        /// Whether the content of the older `OpenStackDeployment` is valid. If not, osdpl manages neither of the two.
        is_readable: bool,
    },
    /// The operator has no rights in the namespace of the `OpenStackDeployment`. Contains the message for the status.
    Outside(String),
}

/// Empty maps for the fields of [`Report`] that [`Report::new`] leaves empty.
static NAMES: BTreeMap<ReleaseKey, String> = BTreeMap::new();
static CHANGES: BTreeMap<String, Vec<String>> = BTreeMap::new();
static ROLES: BTreeMap<String, RoleStatus> = BTreeMap::new();
static ROLLOUTS: rollout::Rollouts = BTreeMap::new();

impl<'a> Report<'a> {
    /// Returns a report that contains the arguments of this function. All other fields are empty until the caller sets
    /// them.
    pub fn new(
        spec: &'a OpenStackDeploymentSpec,
        generation: i64,
        desired: &'a Desired,
        observed: &'a Observed,
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
            label_removal: None,
            awaiting_objects: &[],
            rollouts: &ROLLOUTS,
            owned: None,
            additions: None,
            charts: None,
            ignored: None,
            deleting: None,
        }
    }
}

/// Returns the new value of one of the status fields that store what a person approved (`approvedTarget`,
/// `approvedObjects`); `None` if the spec does not set `approval: Always`.
///
/// The value is `now` if a person approved the target hash of this pass; else it is `before`, the value in the previous
/// status.
fn approved(report: &Report<'_>, before: Option<&String>, now: impl Fn() -> String) -> Option<String> {
    match report.spec.approval {
        Some(Approval::Always) if report.plan.approved => Some(now()),
        Some(Approval::Always) => before.cloned(),
        _ => None,
    }
}

/// Returns the next status of the OpenStackDeployment, and the events about the changes since the previous status.
pub fn report(
    previous: Option<&OpenStackDeploymentStatus>,
    report: &Report<'_>,
    now: Timestamp,
) -> (OpenStackDeploymentStatus, Vec<Event>) {
    let before = previous.cloned().unwrap_or_default();
    let children = children::children(&before, report, now);
    let mut health = children::health(report);
    let (components, healthy) = (health.values().flatten().count(), children::healthy(&health));
    children::add_endpoints(&mut health, report);
    let assessment = assessment::assess(report, &health, &children);
    let ready = report.plan.decisions.values().filter(|decision| decision.step == Step::Ready).count();
    crons::add(&mut health, report);
    let waiting = report.plan.awaiting_approval().next().is_some()
        || rollout::awaiting_approval(report.rollouts).next().is_some()
        || labels::awaiting(report).is_some();
    let status = OpenStackDeploymentStatus {
        observed_generation: Some(report.generation),
        phase: Some(assessment.phase),
        message: shortened(&format!("{}{}", assessment.message, conditions::warnings(report, &children))),
        releases: format!("{ready}/{}", report.plan.decisions.len()),
        components: format!("{healthy}/{components}"),
        openstack_release: openstack_release(&before.openstack_release, report),
        helm: Some(report.helm.clone()).filter(|version| !version.is_empty()),
        // While the operator fetches a chart, the target hash is not final, so do not show it for approval yet.
        approval: (waiting && !report.desired.is_fetching()).then(|| report.plan.hash.clone()),
        approved_target: approved(report, before.approved_target.as_ref(), || report.plan.hash.clone()),
        approved_objects: approved(report, before.approved_objects.as_ref(), || report.desired.object_digest()),
        conditions: conditions::conditions(&before.conditions, &assessment, report, &children, now),
        causes: causes::causes(&before.causes, report, now),
        owned_releases: match report.owned {
            Some(owned) => Some(owned.iter().map(ToString::to_string).collect()),
            None => before.owned_releases.clone(),
        },
        catalog: report.additions.unwrap_or(&before.catalog).clone(),
        charts: report.charts.unwrap_or(&before.charts).clone(),
        roles: report.roles.clone(),
        rollouts: report.rollouts.clone(),
        label_removal: match report.label_removal {
            Some(removal) => removal.status.clone(),
            None => before.label_removal.clone(),
        },
        tests: crons::tests(&before.tests, report),
        children,
        health,
    };
    let events = events::events(&before, &status, report);
    (status, events)
}

/// Returns the first of several lines, followed by the number of the other lines; empty if there are no lines.
fn first(lines: &[String]) -> String {
    match lines {
        [] => String::new(),
        [one] => one.clone(),
        [one, more @ ..] => format!("{one} (and {} more)", more.len()),
    }
}

/// Shortens the message for a column of `kubectl get`, at the end of a word. The conditions contain the full message.
fn shortened(message: &str) -> String {
    const LIMIT: usize = 200;
    let Some((limit, _)) = message.char_indices().nth(LIMIT) else { return message.to_owned() };
    let end = message[..limit].rfind(' ').unwrap_or(limit);
    format!("{}…", message[..end].trim_end_matches([' ', ',', ';', ':']))
}

/// Returns the OpenStack release that the spec requests (`target`), and the OpenStack release that is deployed
/// (`deployed`).
///
/// The deployed OpenStack release is unknown until the first helm release has the desired inputs. After that, the
/// deployed OpenStack release changes only when all helm releases have the desired inputs.
fn openstack_release(before: &ReleaseStatus, report: &Report<'_>) -> ReleaseStatus {
    let target = Some(report.spec.openstack_release.clone());
    let is_synced = |step: &Step| matches!(step, Step::Ready | Step::Settling(_));
    let mut steps = report.plan.decisions.values().map(|decision| &decision.step);
    let deployed = match &before.deployed {
        _ if !report.desired.releases.is_empty() && steps.clone().all(is_synced) => target.clone(),
        None if steps.any(is_synced) => target.clone(),
        known => known.clone(),
    };
    ReleaseStatus { target, deployed }
}

#[cfg(test)]
mod tests;
