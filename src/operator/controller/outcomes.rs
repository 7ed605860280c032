//! Evaluates the results of helm processes: stores each failure, and the condition under which a retry can succeed.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use osdpl_values::CollectSorted;

use super::Context;
use super::memory::{Memory, UnobservedResult};
use crate::cluster::{NewestRecord, Reader};
use crate::helm::{Exit, Failure, Outcome, StopReason, Subject, Verb};
use crate::tasks::Observation;
use osdpl_core::cause;
use osdpl_core::desired::DesiredRelease;
use osdpl_core::observed::{Claim, Failed, ObservedRelease, ReleaseKey, RetryCondition, RunningHelm};
use osdpl_core::plan::Action;
use osdpl_core::release::Status;

/// The delay before osdpl retries a failed read of a release record.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// The time that osdpl waits for the watch to report a release record before it reads the record again.
const REREAD_DELAY: Duration = Duration::from_secs(30);

impl Context {
    /// Evaluates the results of the helm processes that have ended since the last pass, and the newest release records
    /// that these processes have written.
    pub(super) async fn process_outcomes(&self, memory: &mut Memory) {
        memory.unread.extend(self.runner.take_outcomes());
        memory.process_unread(self.cluster.reader(), &self.tasks.observe()).await;
        for key in memory.overdue(super::now()) {
            match self.cluster.reader().newest_record(&key).await {
                Ok(record) => memory.update_record(&key, record, super::now()),
                Err(error) => {
                    tracing::warn!(release = %key, %error, "osdpl can't read the newest record of the release after helm has ended; retrying");
                }
            }
        }
    }
}

/// Returns the newest revision if helm has succeeded and the watch on records has already reported this
/// revision as deployed.
///
/// Otherwise returns `None`, and osdpl must read the newest record from the API server: helm has failed or uninstalled
/// the release, the watch has not reported the new revision yet, or someone else has changed the release.
fn reported_record(outcome: &Outcome, observed: Option<&ObservedRelease>) -> Option<NewestRecord> {
    let is_deployed = |observed: &&ObservedRelease| {
        observed.status == Status::Deployed
            && observed.revision == i64::from(outcome.attempt.revision())
            && observed.attempt.as_ref().is_some_and(|attempt| attempt.label == outcome.attempt.to_string())
    };
    let observed = observed.filter(is_deployed).filter(|_| outcome.succeeded())?;
    Some(NewestRecord { revision: observed.revision, status: observed.status })
}

/// Logs the outcome of a helm process. If helm has failed, stores the failure in `memory` for the next plan.
///
/// `inputs` is the digest of the inputs with which osdpl started helm. `has_record` states whether helm has written a
/// record of the attempt.
fn remember_failure(
    outcome: &Outcome,
    inputs: String,
    has_record: bool,
    observation: &Observation,
    memory: &mut Memory,
) {
    let key = &outcome.release;
    let (verb, text, seconds) = (outcome.verb.as_str(), &outcome.text, outcome.duration.as_secs_f64());
    // helm reports an error if the release to uninstall does not exist. Treat this error as a success.
    if outcome.succeeded() || outcome.failure == Some(Failure::ReleaseNotFound) {
        memory.failures.remove(key);
        tracing::info!(release = %key, verb, seconds, "helm done");
        return;
    }
    if matches!(outcome.exit, Exit::Stopped { why: StopReason::Requested | StopReason::Shutdown, .. }) {
        tracing::info!(release = %key, verb, seconds, exit = ?outcome.exit, text, "helm stopped");
        return;
    }
    tracing::warn!(release = %key, verb, seconds, exit = ?outcome.exit, text, "helm failed");
    let mut message = text.clone();
    let jobs = observation.jobs().iter();
    let mut own_jobs = jobs.filter(|job| job.namespace == key.namespace && job.release == key.name && !job.complete);
    if let Some((job, trouble)) = own_jobs.find_map(|job| Some((job, job.trouble.as_ref()?))) {
        message = format!("Job {}: {} ({message})", job.name, trouble.message);
    }
    let fix = required_fix(outcome.failure.as_ref(), has_record);
    if let Some(advice) = advice(outcome, fix, observation.volume_claims()) {
        message = format!("{message}; {advice}");
    }
    memory.count_failure(key, outcome.verb, inputs, message, fix);
}

impl Memory {
    /// Evaluates the outcomes in `unread`. Removes each outcome only after its evaluation, because the operator may
    /// cancel the pass during any read of a record. The next pass then evaluates the remaining outcomes.
    async fn process_unread(&mut self, reader: &Reader, observation: &Observation) {
        for outcome in self.unread.clone() {
            let reported = reported_record(&outcome, observation.releases.get(&outcome.release));
            let record = match reported {
                Some(record) => Ok(Some(record)),
                None => reader.newest_record(&outcome.release).await,
            };
            match record {
                Ok(record) => {
                    self.unread.retain(|unread| *unread != outcome);
                    self.process_outcome(&outcome, record, observation);
                }
                Err(error) => {
                    tracing::warn!(release = %outcome.release, %error, "osdpl can't read the newest record of the release after helm has ended; retrying");
                }
            }
        }
    }

    /// Evaluates the result of a helm process. `record` is the release's newest revision after the end of the process.
    fn process_outcome(&mut self, outcome: &Outcome, record: Option<NewestRecord>, observation: &Observation) {
        let key = &outcome.release;
        let process = self.running_helm(outcome);
        let inputs = self.started.remove(key).unwrap_or_default();
        let has_record = record.is_some_and(|newest| newest.revision >= i64::from(outcome.attempt.revision()));
        remember_failure(outcome, inputs, has_record, observation, self);
        self.unobserved.insert(key.clone(), UnobservedResult { process, record, read_at: super::now() });
        if outcome.verb == Verb::Uninstall && outcome.succeeded() {
            self.uninstalled.insert(key.clone());
        }
    }

    /// Describes an ended helm process as one that is still running, so that plans start nothing for the release until
    /// the watch has reported the result of the process.
    fn running_helm(&self, outcome: &Outcome) -> RunningHelm {
        RunningHelm {
            verb: outcome.verb,
            inputs: self.started.get(&outcome.release).cloned().unwrap_or_default(),
            since: outcome.started,
            // Mark the process as stopping, so that no plan stops it: it has already ended.
            stopping: true,
            skips_hooks: false,
        }
    }

    /// Returns the helm processes that have ended, but whose records osdpl has not read yet, or the watch has not
    /// reported yet.
    ///
    /// Plans treat these processes as running, and start nothing for their releases.
    pub(super) fn unobserved_processes(&self) -> BTreeMap<ReleaseKey, RunningHelm> {
        let unread = self.unread.iter().map(|outcome| (outcome.release.clone(), self.running_helm(outcome)));
        let unobserved = self.unobserved.iter().map(|(key, waiting)| (key.clone(), waiting.process.clone()));
        unread.chain(unobserved).collect_map()
    }

    /// Returns the releases whose newest record osdpl must read again, because the watch has not reported the record
    /// within [`REREAD_DELAY`].
    ///
    /// The watch may never report the record that osdpl has read: someone else may have changed the release since then,
    /// for example by an uninstall.
    fn overdue(&self, now: Timestamp) -> Vec<ReleaseKey> {
        let is_overdue =
            |waiting: &UnobservedResult| now.duration_since(waiting.read_at).unsigned_abs() >= REREAD_DELAY;
        self.unobserved.iter().filter(|(_, waiting)| is_overdue(waiting)).map(|(key, _)| key.clone()).collect()
    }

    fn update_record(&mut self, key: &ReleaseKey, record: Option<NewestRecord>, now: Timestamp) {
        if let Some(waiting) = self.unobserved.get_mut(key) {
            (waiting.record, waiting.read_at) = (record, now);
        }
    }

    /// Returns the time at which a pass must read a release record again; `None` if no record must be read again. The
    /// operator must schedule this pass, because no watch triggers it.
    pub(super) fn next_record_read(&self, now: Timestamp) -> Option<Timestamp> {
        let retry = now.checked_add(RETRY_DELAY).ok();
        let unread = self.unread.first().and(retry);
        let rereads = self.unobserved.values().filter_map(|waiting| waiting.read_at.checked_add(REREAD_DELAY).ok());
        // If the time of a reread has passed, this pass has already tried to read the record again, and has failed. So
        // set the time of the next attempt to the end of the retry delay.
        let reread = rereads.min().map(|at| at.max(retry.unwrap_or(now)));
        unread.into_iter().chain(reread).min()
    }

    /// Counts a failed operation on a release. The count starts at one again if the operation or its inputs differ from
    /// those of the last failure.
    fn count_failure(&mut self, key: &ReleaseKey, verb: Verb, inputs: String, message: String, fix: RetryCondition) {
        let inputs = if verb == Verb::Uninstall { String::new() } else { inputs };
        let known = self.failures.get(key).filter(|failed| failed.inputs == inputs && failed.verb == verb);
        let count = known.map_or(0, |failed| failed.count) + 1;
        let failed = Failed { verb, inputs, at: super::now(), count, message, fix, is_reported: false };
        self.failures.insert(key.clone(), failed);
    }

    /// Counts the failed step of a release. The step has started no helm process.
    pub(super) fn count_step_failure(
        &mut self,
        key: &ReleaseKey,
        action: &Action,
        release: Option<&DesiredRelease>,
        message: String,
    ) {
        tracing::warn!(
            release = %key,
            %action,
            message,
            "osdpl could not execute an action on the release; osdpl retries the action later"
        );
        let (verb, inputs) = match action {
            Action::Uninstall { .. } => (Verb::Uninstall, String::new()),
            _ => (Verb::Upgrade, release.map(|release| release.inputs.clone()).unwrap_or_default()),
        };
        self.count_failure(key, verb, inputs, message, RetryCondition::Time);
    }
}

/// Returns the condition under which a retry after a failure can succeed.
///
/// After a rendering error, a retry can succeed only with other inputs. But helm renders a chart before it writes the
/// record of the attempt. So if the record exists (`has_record`), rendering has succeeded, even if helm's message looks
/// like a rendering error.
fn required_fix(failure: Option<&Failure>, has_record: bool) -> RetryCondition {
    match failure {
        Some(Failure::Unrenderable) if !has_record => RetryCondition::Inputs,
        Some(Failure::TooLarge) => RetryCondition::Inputs,
        Some(Failure::Immutable(_) | Failure::NotOurs(_) | Failure::Invalid(_)) => RetryCondition::Manual,
        // A retry may succeed without a change by the user. For example, the database that a hook needs is available by
        // then, someone has added a CRD or a permission, or the deletion of a namespace has ended.
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
        | None => RetryCondition::Time,
    }
}

/// Returns the remedy for a failure; `None` if a later retry can succeed without a change by the user.
fn advice(outcome: &Outcome, fix: RetryCondition, claims: &[Claim]) -> Option<String> {
    let retry = format!("annotate the OpenStackDeployment with {}=<release> to retry soon", osdpl_core::api::REPAIR);
    match (fix, outcome.failure.as_ref()) {
        (RetryCondition::Time, _) => None,
        (RetryCondition::Inputs, Some(Failure::TooLarge)) => Some(format!(
            "helm stores the chart, the values and all objects of {} in one Secret, which may not be larger than 1 MiB: \
             osdpl does not retry until the values or the chart change; make the values smaller, above all long \
             strings in conf, or move objects out of extraObjects and apply them without helm (fewer revisions don't \
             help, because each has its own Secret)",
            outcome.release
        )),
        (RetryCondition::Inputs, _) => Some(format!(
            "the chart can't be rendered with these values: osdpl does not retry until the values or the chart change; \
             correct the values in spec.services.<service>.releases.<release>, or in the objects that its valuesFrom \
             names (if the chart reads other objects of the cluster, correct these objects and {retry})"
        )),
        (RetryCondition::Manual, Some(Failure::Immutable(objects))) => {
            let namespace = &outcome.release.namespace;
            let commands: Vec<_> = objects.iter().map(|object| deletion_command(namespace, object, claims)).collect();
            let commands = if commands.is_empty() { String::new() } else { format!(": {}", commands.join("; ")) };
            Some(format!("revert the change, or delete the immutable objects{commands}; then {retry}"))
        }
        (RetryCondition::Manual, Some(Failure::NotOurs(_))) => Some(format!(
            "the object belongs to another owner; let that owner delete it, or set another name in the values, then \
             {retry}"
        )),
        (RetryCondition::Manual, _) => Some(format!(
            "the API server rejects the object; correct the values, or the policy that forbids it, then {retry}"
        )),
    }
}

/// Returns the command with which a user deletes an object whose immutable fields the chart changes.
fn deletion_command(namespace: &str, object: &Subject, claims: &[Claim]) -> String {
    let kind = object.kind.to_lowercase();
    if kind.starts_with("statefulset") {
        return cause::deletion_commands(claims.iter(), namespace, &object.name);
    }
    format!("kubectl -n {namespace} delete {kind} {}", object.name)
}

#[cfg(test)]
mod tests;
