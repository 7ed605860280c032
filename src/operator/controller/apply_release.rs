//! Executes the step that the plan decided for a release: starts or stops helm, or changes release records.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::memory::Memory;
use super::read::SKIPPED_HOOKS;
use super::{Context, now};
use crate::cluster::Error;
use crate::helm::{ApplyMode, Job, JobRejection, Operation, Runner, StopReason, Uninstall, Upgrade};
use crate::lease::Leadership;
use osdpl_core::desired::DesiredRelease;
use osdpl_core::observed::{ObservedRelease, ReleaseKey, Repaired};
use osdpl_core::plan::{Action, Reason, Step, count_repairs};
use osdpl_core::release::{
    ADOPTED, ATTEMPT_LABEL, CATALOG_LABEL, CHART_LABEL, IMAGES_LABEL, INPUTS_LABEL, INSTANCES_LABEL, RELEASE_LABEL,
    SPLIT_LABEL, Status,
};
use osdpl_decide::Plan;

/// The time after which osdpl stops a helm process, as a multiple of the timeout of one hook.
const DEADLINE_HOOKS: u32 = 8;

/// The timeout of `helm uninstall` for the deletion of a release's objects, and for each hook.
const UNINSTALL_TIMEOUT: Duration = Duration::from_mins(5);

/// A release, and the action that the plan chose as its next step.
#[derive(Clone, Copy)]
pub(super) struct ReleaseStep<'a> {
    /// The release's name in the catalogue.
    pub(super) name: &'a str,
    pub(super) key: &'a ReleaseKey,
    pub(super) action: &'a Action,
}

impl Context {
    /// Executes the action that the plan chose for a release. If the action fails, this function stores the error in
    /// `memory`, and a later pass retries the action after a backoff.
    ///
    /// `prerequisites` contains an error if this pass could not create the release's namespace or write its CRDs. The
    /// function then does not upgrade the release.
    ///
    /// Returns whether helm runs; [`Context::start_helm`] describes the results. Returns `None` for an action without
    /// helm, or if the action failed before the start of helm.
    pub(super) async fn take_step(
        &self,
        plan: &Plan,
        step: ReleaseStep<'_>,
        prerequisites: Result<(), Error>,
        memory: &mut Memory,
    ) -> Option<bool> {
        let ReleaseStep { name, key, action } = step;
        let result = self.try_step(plan, step, prerequisites, memory).await;
        if matches!((action, &result), (Action::Upgrade { .. }, Ok(Some(true)))) {
            if plan.repairs.contains(name) {
                memory.kept.repairing.insert(name.to_owned());
            }
            let decision = plan.releases.decisions.get(name);
            if decision.is_some_and(|decision| matches!(&decision.step, Step::Do(_, Reason::Drift))) {
                memory.count_repair(key);
            }
        }
        result.unwrap_or_else(|error| {
            memory.count_step_failure(key, action, plan.desired.releases.get(name), error.to_string());
            None
        })
    }

    async fn try_step(
        &self,
        plan: &Plan,
        step: ReleaseStep<'_>,
        prerequisites: Result<(), Error>,
        memory: &mut Memory,
    ) -> Result<Option<bool>, Error> {
        let ReleaseStep { name, key, action } = step;
        let observed = plan.observed.releases.get(key);
        let revision = observed.map_or(0, |observed| observed.revision);
        match action {
            Action::Stop => {
                self.runner.stop(key, StopReason::Requested);
            }
            Action::Unlock => {
                let Some(observed) = observed else { return Ok(None) };
                let result = self.cluster.unlock(key, observed).await?;
                tracing::info!(release = %key, result, "osdpl tried to unlock the release record");
            }
            Action::Unmanage => {
                let records = self.cluster.unlabel_records(key).await?;
                tracing::info!(release = %key, records, "removed osdpl's labels from the release records");
            }
            Action::Adopt { in_sync } => {
                let Some(release) = plan.desired.releases.get(name) else { return Ok(None) };
                // Another tool made the failed revisions. Mark them as cleaned up, so that osdpl deletes none of their
                // objects.
                for past in observed.into_iter().filter(|observed| !observed.is_ours()).flat_map(failed_revisions) {
                    self.cluster.mark_cleaned_up(key, past).await?;
                }
                let labels = self.adoption_labels(name, release, revision, *in_sync);
                let is_labelled = self.cluster.label_record(key, revision, &labels).await?;
                tracing::info!(release = %key, revision, in_sync, is_labelled, "adopted the release");
            }
            Action::Upgrade { delete_jobs, skip_hooks } => {
                prerequisites?;
                let Some(release) = plan.desired.releases.get(name) else { return Ok(None) };
                // Do nothing if the chart has changed since osdpl made the plan: the values might not fit the new
                // chart. The next pass decides again.
                let digest = release.chart_digest.as_deref().unwrap_or_default();
                let Some(chart) = self.charts.chart(name, digest) else { return Ok(None) };
                self.cluster.delete_jobs(key, delete_jobs).await?;
                let upgrade = Upgrade { skip_hooks: *skip_hooks, ..build_upgrade(name, release, chart.path) };
                return Ok(self.start_upgrade(release, upgrade, revision, memory));
            }
            Action::Uninstall { skip_hooks } => {
                let uninstall = Uninstall { timeout: UNINSTALL_TIMEOUT, hooks: !skip_hooks };
                let deadline = UNINSTALL_TIMEOUT * DEADLINE_HOOKS;
                let is_started = self.start_helm(key, Operation::Uninstall(uninstall), revision, deadline);
                if is_started == Some(true) && *skip_hooks {
                    memory.started.insert(key.clone(), SKIPPED_HOOKS.to_owned());
                }
                return Ok(is_started);
            }
        }
        Ok(None)
    }

    /// Returns the labels with which osdpl adopts a release, for the record of a revision that another tool made.
    ///
    /// If the revision differs from the desired state (`in_sync` is `false`), the labels mark the revision's inputs as
    /// unknown, so that osdpl does not regard the release as up to date.
    fn adoption_labels(
        &self,
        name: &str,
        release: &DesiredRelease,
        revision: i64,
        in_sync: bool,
    ) -> BTreeMap<&'static str, Option<String>> {
        let digest = |digest: &String| Some(if in_sync { digest.clone() } else { ADOPTED.to_owned() });
        let split = release.split.as_ref().map(|split| split.digest.clone());
        let attempt = self.runner.instance().attempt(0, u32::try_from(revision).unwrap_or(u32::MAX));
        BTreeMap::from([
            (INPUTS_LABEL, digest(&release.inputs)),
            (CATALOG_LABEL, digest(&release.catalog)),
            (RELEASE_LABEL, Some(name.to_owned())),
            (IMAGES_LABEL, Some(release.images.clone()).filter(|_| in_sync)),
            (INSTANCES_LABEL, release.instances.clone().filter(|_| in_sync)),
            (SPLIT_LABEL, split.filter(|_| in_sync)),
            (CHART_LABEL, release.chart_identity.as_ref().filter(|_| in_sync).map(ToString::to_string)),
            (ATTEMPT_LABEL, Some(attempt.to_string())),
        ])
    }

    /// Starts the helm upgrade of a release.
    ///
    /// Returns `true` if helm runs; [`Context::start_helm`] describes the other results.
    fn start_upgrade(
        &self,
        release: &DesiredRelease,
        upgrade: Upgrade,
        revision: i64,
        memory: &mut Memory,
    ) -> Option<bool> {
        let deadline = upgrade.hook_timeout * DEADLINE_HOOKS;
        let is_started = self.start_helm(&release.key, Operation::Upgrade(Box::new(upgrade)), revision + 1, deadline);
        if is_started == Some(true) {
            memory.started.insert(release.key.clone(), release.inputs.clone());
        }
        is_started
    }

    /// Starts helm for one release.
    ///
    /// Returns `true` if helm runs; `false` if helm can't start now, usually because the maximum number of helm
    /// processes is running; `None` if the values can't be serialised.
    fn start_helm(&self, key: &ReleaseKey, operation: Operation, revision: i64, deadline: Duration) -> Option<bool> {
        let revision = u32::try_from(revision).unwrap_or(u32::MAX);
        let scrubber = Arc::clone(&self.scrubber.borrow());
        let job = Job { release: key.clone(), operation, revision, deadline, scrubber };
        start_if_active(&self.runner, &self.leadership, job)
    }
}

/// Starts helm if this process is the active operator; otherwise returns `false`. [`Context::start_helm`] describes all
/// results.
fn start_if_active(runner: &Runner, leadership: &Leadership, job: Job) -> Option<bool> {
    if !leadership.may_write() {
        return Some(false);
    }
    let (key, verb) = (job.release.clone(), job.operation.verb().as_str());
    match runner.start(job) {
        Ok(attempt) => {
            tracing::info!(release = %key, verb, %attempt, "helm started");
            Some(true)
        }
        Err(JobRejection::Busy | JobRejection::Full | JobRejection::Closing) => Some(false),
        Err(rejection @ JobRejection::Values) => {
            tracing::error!(release = %key, %rejection, "helm was not started");
            None
        }
    }
}

/// Returns the helm upgrade that brings a release to its desired state; `chart` is the path of the chart.
pub fn build_upgrade(name: &str, release: &DesiredRelease, chart: PathBuf) -> Upgrade {
    Upgrade {
        chart,
        values: serde_json::Value::Object(release.values.clone()),
        hook_timeout: Duration::from_secs(release.timeout.into()),
        apply: if release.server_side { ApplyMode::Server } else { ApplyMode::Client },
        inputs: release.inputs.clone(),
        catalog: release.catalog.clone(),
        images: release.images.clone(),
        instances: release.instances.clone(),
        split: release.split.as_ref().map(|split| split.digest.clone()),
        baseline: release.baseline,
        chart_identity: release.chart_identity.clone(),
        hooks: release.hooks.clone(),
        skip_hooks: false,
        catalog_name: name.to_owned(),
    }
}

/// Returns those failed revisions of a release whose records still exist.
fn failed_revisions(observed: &ObservedRelease) -> impl Iterator<Item = u32> {
    observed.history.iter().filter(|past| past.status == Status::Failed).map(|past| past.revision)
}

impl Memory {
    /// Counts a repair of drift in a release, so that osdpl can limit how often it repairs the release.
    fn count_repair(&mut self, key: &ReleaseKey) {
        let now = now();
        let count = count_repairs(self.repairs.get(key), now);
        self.repairs.insert(key.clone(), Repaired { count, last_started_at: now });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::helm::Config;
    use crate::helm::fake::FakeHelm;
    use osdpl_core::scrub::Scrubber;

    #[tokio::test]
    async fn only_the_active_operator_starts_helm() {
        let (fake_helm, leadership) = (FakeHelm::with_script(""), Leadership::default());
        let runner = fake_helm.runner(Config { wrapper: None, ..Config::default() }).await;
        let start = || {
            let operation = Operation::Uninstall(Uninstall { timeout: UNINSTALL_TIMEOUT, hooks: true });
            let (release, scrubber) = (ReleaseKey::new("cloud", "nova"), Arc::new(Scrubber::new(["hunter22"])));
            let job = Job { release, operation, revision: 1, deadline: UNINSTALL_TIMEOUT, scrubber };
            (start_if_active(&runner, &leadership, job), runner.table().len())
        };
        assert_eq!(start(), (Some(false), 0));
        leadership.activate(Instant::now());
        assert_eq!(start(), (Some(false), 0), "the Lease has expired");
        leadership.activate(Instant::now() + UNINSTALL_TIMEOUT);
        assert_eq!(start(), (Some(true), 1));
        runner.shutdown().await;
    }
}
