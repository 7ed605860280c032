//! What became of helm's children, and what their failures mean for the next attempt.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::Context;
use super::memory::{CatchingUp, Memory};
use crate::helm::{Exit, Failure, Outcome, StopReason, Subject};
use crate::tasks::Observation;
use osdpl_core::cause;
use osdpl_core::desired::DesiredRelease;
use osdpl_core::observed::{Claim, Failed, Fix, ReleaseKey, RunningHelm};
use osdpl_core::plan::Action;

/// When a record is asked for again that could not be read.
const AGAIN: Duration = Duration::from_secs(2);

/// When it is asked for once more what a record is that no watch tells of.
const OVERDUE: Duration = Duration::from_secs(30);

impl Context {
    /// Takes in what became of the children that ended.
    pub(super) async fn outcomes(&self, memory: &mut Memory) {
        let seen = self.tasks.observe();
        for outcome in std::mem::take(&mut memory.unread).into_iter().chain(self.runner.take_outcomes()) {
            match self.cluster.newest_record(&outcome.release).await {
                Ok(record) => memory.ended(&outcome, record, &seen),
                Err(error) => {
                    tracing::warn!(release = %outcome.release, %error, "the newest record can't be read yet");
                    memory.unread.push(outcome);
                }
            }
        }
        for key in memory.overdue(super::now()) {
            match self.cluster.newest_record(&key).await {
                Ok(record) => memory.reread(&key, record, super::now()),
                Err(error) => tracing::warn!(release = %key, %error, "the newest record can't be read yet"),
            }
        }
    }
}

/// Keeps a failure for the next plan; `recorded` says whether helm has made a record of the attempt.
fn remember(outcome: &Outcome, inputs: String, recorded: bool, seen: &Observation, memory: &mut Memory) {
    let key = &outcome.release;
    let seconds = outcome.duration.as_secs_f64();
    // What is gone already is as good as uninstalled.
    let done = outcome.succeeded() || outcome.failure == Some(Failure::ReleaseNotFound);
    if done {
        memory.failures.remove(key);
        tracing::info!(release = %key, verb = outcome.verb, seconds, "helm done");
        return;
    }
    if matches!(outcome.exit, Exit::Stopped { why: StopReason::Requested | StopReason::Shutdown, .. }) {
        tracing::info!(release = %key, verb = outcome.verb, seconds, exit = ?outcome.exit, text = outcome.text, "helm stopped");
        return;
    }
    tracing::warn!(release = %key, verb = outcome.verb, seconds, exit = ?outcome.exit, text = outcome.text, "helm failed");
    let mut message = outcome.text.clone();
    let mut own =
        seen.jobs().iter().filter(|job| job.namespace == key.namespace && job.release == key.name && !job.complete);
    if let Some((job, trouble)) = own.find_map(|job| Some((job, job.trouble.as_ref()?))) {
        message = format!("Job {}: {} ({message})", job.name, trouble.message);
    }
    let mend = mend(outcome.failure.as_ref(), recorded);
    if let Some(advice) = advice(outcome, mend, seen.volume_claims()) {
        message = format!("{message}; {advice}");
    }
    memory.count(key, outcome.verb, inputs, message, mend);
}

impl Memory {
    /// Takes in what became of a child, and what the API server says of its release since.
    fn ended(&mut self, outcome: &Outcome, record: Option<(i64, String)>, seen: &Observation) {
        let key = &outcome.release;
        let child = self.child(outcome);
        let inputs = self.started.remove(key).unwrap_or_default();
        let recorded = record.as_ref().is_some_and(|(newest, _)| *newest >= i64::from(outcome.attempt.revision()));
        remember(outcome, inputs, recorded, seen, self);
        self.catching_up.insert(key.clone(), CatchingUp { child, record, asked: super::now() });
        if outcome.verb == "uninstall" && outcome.succeeded() {
            self.uninstalled.insert(key.clone());
        }
    }

    /// A child that ended, as the plan sees it while what it left is not known.
    fn child(&self, outcome: &Outcome) -> RunningHelm {
        RunningHelm {
            verb: outcome.verb.to_owned(),
            inputs: self.started.get(&outcome.release).cloned().unwrap_or_default(),
            since: outcome.started,
            // Nothing of it is left to stop.
            stopping: true,
            queued: false,
            skips_hooks: false,
        }
    }

    /// The children that ended and that count as running: nothing is planned for their releases before their records are known, and seen.
    pub(super) fn unseen(&self) -> BTreeMap<ReleaseKey, RunningHelm> {
        let unread = self.unread.iter().map(|outcome| (outcome.release.clone(), self.child(outcome)));
        let unseen = self.catching_up.iter().map(|(key, waiting)| (key.clone(), waiting.child.clone()));
        unread.chain(unseen).collect()
    }

    /// The releases of which no watch has told for long what the API server said: what it said may be past, because someone else was at them since.
    fn overdue(&self, now: Timestamp) -> Vec<ReleaseKey> {
        let is_overdue = |waiting: &CatchingUp| now.duration_since(waiting.asked).unsigned_abs() >= OVERDUE;
        self.catching_up.iter().filter(|(_, waiting)| is_overdue(waiting)).map(|(key, _)| key.clone()).collect()
    }

    fn reread(&mut self, key: &ReleaseKey, record: Option<(i64, String)>, now: Timestamp) {
        if let Some(waiting) = self.catching_up.get_mut(key) {
            (waiting.record, waiting.asked) = (record, now);
        }
    }

    /// When records are to be asked for that could not be read, or once more.
    pub(super) fn again(&self, now: Timestamp) -> Option<Timestamp> {
        let unread = self.unread.first().and_then(|_| now.checked_add(AGAIN).ok());
        let overdue = self.catching_up.values().filter_map(|waiting| waiting.asked.checked_add(OVERDUE).ok()).min();
        // One that is overdue could not be read just now.
        let overdue = overdue.map(|at| at.max(now.checked_add(AGAIN).unwrap_or(now)));
        unread.into_iter().chain(overdue).min()
    }

    /// Counts a failure; another digest begins at one.
    fn count(&mut self, key: &ReleaseKey, verb: &str, inputs: String, message: String, mend: Fix) {
        let inputs = if verb == "uninstall" { String::new() } else { inputs };
        let known = self.failures.get(key).filter(|failed| failed.inputs == inputs && failed.verb == verb);
        let count = known.map_or(0, |failed| failed.count) + 1;
        let failed = Failed { verb: verb.into(), inputs, at: super::now(), count, message, mend, is_reported: false };
        self.failures.insert(key.clone(), failed);
    }

    /// Counts a step that failed before helm was started.
    pub(super) fn fail(
        &mut self,
        key: &ReleaseKey,
        action: &Action,
        release: Option<&DesiredRelease>,
        message: String,
    ) {
        tracing::warn!(release = %key, %action, message, "step failed");
        let (verb, inputs) = match action {
            Action::Uninstall { .. } => ("uninstall", String::new()),
            _ => ("upgrade", release.map(|release| release.inputs.clone()).unwrap_or_default()),
        };
        self.count(key, verb, inputs, message, Fix::Time);
    }
}

/// What can mend a failure. What helm says of a chart counts only where no record was made: everything of that kind it says before it begins.
fn mend(failure: Option<&Failure>, recorded: bool) -> Fix {
    match failure {
        Some(Failure::Unrenderable) if !recorded => Fix::Inputs,
        Some(Failure::Immutable(_) | Failure::NotOurs(_) | Failure::Invalid(_)) => Fix::Manual,
        // A hook's database comes up, a CRD or a right is added by whoever installs both at once, a namespace is gone at last.
        Some(
            Failure::Pending
            | Failure::NoDeployedReleases
            | Failure::ReleaseNotFound
            | Failure::Conflict(_)
            | Failure::AlreadyExists(_)
            | Failure::Forbidden(_)
            | Failure::NamespaceMissing
            | Failure::NamespaceTerminating
            | Failure::TimedOut(_)
            | Failure::HookFailed(_)
            | Failure::Unreachable
            | Failure::KindUnknown
            | Failure::ChartUnreadable
            | Failure::Unrenderable
            | Failure::Cancelled
            | Failure::Other,
        )
        | None => Fix::Time,
    }
}

/// What to do about a failure that time does not mend.
fn advice(outcome: &Outcome, mend: Fix, claims: &[Claim]) -> Option<String> {
    let again = format!("annotate the resource with {}=<release> to have it tried soon", osdpl_core::api::REPAIR);
    match (mend, outcome.failure.as_ref()) {
        (Fix::Time, _) => None,
        (Fix::Inputs, _) => Some(format!(
            "the chart can't be rendered with these values, so it is not tried again until they, or the chart, change; correct them in \
             services.<service>.releases.<release>, or where the values come from (if it was the cluster that the chart looked at, {again})"
        )),
        (Fix::Manual, Some(Failure::Immutable(objects))) => {
            let namespace = &outcome.release.namespace;
            let commands: Vec<_> = objects.iter().map(|object| delete(namespace, object, claims)).collect();
            let how = if commands.is_empty() { String::new() } else { format!(": {}", commands.join("; ")) };
            Some(format!("what can't be changed has to be deleted first, or the change taken back{how}; then {again}"))
        }
        (Fix::Manual, Some(Failure::NotOurs(_))) => Some(format!(
            "the object belongs to something else; delete it there, or set another name in the values, then {again}"
        )),
        (Fix::Manual, _) => Some(format!(
            "the API server does not take it like this; correct the values, or what forbids it, then {again}"
        )),
    }
}

fn delete(namespace: &str, object: &Subject, claims: &[Claim]) -> String {
    let kind = object.kind.to_lowercase();
    if kind.starts_with("statefulset") {
        return cause::deletion_commands(claims.iter(), namespace, &object.name);
    }
    format!("kubectl -n {namespace} delete {kind} {}", object.name)
}

#[cfg(test)]
mod tests;
