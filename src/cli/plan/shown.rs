//! A plan for people and for programs.

use std::fmt::Write as _;

use kube::ResourceExt;
use serde::Serialize;

use super::super::document::Document;
use super::super::said::Said;
use super::change::{Change, changes};
use osdpl_core::api::{DeletionPolicy, OpenStackDeployment};
use osdpl_core::plan::{Step, Wait};
use osdpl_operator::controller::Preview;

/// What its deletion does.
const DETACH: &str =
    "deletionPolicy is Detach: deleting the resource uninstalls nothing, every release runs on for helm by hand";

/// What of the values is shown.
#[derive(Clone, Copy)]
pub struct Look {
    pub values: bool,
    pub credentials: bool,
}

/// A plan as it is printed.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    pub namespace: String,
    pub name: String,
    /// Whether no cluster was asked.
    #[serde(rename = "offline")]
    pub is_offline: bool,
    /// Whether the spec is another than the cluster's.
    #[serde(rename = "change")]
    pub is_change: bool,
    /// Whether the spec is refused: nothing is done for it then.
    pub refused: bool,
    pub releases: Vec<Line>,
    /// Nodes whose labels would change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<super::summary::NodeLine>,
    /// Everything else that would be done: objects that are written or deleted, evictions, annotations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<super::summary::ActionLine>,
    /// What waits for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    pub findings: Vec<Said>,
    /// What could not be found out.
    pub unknown: Vec<String>,
    /// What else should be known.
    pub notes: Vec<String>,
}

/// The step of one release.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    pub name: String,
    /// `namespace/name`, as helm knows it.
    pub release: String,
    /// Helm's word for its newest revision.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    #[serde(rename = "step")]
    pub kind: Kind,
    /// What would be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Why, or what it waits for.
    pub message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// What it restarts in batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<String>,
    /// The values that its next upgrade changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// What kind of step it is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Do,
    #[default]
    Wait,
    Settle,
    Ready,
}

/// What waits for approval.
#[derive(Serialize)]
pub struct Approval {
    pub releases: Vec<String>,
    /// What `osdpl approve` takes; absent where it can't be known here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

impl Shown {
    pub fn new(
        deployment: &OpenStackDeployment,
        live: Option<&OpenStackDeployment>,
        preview: &Preview,
        document: Option<&Document>,
        look: Look,
    ) -> Self {
        let scrub = |text: String| preview.scrubber.scrub(&text);
        let releases = preview.plan.decisions.iter().map(|(name, decision)| {
            let seen = preview.observed.releases.get(&decision.key);
            let (kind, action, message) = words(&decision.step);
            // Nothing is done for a spec that is refused, whatever it would change.
            let desired = preview.desired.releases.get(name).filter(|_| !preview.refused);
            Line {
                name: name.clone(),
                release: decision.key.to_string(),
                status: seen.map_or_else(|| "absent".into(), |seen| seen.status.clone()),
                kind,
                action,
                message: scrub(message),
                needs: Vec::new(),
                restarts: preview.restarts.get(name).cloned(),
                changes: desired.map(|desired| changes(name, desired, preview, look)).unwrap_or_default(),
            }
        });
        let findings = preview.findings.iter().map(|finding| Said::of(finding, document));
        let findings = findings.map(|said| said.scrubbed(|text| preview.scrubber.scrub(text)));
        let mut shown = Self {
            namespace: deployment.namespace().unwrap_or_default(),
            name: deployment.name_any(),
            is_change: live.is_none_or(|live| live.spec != deployment.spec),
            refused: preview.refused,
            releases: releases.collect(),
            nodes: super::summary::nodes(preview),
            actions: super::summary::actions(preview),
            findings: findings.collect(),
            unknown: preview.unknown.iter().cloned().map(scrub).collect(),
            ..Self::default()
        };
        shown.approvals(deployment, live, preview);
        shown
            .notes
            .extend((deployment.spec.deletion_policy == Some(DeletionPolicy::Detach)).then(|| DETACH.to_owned()));
        shown
    }

    /// What waits for approval, and whether the operator says the same.
    fn approvals(&mut self, deployment: &OpenStackDeployment, live: Option<&OpenStackDeployment>, preview: &Preview) {
        let status = live.and_then(|live| live.status.as_ref());
        let same = |live: &&OpenStackDeployment| live.spec == deployment.spec;
        let is_current = |live: &&OpenStackDeployment| {
            live.status.as_ref().is_some_and(|status| status.observed_generation == live.metadata.generation)
        };
        let said = live.filter(same).filter(is_current).map(|_| status.and_then(|status| status.approval.clone()));
        let releases = self.awaiting(preview, said.as_ref().and(status));
        if !releases.is_empty() {
            let hash = preview.exact.then(|| preview.plan.hash.clone());
            // What could only be guessed here the operator knows.
            let hash = hash.or_else(|| said.clone().flatten());
            if hash.is_none() {
                self.unknown.push("the hash to approve: the operator's status will say it".into());
            }
            self.approval = Some(Approval { releases, hash });
        }
        let ours = self.approval.as_ref().and_then(|approval| approval.hash.as_ref());
        if let Some(said) = said.filter(|said| said.as_ref() != ours) {
            let says = said.map_or_else(
                || "nothing waits for approval".into(),
                |hash| format!("changes wait for approval as {hash}"),
            );
            self.notes.push(format!(
                "the operator says that {says}: it has another catalogue or other charts than this plan (--catalog, --charts)"
            ));
        }
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for said in &self.findings {
            let _ = writeln!(text, "{said}");
        }
        for line in &self.releases {
            let status = if self.is_offline { String::new() } else { format!(" {:<16}", line.status) };
            let _ = writeln!(text, "{:<14}{status} {}", line.name, line.sentence());
            let changes = line.changes.iter().map(|change| format!("changes {change}"));
            for told in changes.chain(line.restarts.clone()) {
                let _ = writeln!(text, "{:<31} {told}", "");
            }
        }
        text.push_str(&self.labels());
        for action in &self.actions {
            let _ = writeln!(text, "{}: {}", action.action, action.reason);
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
            let when = if self.is_change { "Once it is applied, changes" } else { "Changes" };
            let _ = writeln!(text, "{when} wait for approval: osdpl approve -n {namespace} {name} {hash}");
        }
        text
    }
}

impl Line {
    fn sentence(&self) -> String {
        match &self.action {
            Some(action) => format!("{action}: {}", self.message),
            None => self.message.clone(),
        }
    }
}

fn words(step: &Step) -> (Kind, Option<String>, String) {
    match step {
        Step::Do(action, why) => (Kind::Do, Some(action.to_string()), why.to_string()),
        Step::Wait(wait @ Wait::Blocked { reason, .. }) => (Kind::Wait, None, format!("{reason}: {wait}")),
        Step::Wait(wait) => (Kind::Wait, None, wait.to_string()),
        Step::Settle(lines) => (Kind::Settle, None, format!("in sync: {}", lines.join("; "))),
        Step::Ready => (Kind::Ready, None, "ready".into()),
    }
}
