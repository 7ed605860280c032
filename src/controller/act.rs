//! Carrying out a plan: children are started in the order of the longest remaining chain; nothing waits for them.

use std::sync::Arc;
use std::time::Duration;

use super::Context;
use super::gather::Wish;
use super::memory::{CatchingUp, Memory};
use crate::cluster::Error;
use crate::desired::{Desired, DesiredRelease};
use crate::helm::{Apply, Exit, Failure, Job, Outcome, Refused, Stop, Uninstall, Upgrade, Verb};
use crate::observed::{Failed, Key, Observed, RunningSeen};
use crate::plan::{Action, Decision, Plan, Step, Wait};

/// The wall deadline of a whole run, as a multiple of the time that one hook may take.
const HOOKS: u32 = 8;

/// How long an uninstall waits for the objects' end and for each hook.
const UNINSTALL: Duration = Duration::from_mins(5);

/// Stands in place of a digest for an uninstall that skips hooks.
const NO_HOOKS: &str = "--no-hooks";

/// A child as the plan sees it.
pub fn running(child: &crate::helm::Running, inputs: &str) -> RunningSeen {
    RunningSeen {
        verb: child.verb.to_owned(),
        skips_hooks: inputs == NO_HOOKS,
        inputs: child.inputs.clone().unwrap_or_default(),
        since: child.since,
        stopping: child.stopping.is_some(),
        queued: false,
    }
}

impl Context {
    /// Carries out every step; those that began are shown as running in `plan`.
    pub(super) async fn act(&self, plan: &mut Plan, wish: &Wish, memory: &mut Memory) {
        let priorities = wish.desired.priorities();
        let mut names: Vec<String> = plan.decisions.keys().cloned().collect();
        names.sort_by_key(|name| std::cmp::Reverse(priorities.get(name.as_str()).copied().unwrap_or_default()));
        for name in names {
            let Some(decision) = plan.decisions.get_mut(&name) else { continue };
            let Step::Do(action, why) = decision.step.clone() else { continue };
            tracing::info!(release = %decision.key, %action, %why, "step");
            match self.step(&name, decision, &action, &wish.desired, &wish.observed, memory).await {
                Ok(()) => {}
                Err(error) => memory.fail(
                    &decision.key,
                    &action,
                    wish.desired.releases.get(&name),
                    error.to_string(),
                    &wish.observed,
                ),
            }
        }
    }

    async fn step(
        &self,
        name: &str,
        decision: &mut Decision,
        action: &Action,
        desired: &Desired,
        observed: &Observed,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let key = decision.key.clone();
        let revision = observed.releases.get(&key).map_or(0, |seen| seen.revision);
        match action {
            Action::Stop => {
                self.runner.stop(&key, Stop::Asked);
            }
            Action::Recover => {
                let done = self.cluster.unlock(&key, revision).await?;
                tracing::info!(release = %key, done, "recovered");
            }
            Action::Upgrade { delete_jobs } => {
                let Some(release) = desired.releases.get(name) else { return Ok(()) };
                if self.runner.free_slots() == 0 {
                    decision.step = helm("upgrade", true);
                    return Ok(());
                }
                self.cluster.delete_jobs(&key.namespace, delete_jobs).await?;
                self.upgrade(name, release, revision, decision, memory).await?;
            }
            Action::Uninstall { skip_hooks } => {
                let uninstall = Uninstall { timeout: UNINSTALL, hooks: !skip_hooks, wait: false };
                if self.start(&key, Verb::Uninstall(uninstall), revision, UNINSTALL * HOOKS, decision) && *skip_hooks {
                    memory.started.insert(key.clone(), NO_HOOKS.to_owned());
                }
            }
        }
        Ok(())
    }

    async fn upgrade(
        &self,
        name: &str,
        release: &DesiredRelease,
        revision: i64,
        decision: &mut Decision,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let Some(chart) = self.charts.chart(name) else { return Ok(()) };
        self.cluster.ensure_namespace(&release.key.namespace).await?;
        for manifest in chart.crds.iter() {
            self.cluster.apply_crd(manifest).await?;
        }
        let hook_timeout = Duration::from_secs(release.timeout.into());
        let upgrade = Upgrade {
            chart: chart.path,
            values: serde_json::Value::Object(release.values.clone()),
            hook_timeout,
            apply: if release.server_side { Apply::Server } else { Apply::Client },
            take_ownership: false,
            inputs: release.inputs.clone(),
            catalog: release.catalog.clone(),
        };
        if self.start(&release.key, Verb::Upgrade(upgrade), revision + 1, hook_timeout * HOOKS, decision) {
            memory.started.insert(release.key.clone(), release.inputs.clone());
        }
        Ok(())
    }

    fn start(&self, key: &Key, verb: Verb, revision: i64, deadline: Duration, decision: &mut Decision) -> bool {
        let word = verb.name();
        let revision = u32::try_from(revision).unwrap_or(u32::MAX);
        let scrubber = Arc::clone(&self.scrubber.borrow());
        match self.runner.start(Job { release: key.clone(), verb, revision, deadline, scrubber }) {
            Ok(attempt) => {
                tracing::info!(release = %key, verb = word, %attempt, "helm started");
                decision.step = helm(word, false);
                true
            }
            Err(Refused::Busy | Refused::Full | Refused::Closing) => {
                decision.step = helm(word, true);
                false
            }
            Err(refused @ Refused::Values) => {
                tracing::error!(release = %key, %refused, "helm not started");
                false
            }
        }
    }

    /// Takes in what became of the children that ended.
    pub(super) async fn outcomes(&self, memory: &mut Memory) {
        let jobs = self.tasks.observe();
        for outcome in self.runner.take_outcomes() {
            let key = outcome.release.clone();
            let record = self.cluster.newest_record(&key).await;
            let inputs = memory.started.remove(&key).unwrap_or_default();
            Self::remember(&outcome, inputs.clone(), jobs.jobs(), memory);
            let child = RunningSeen {
                verb: outcome.verb.to_owned(),
                inputs,
                since: outcome.started,
                stopping: false,
                queued: false,
                skips_hooks: false,
            };
            match record {
                Ok(record) => drop(memory.catching_up.insert(key.clone(), CatchingUp { child, record })),
                Err(error) => tracing::warn!(release = %key, %error, "the newest record can't be read"),
            }
            if outcome.verb == "uninstall" && outcome.succeeded() {
                memory.collect.push(key);
            }
        }
        for key in std::mem::take(&mut memory.collect) {
            if let Err(error) = self.cluster.collect_jobs(&key).await {
                tracing::warn!(release = %key, %error, "Jobs not collected yet");
                memory.collect.push(key);
            }
        }
    }

    fn remember(outcome: &Outcome, inputs: String, jobs: &[crate::observed::JobSeen], memory: &mut Memory) {
        let key = &outcome.release;
        let seconds = outcome.duration.as_secs_f64();
        // What is gone already is as good as uninstalled.
        let done = outcome.succeeded() || outcome.failure == Some(Failure::ReleaseNotFound);
        if done {
            memory.failures.remove(key);
            tracing::info!(release = %key, verb = outcome.verb, seconds, "helm done");
            return;
        }
        tracing::warn!(release = %key, verb = outcome.verb, seconds, exit = ?outcome.exit, text = outcome.text, "helm failed");
        if matches!(outcome.exit, Exit::Stopped { why: Stop::Asked | Stop::Shutdown, .. }) {
            return;
        }
        let mut message = outcome.text.clone();
        let mut own =
            jobs.iter().filter(|job| job.namespace == key.namespace && job.release == key.name && !job.complete);
        if let Some((job, trouble)) = own.find_map(|job| Some((job, job.trouble.as_ref()?))) {
            message = format!("Job {}: {} ({message})", job.name, trouble.message);
        }
        memory.count(key, outcome.verb, inputs, message);
    }
}

fn helm(verb: &str, queued: bool) -> Step {
    Step::Wait(Wait::Helm { verb: verb.to_owned(), queued, hook: None })
}

impl Memory {
    /// Counts a failure; another digest begins at one.
    fn count(&mut self, key: &Key, verb: &str, inputs: String, message: String) {
        let inputs = if verb == "uninstall" { String::new() } else { inputs };
        let known = self.failures.get(key).filter(|failed| failed.inputs == inputs && failed.verb == verb);
        let count = known.map_or(0, |failed| failed.count) + 1;
        let failed = Failed { verb: verb.into(), inputs, at: super::now(), count, message, terminal: false };
        self.failures.insert(key.clone(), failed);
    }

    fn fail(&mut self, key: &Key, action: &Action, release: Option<&DesiredRelease>, message: String, _: &Observed) {
        tracing::warn!(release = %key, %action, message, "step failed");
        let (verb, inputs) = match action {
            Action::Uninstall { .. } => ("uninstall", String::new()),
            _ => ("upgrade", release.map(|release| release.inputs.clone()).unwrap_or_default()),
        };
        self.count(key, verb, inputs, message);
    }
}
