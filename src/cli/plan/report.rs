//! Reports the plan that `osdpl plan` made, as text and JSON.

use std::fmt::Write as _;

use kube::ResourceExt;
use serde::Serialize;

use super::actions::{self, ActionOutput, NodeLabels, ObjectOutput};
use crate::document::{Document, locate};
use crate::value_change::{Change, DisplayOptions, changes};
use osdpl_core::api::{DeletionPolicy, OpenStackDeployment};
use osdpl_core::finding::Finding;
use osdpl_core::plan::{Step, Wait};
use osdpl_operator::controller::Preview;

/// The note in the report if the spec sets `deletionPolicy: Detach`.
const DETACH: &str = "deletionPolicy is Detach: deleting the resource uninstalls nothing; every release keeps running and can be managed by hand with helm";

/// The plan of a cloud in the form that `osdpl plan` prints, as text or JSON.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanReport {
    pub namespace: String,
    pub name: String,
    /// Whether osdpl made the plan without a cluster.
    #[serde(rename = "offline")]
    pub is_offline: bool,
    /// Whether the plan is for a spec that differs from the spec in the cluster, or for a resource that the cluster
    /// does not have yet. False for a plan without a cluster.
    #[serde(rename = "change")]
    pub is_change: bool,
    /// Whether osdpl refuses the spec. The operator then changes nothing for this spec.
    pub refused: bool,
    pub releases: Vec<ReleasePlan>,
    /// The number of releases that a plan without a cluster installs: at once, after the releases that they need, or
    /// once their errors are fixed.
    #[serde(skip)]
    pub installs: usize,
    /// The changes of node labels, and of the annotation in which osdpl lists its labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeLabels>,
    /// The actions that concern neither releases nor node labels: objects to write or delete, evictions, annotations,
    /// and the finalizer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<ActionOutput>,
    /// The changes that wait for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    pub findings: Vec<Finding>,
    /// One line for each fact that a placeholder replaces; empty for a plan with a cluster. Only the JSON output
    /// contains these lines: for the text output, the command has already printed them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placeholders: Vec<String>,
    /// Messages about facts that osdpl could not read. Without these facts, the plan may differ from the operator's
    /// plan.
    pub unknown: Vec<String>,
    /// Notes for the user, for example about active rollouts.
    pub notes: Vec<String>,
}

/// The plan for one release: the action that the operator would start, or the reason why the release waits.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReleasePlan {
    pub name: String,
    /// The helm release as `namespace/name`.
    pub release: String,
    /// Helm's status of the newest revision of the release, or `absent`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    #[serde(rename = "step")]
    pub kind: Kind,
    /// The action that the operator would start, such as `helm upgrade --install`; absent if the step starts no action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The reason for the action, or a description of what the release waits for.
    pub message: String,
    /// The objects that osdpl itself would write or delete for the step. helm's objects are not in the list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectOutput>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// The workloads whose pods the release's upgrade would restart in batches, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<String>,
    /// The values that the release's next upgrade changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// The meaning of a step for a release: the operator runs an action, the release waits, its workloads are becoming
/// ready (settling), or there is nothing to do.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Do,
    #[default]
    Wait,
    Settle,
    Ready,
}

/// The changes that wait for approval.
#[derive(Serialize)]
pub(crate) struct Approval {
    pub releases: Vec<String>,
    /// The target hash that the user passes to `osdpl approve`. Absent if osdpl can't compute it and the status does
    /// not contain it either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

impl PlanReport {
    pub(crate) fn new(
        deployment: &OpenStackDeployment,
        live: Option<&OpenStackDeployment>,
        preview: &Preview,
        document: Option<&Document>,
        options: DisplayOptions,
    ) -> Self {
        let scrub = |text: String| preview.scrubber.scrub(&text);
        let releases = preview.plan.decisions.iter().map(|(name, decision)| {
            let observed = preview.observed.releases.get(&decision.key);
            let (kind, action, message) = describe_step(&decision.step);
            // The operator changes no release if it refuses the spec. So show no changed values.
            let desired = preview.desired.releases.get(name).filter(|_| !preview.refused);
            ReleasePlan {
                name: name.clone(),
                release: decision.key.to_string(),
                status: observed.map_or_else(|| "absent".into(), |observed| observed.status.to_string()),
                kind,
                action,
                message: scrub(message),
                objects: actions::objects_of_release(name, preview, deployment),
                needs: Vec::new(),
                restarts: preview.restarts.get(name).cloned(),
                changes: desired.map(|desired| changes(name, desired, preview, options)).unwrap_or_default(),
            }
        });
        let findings = preview.findings.iter().map(|finding| locate(finding, document));
        let findings = findings.map(|finding| finding.scrubbed(&|text| preview.scrubber.scrub(text)));
        let mut report = Self {
            namespace: deployment.namespace().unwrap_or_default(),
            name: deployment.name_any(),
            is_change: live.is_none_or(|live| live.spec != deployment.spec),
            refused: preview.refused,
            releases: releases.collect(),
            nodes: actions::node_labels(&preview.actions),
            actions: actions::other_actions(preview, deployment),
            findings: findings.collect(),
            unknown: preview.unknown.iter().cloned().map(scrub).collect(),
            ..Self::default()
        };
        report.add_approval(deployment, live, preview);
        if deployment.spec.deletion_policy == Some(DeletionPolicy::Detach) {
            report.notes.push(DETACH.to_owned());
        }
        report
    }

    /// Adds the changes that wait for approval, with the target hash of this plan. Adds a note if the operator's last
    /// plan was for the same spec, but has another target hash, according to the status.
    fn add_approval(
        &mut self,
        deployment: &OpenStackDeployment,
        live: Option<&OpenStackDeployment>,
        preview: &Preview,
    ) {
        let status = live.and_then(|live| live.status.as_ref());
        let has_same_spec = |live: &&OpenStackDeployment| live.spec == deployment.spec;
        let is_current = |live: &&OpenStackDeployment| {
            live.status.as_ref().is_some_and(|status| status.observed_generation == live.metadata.generation)
        };
        let reported =
            live.filter(has_same_spec).filter(is_current).map(|_| status.and_then(|status| status.approval.clone()));
        let releases = self.awaiting_approval(preview, reported.as_ref().and(status));
        if !releases.is_empty() {
            let hash = preview.exact.then(|| preview.plan.hash.clone());
            // If this command could not read all facts, its own hash may be wrong (`exact` is false). Use the hash that
            // the operator has written to the status instead.
            let hash = hash.or_else(|| reported.clone().flatten());
            if hash.is_none() {
                self.unknown.push(
                    "the hash to approve; apply this spec, then the operator writes the hash to the status".into(),
                );
            }
            self.approval = Some(Approval { releases, hash });
        }
        let own_hash = self.approval.as_ref().and_then(|approval| approval.hash.as_ref());
        if let Some(reported) = reported.filter(|reported| reported.as_ref() != own_hash) {
            let message = reported.map_or_else(
                || "nothing waits for approval".into(),
                |hash| format!("changes wait for approval as {hash}"),
            );
            self.notes.push(format!(
                "the operator reports that {message}, so it uses another catalogue or other charts than this plan; pass the operator's catalogue and charts with --catalog and --charts"
            ));
        }
    }

    /// Returns the plan as text.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let _ = writeln!(text, "{}: {finding}", finding.level.as_str());
        }
        for release in &self.releases {
            let status = if self.is_offline { String::new() } else { format!(" {:<16}", release.status) };
            let _ = writeln!(text, "{:<14}{status} {}", release.name, release.sentence());
            let changes = release.changes.iter().map(|change| format!("changes {change}"));
            for detail in changes.chain(release.restarts.clone()) {
                let _ = writeln!(text, "{:<31} {detail}", "");
            }
        }
        text.push_str(&self.node_labels());
        for action in &self.actions {
            let _ = writeln!(text, "{action}");
        }
        let _ = writeln!(text, "{}", self.summary());
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        for unknown in &self.unknown {
            let _ = writeln!(text, "unknown: {unknown}");
        }
        if let Some(Approval { hash: Some(hash), .. }) = &self.approval {
            let Self { namespace, name, .. } = self;
            let when = if self.is_change { "Once the file is applied, changes" } else { "Changes" };
            let _ = writeln!(text, "{when} wait for approval: osdpl approve -n {namespace} {name} {hash}");
        }
        text
    }
}

impl ReleasePlan {
    fn sentence(&self) -> String {
        match &self.action {
            Some(action) => format!("{action}: {}", self.message),
            None => self.message.clone(),
        }
    }
}

/// Returns the kind of a step, its action and its message.
pub(super) fn describe_step(step: &Step) -> (Kind, Option<String>, String) {
    match step {
        Step::Do(action, why) => (Kind::Do, Some(action.to_string()), why.to_string()),
        Step::Wait(wait @ Wait::Blocked { reason, .. }) => (Kind::Wait, None, format!("{reason}: {wait}")),
        Step::Wait(wait) => (Kind::Wait, None, wait.to_string()),
        Step::Settling(lines) => (Kind::Settle, None, format!("in sync: {}", lines.join("; "))),
        Step::Ready => (Kind::Ready, None, "ready".into()),
    }
}
