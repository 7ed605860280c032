//! Carrying out a plan: children are started in the order of the longest remaining chain; nothing waits for them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Context;
use super::charts::Ready;
use super::gather::Wish;
use super::memory::Memory;
use crate::cluster::Error;
use crate::helm::{ApplyMode, Job, JobRejection, RunningJob, StopReason, Uninstall, Upgrade, Verb};
use osdpl_core::desired::{Desired, DesiredRelease};
use osdpl_core::observed::{Observed, ObservedRelease, ReleaseKey, Repaired, RunningHelm};
use osdpl_core::plan::{Action, Decision, Plan, Reason, Step, Wait, count_repairs};
use osdpl_core::release::{
    ADOPTED, ATTEMPT_LABEL, CATALOG_LABEL, IMAGES_LABEL, INPUTS_LABEL, INSTANCES_LABEL, RELEASE_LABEL, SPLIT_LABEL,
    Status,
};

/// The wall deadline of a whole run, as a multiple of the time that one hook may take.
const HOOKS: u32 = 8;

/// How long an uninstall waits for the objects' end and for each hook.
const UNINSTALL: Duration = Duration::from_mins(5);

/// How long helm may take to render before others start beside it: it waits for something then.
const RENDERING: Duration = Duration::from_secs(20);

/// Stands in place of a digest for an uninstall that skips hooks.
const NO_HOOKS: &str = "--no-hooks";

/// A child as the plan sees it.
pub fn running(child: &RunningJob, inputs: &str) -> RunningHelm {
    RunningHelm {
        verb: child.verb.to_owned(),
        skips_hooks: inputs == NO_HOOKS,
        inputs: child.inputs.clone().unwrap_or_default(),
        since: child.since,
        stopping: child.stopping.is_some(),
        queued: false,
    }
}

/// Whether a step waits for other helm processes to end.
fn is_queued(step: &Step) -> bool {
    matches!(step, Step::Wait(Wait::Helm { queued: true, .. }))
}

impl Context {
    /// Carries out every step; those that began are shown as running in `plan`.
    pub(super) async fn act(&self, plan: &mut Plan, wish: &Wish, memory: &mut Memory) {
        let priorities = wish.desired.priorities();
        let mut names: Vec<String> = plan.decisions.keys().cloned().collect();
        names.sort_by_key(|name| std::cmp::Reverse(priorities.get(name.as_str()).copied().unwrap_or_default()));
        for name in names {
            let Some(decision) = plan.decisions.get_mut(&name) else { continue };
            if let Some(sweep) = &decision.sweep {
                let again = self.sweep(&decision.key, sweep, &wish.observed, memory).await;
                plan.requeue_at = plan.requeue_at.into_iter().chain(again).min();
            }
            let Step::Do(action, why) = decision.step.clone() else { continue };
            let taken = self.step(&name, decision, &action, &wish.desired, &wish.observed, memory).await;
            // One that waits for its turn, or its chart, is looked at in each pass, and has not begun; one that fails is told as that.
            if matches!(taken, Ok(true)) {
                tracing::info!(release = %decision.key, %action, %why, "step");
            }
            if decision.step == helm("upgrade", false) {
                memory.repairing(&name, &wish.policy);
            }
            match taken {
                Ok(true) if why == Reason::Drift && decision.step == helm("upgrade", false) => {
                    memory.repaired(&decision.key);
                }
                Ok(_) => {}
                Err(error) => memory.fail(&decision.key, &action, wish.desired.releases.get(&name), error.to_string()),
            }
        }
        if plan.decisions.values().any(|decision| is_queued(&decision.step)) {
            let later = super::now().checked_add(RENDERING).ok();
            plan.requeue_at = plan.requeue_at.into_iter().chain(later).min();
        }
    }

    /// Takes a step; returns whether it began.
    async fn step(
        &self,
        name: &str,
        decision: &mut Decision,
        action: &Action,
        desired: &Desired,
        observed: &Observed,
        memory: &mut Memory,
    ) -> Result<bool, Error> {
        let key = decision.key.clone();
        let revision = observed.releases.get(&key).map_or(0, |seen| seen.revision);
        match action {
            Action::Stop => {
                self.runner.stop(&key, StopReason::Requested);
            }
            Action::Unlock => {
                let done = self.cluster.unlock(&key, revision).await?;
                tracing::info!(release = %key, done, "recovered");
            }
            Action::Unmanage => {
                let records = self.cluster.unlabel_records(&key).await?;
                tracing::info!(release = %key, records, "let go");
            }
            Action::Adopt { in_sync } => {
                let Some(release) = desired.releases.get(name) else { return Ok(false) };
                // What others' failed revisions left is theirs to remove.
                for past in observed.releases.get(&key).into_iter().filter(|seen| !seen.is_ours()).flat_map(failed) {
                    self.cluster.mark_swept(&key, past).await?;
                }
                let labels = self.labels(name, release, revision, *in_sync);
                let done = self.cluster.label_record(&key, revision, &labels).await?;
                tracing::info!(release = %key, revision, in_sync, done, "taken over");
            }
            Action::Upgrade { delete_jobs } => {
                let Some(release) = desired.releases.get(name) else { return Ok(false) };
                if self.runner.free_slots() == 0 || self.renders(observed) >= self.runner.cores() {
                    decision.step = helm("upgrade", true);
                    return Ok(false);
                }
                // One that changed since the values were made for it is another target: the next pass judges it.
                let digest = release.chart_digest.as_deref().unwrap_or_default();
                let Some(chart) = self.charts.chart(name, digest) else { return Ok(false) };
                self.cluster.delete_jobs(&key.namespace, delete_jobs).await?;
                return self.upgrade((name, release, chart), revision, decision, memory).await;
            }
            Action::Uninstall { skip_hooks } => {
                let uninstall = Uninstall { timeout: UNINSTALL, hooks: !skip_hooks };
                let began = self.start(&key, Verb::Uninstall(uninstall), revision, UNINSTALL * HOOKS, decision);
                if began && *skip_hooks {
                    memory.started.insert(key.clone(), NO_HOOKS.to_owned());
                }
                return Ok(began);
            }
        }
        Ok(true)
    }

    /// The labels by which a revision that others made counts as ours: as one of the wanted inputs, or of none that we know.
    fn labels(
        &self,
        name: &str,
        release: &DesiredRelease,
        revision: i64,
        in_sync: bool,
    ) -> BTreeMap<&'static str, Option<String>> {
        let of = |digest: &String| Some(if in_sync { digest.clone() } else { ADOPTED.to_owned() });
        let split = release.split.as_ref().map(|split| split.digest.clone());
        let attempt = self.runner.instance().attempt(0, u32::try_from(revision).unwrap_or(u32::MAX));
        BTreeMap::from([
            (INPUTS_LABEL, of(&release.inputs)),
            (CATALOG_LABEL, of(&release.catalog)),
            (RELEASE_LABEL, Some(name.to_owned())),
            (IMAGES_LABEL, Some(release.images.clone()).filter(|_| in_sync)),
            (INSTANCES_LABEL, release.guests.clone().filter(|_| in_sync)),
            (SPLIT_LABEL, split.filter(|_| in_sync)),
            (ATTEMPT_LABEL, Some(attempt.to_string())),
        ])
    }

    /// How many helms still render: helm writes the release's record when it has, and mostly waits from then on. More of them than cores
    /// only hold each other up, and the one with the most to do afterwards with the rest.
    fn renders(&self, observed: &Observed) -> usize {
        let now = super::now();
        let recorded = |key: &ReleaseKey, child: &RunningJob| {
            observed.releases.get(key).is_some_and(|seen| seen.revision >= i64::from(child.attempt.revision()))
        };
        let rendering = |(key, child): &(&ReleaseKey, &RunningJob)| {
            let stuck = now.duration_since(child.since).unsigned_abs() > RENDERING;
            child.inputs.is_some() && !stuck && !recorded(key, child)
        };
        self.runner.table().iter().filter(rendering).count()
    }

    async fn upgrade(
        &self,
        (name, release, chart): (&str, &DesiredRelease, Ready),
        revision: i64,
        decision: &mut Decision,
        memory: &mut Memory,
    ) -> Result<bool, Error> {
        self.cluster.ensure_namespace(&release.key.namespace).await?;
        if revision == 0 {
            self.cluster.inherit_crds(&release.key).await?;
        }
        for manifest in chart.crds.iter() {
            self.cluster.apply_crd(manifest).await?;
        }
        let upgrade = upgrade(name, release, chart.path);
        let hook_timeout = upgrade.hook_timeout;
        let began = self.start(&release.key, Verb::Upgrade(upgrade), revision + 1, hook_timeout * HOOKS, decision);
        if began {
            memory.started.insert(release.key.clone(), release.inputs.clone());
        }
        Ok(began)
    }

    fn start(&self, key: &ReleaseKey, verb: Verb, revision: i64, deadline: Duration, decision: &mut Decision) -> bool {
        let word = verb.name();
        let revision = u32::try_from(revision).unwrap_or(u32::MAX);
        let scrubber = Arc::clone(&self.scrubber.borrow());
        match self.runner.start(Job { release: key.clone(), verb, revision, deadline, scrubber }) {
            Ok(attempt) => {
                tracing::info!(release = %key, verb = word, %attempt, "helm started");
                decision.step = helm(word, false);
                true
            }
            Err(JobRejection::Busy | JobRejection::Full | JobRejection::Closing) => {
                decision.step = helm(word, true);
                false
            }
            Err(refused @ JobRejection::Values) => {
                tracing::error!(release = %key, %refused, "helm not started");
                false
            }
        }
    }
}

/// What helm is given for a release, of this chart.
pub fn upgrade(name: &str, release: &DesiredRelease, chart: PathBuf) -> Upgrade {
    Upgrade {
        chart,
        values: serde_json::Value::Object(release.values.clone()),
        hook_timeout: Duration::from_secs(release.timeout.into()),
        apply: if release.server_side { ApplyMode::Server } else { ApplyMode::Client },
        inputs: release.inputs.clone(),
        catalog: release.catalog.clone(),
        images: release.images.clone(),
        instances: release.guests.clone(),
        split: release.split.as_ref().map(|split| split.digest.clone()),
        catalog_name: name.to_owned(),
    }
}

/// The failed revisions that helm remembers.
fn failed(seen: &ObservedRelease) -> impl Iterator<Item = u32> {
    seen.history.iter().filter(|past| past.status == Status::Failed).map(|past| past.revision)
}

impl Memory {
    /// Counts a repair that nobody but the spec asked for.
    fn repaired(&mut self, key: &ReleaseKey) {
        let now = super::now();
        let count = count_repairs(self.repairs.get(key), now);
        self.repairs.insert(key.clone(), Repaired { count, last_started_at: now });
    }
}

fn helm(verb: &str, queued: bool) -> Step {
    Step::Wait(Wait::Helm { verb: verb.to_owned(), queued, hook: None })
}
