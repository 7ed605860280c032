//! Starts helm processes. At most one process runs for each release, and at most as many in total as there are slots.
//!
//! The Runner has no queue, because a queued job could start late, with outdated values. If no slot is free for a job,
//! the Runner refuses the job. When a helm process ends, the Runner notifies the receivers of [`Runner::changes`]. The
//! notification triggers a pass, whose plan chooses the jobs that are the most urgent at that time.

#![allow(clippy::disallowed_methods, reason = "measures when a process started and how long it ran")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use k8s_openapi::jiff::Timestamp;
use osdpl_values::CollectSorted;
use tokio::sync::watch;

use super::child::{self, Run, StopReason};
use super::failure::{classify, condense};
use super::spawner::Spawner;
use super::tail::Tail;
use super::{Exit, Failure, Instance, Operation, Outcome, Program, ReleaseKey};
use crate::clock::steady;
use osdpl_core::release::Attempt;
use osdpl_core::scrub::Scrubber;

mod counters;
mod job;

pub(crate) use counters::Counters;
pub use job::Config;
pub(crate) use job::{Job, JobRejection, RunningJob};

/// Starts, stops and tracks helm processes. All clones of a Runner share one table of processes.
#[derive(Clone)]
pub struct Runner(Arc<Inner>);

struct Inner {
    program: Program,
    config: Config,
    instance: Instance,
    spawner: Spawner,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

/// The helm processes of this operator process, and what the Runner remembers of those that have ended.
#[derive(Default)]
struct State {
    /// The running processes. Kept to limit their number and to stop them. A restart of the operator ends them, and the
    /// release records show the interrupted operations.
    running: BTreeMap<ReleaseKey, Entry>,
    /// The outcomes of processes that have ended. Kept until a pass takes them. A restart loses them, but the release
    /// records still show whether the operations succeeded.
    outcomes: Vec<Outcome>,
    /// The number of started processes. Kept so that each process gets an [`Attempt`] of its own. A restart sets it to
    /// 0, but the attempts stay different, because the identity of the operator process is new.
    attempts: u32,
    /// Whether [`Runner::shutdown`] was called. Kept so that the Runner refuses new jobs until the operator ends.
    closing: bool,
    /// The counters for the metrics. Kept for the next scrape. A restart sets them to 0, as metrics systems expect.
    counters: Counters,
}

struct Entry {
    running: RunningJob,
    slot: usize,
    stop: watch::Sender<Option<StopReason>>,
}

impl Runner {
    /// Creates a Runner that starts the helm program `program`. `instance` is the identity of this operator process.
    ///
    /// The caller must run in a tokio runtime, which notices when a helm process has ended.
    ///
    /// # Errors
    /// Returns an error if the thread that starts processes cannot be started.
    pub fn new(program: Program, config: Config, instance: Instance) -> io::Result<Self> {
        Ok(Self(Arc::new(Inner {
            program,
            config,
            instance,
            spawner: Spawner::start()?,
            state: Mutex::default(),
            changed: watch::Sender::new(0),
        })))
    }

    /// Returns the helm program that the Runner starts.
    pub fn program(&self) -> &Program {
        &self.0.program
    }

    /// Returns the identity of this operator process. Each [`Attempt`] of the process contains the identity.
    pub fn instance(&self) -> &Instance {
        &self.0.instance
    }

    /// Starts a helm process for `job` and returns immediately. The Runner limits how many helm processes run at the
    /// same time, so the caller must start the most urgent job first.
    ///
    /// # Errors
    /// The error says why the Runner refused the job. The Runner does not start a refused job later.
    pub fn start(&self, job: Job) -> Result<Attempt, JobRejection> {
        // Serialise the values before taking the lock, because serialising a large value tree takes long and would
        // block other callers.
        let (input, inputs) = match &job.operation {
            Operation::Upgrade(upgrade) => (Some(document(&upgrade.values)?), Some(upgrade.inputs.clone())),
            Operation::Uninstall(_) => (None, None),
        };
        let inner = &self.0;
        let mut state = inner.state();
        let slot = state.admit(&job.release, inner.config.slots)?;
        state.attempts += 1;
        let attempt = inner.instance.attempt(state.attempts, job.revision);
        let (stop, stopped) = watch::channel(None);
        let (verb, since) = (job.operation.verb(), steady());
        let running = RunningJob { verb, attempt: attempt.clone(), inputs, since, stopping: None };
        state.counters.of(verb).started += 1;
        state.running.insert(job.release.clone(), Entry { running, slot, stop });
        drop(state);
        inner.notify();
        let started_job = StartedJob { slot, attempt: attempt.clone(), since, input };
        tokio::spawn(Arc::clone(inner).run_to_end(job, started_job, stopped));
        Ok(attempt)
    }

    /// Begins to stop the helm process of a release, and returns immediately. Returns `false` if the release has no
    /// helm process.
    ///
    /// The Runner sends SIGTERM to the process group of helm. If helm still runs after [`Config::grace`], the Runner
    /// sends SIGKILL.
    pub fn stop(&self, release: &ReleaseKey, why: StopReason) -> bool {
        let stopping = match self.0.state().running.get(release) {
            Some(entry) => entry.request_stop(why),
            None => return false,
        };
        if stopping {
            self.0.mark_stopping(release, why);
        }
        true
    }

    /// Returns the table of running helm processes, by release.
    pub fn table(&self) -> BTreeMap<ReleaseKey, RunningJob> {
        let state = self.0.state();
        state.running.iter().map(|(key, entry)| (key.clone(), entry.running.clone())).collect_map()
    }

    /// Returns the number of free slots: how many more helm processes can start now.
    pub fn free_slots(&self) -> usize {
        self.0.config.slots.saturating_sub(self.0.state().running.len())
    }

    /// Returns the number of processors. A plan lets at most this number of helm processes render charts at the same
    /// time, because more of them would finish no earlier.
    pub fn cores(&self) -> usize {
        self.0.config.cores
    }

    /// Returns the outcomes of the helm processes that have ended since the last call of this function, oldest first.
    ///
    /// A process disappears from [`Runner::table`] at the moment when its outcome appears in this list.
    pub(crate) fn take_outcomes(&self) -> Vec<Outcome> {
        std::mem::take(&mut self.0.state().outcomes)
    }

    /// Returns a receiver that is notified when the table of helm processes or the list of outcomes changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Returns the counters of helm processes, for the metrics.
    pub(crate) fn counters(&self) -> Counters {
        self.0.state().counters.clone()
    }

    /// Refuses new jobs, stops all helm processes, and waits until the last process has ended.
    ///
    /// The wait takes hardly longer than [`Config::grace`], because the Runner then sends SIGKILL to each helm process
    /// that is still running.
    ///
    /// An install or upgrade that ends after SIGTERM leaves a failed record, which needs no recovery. A stopped
    /// uninstall leaves an `uninstalling` record, because helm has no signal handler during an uninstall. The next
    /// operator process repeats the uninstall.
    pub async fn shutdown(&self) {
        let mut changes = self.changes();
        let running: Vec<ReleaseKey> = {
            let mut state = self.0.state();
            state.closing = true;
            state.running.keys().cloned().collect()
        };
        for release in running {
            self.stop(&release, StopReason::Shutdown);
        }
        // Ignore the result: the wait fails only if the sender is dropped, and `self` owns the sender.
        drop(changes.wait_for(|_| self.0.state().running.is_empty()).await);
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Runner").field("running", &self.table()).finish_non_exhaustive()
    }
}

/// The data that the Runner assigns to a job when it starts the job: the slot, the attempt, the start time, and the
/// input for helm's stdin (the values of an upgrade as JSON).
struct StartedJob {
    slot: usize,
    attempt: Attempt,
    since: Timestamp,
    input: Option<Vec<u8>>,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn mark_stopping(&self, release: &ReleaseKey, why: StopReason) {
        if let Some(entry) = self.state().running.get_mut(release) {
            entry.running.stopping.get_or_insert(why);
        }
        self.notify();
    }

    async fn run_to_end(
        self: Arc<Self>,
        job: Job,
        mut started_job: StartedJob,
        stop: watch::Receiver<Option<StopReason>>,
    ) {
        let clock = Instant::now();
        let Job { release, operation, scrubber, deadline, .. } = job;
        let (verb, command) = (operation.verb(), self.command(&release, &operation, &started_job));
        // Free the value tree before helm starts, because helm gets the serialised values and nobody needs the tree.
        drop(operation);
        let run = Run { command, input: started_job.input.take(), deadline, grace: self.config.grace };
        let stopping = |why| self.mark_stopping(&release, why);
        let (exit, tail) = child::run(run, &self.spawner, stop, stopping).await;
        let (failure, text) = explain(&exit, &tail, &scrubber);
        let StartedJob { attempt, since: started, .. } = started_job;
        let duration = clock.elapsed();
        self.finish(Outcome { release, verb, attempt, exit, failure, text, started, duration });
    }

    fn command(
        &self,
        release: &ReleaseKey,
        operation: &Operation,
        started_job: &StartedJob,
    ) -> tokio::process::Command {
        let slot = format!("slot-{}", started_job.slot);
        let mut command = match &self.config.wrapper {
            Some(wrapper) => self.program.command_through(wrapper, &slot),
            None => self.program.command(&slot),
        };
        command.env(super::instance::INSTANCE_VARIABLE, self.instance.as_str());
        command.args(match operation {
            Operation::Upgrade(upgrade) => upgrade.arguments(release, &started_job.attempt, self.program.version()),
            Operation::Uninstall(uninstall) => uninstall.arguments(release),
        });
        command
    }

    fn finish(&self, outcome: Outcome) {
        let mut state = self.state();
        state.running.remove(&outcome.release);
        state.counters.of(outcome.verb).add(&outcome);
        state.outcomes.push(outcome);
        drop(state);
        self.notify();
    }
}

impl State {
    fn admit(&self, release: &ReleaseKey, slots: usize) -> Result<usize, JobRejection> {
        if self.closing {
            return Err(JobRejection::Closing);
        }
        if self.running.contains_key(release) {
            return Err(JobRejection::Busy);
        }
        let taken: BTreeSet<usize> = self.running.values().map(|entry| entry.slot).collect_set();
        (0..slots).find(|slot| !taken.contains(slot)).ok_or(JobRejection::Full)
    }
}

impl Entry {
    /// Asks the task that waits for the helm process to stop the process, for the reason `why`. Returns `true` for the
    /// first such request. A later request does not change the reason.
    fn request_stop(&self, why: StopReason) -> bool {
        self.stop.send_if_modified(|stop| {
            let first = stop.is_none();
            stop.get_or_insert(why);
            first
        })
    }
}

/// Serialises values as JSON with a final newline.
///
/// Without the newline, helm 4 before 4.3 ignores the values if their length is a multiple of 4096 bytes (helm#32506).
pub(super) fn document(values: &serde_json::Value) -> Result<Vec<u8>, JobRejection> {
    let mut document = serde_json::to_vec(values).map_err(|_| JobRejection::Values)?;
    document.push(b'\n');
    Ok(document)
}

/// Returns the kind of helm's failure (`None` if helm succeeded or the operator stopped it), and a message about how
/// helm ended.
fn explain(exit: &Exit, tail: &Tail, scrubber: &Scrubber) -> (Option<Failure>, String) {
    match exit {
        Exit::Success => (None, String::new()),
        Exit::Stopped { why, .. } => (None, why.to_string()),
        Exit::Failed(_) | Exit::NotStarted => {
            let text = tail.text(scrubber);
            (Some(classify(&text)), condense(&text))
        }
        Exit::Signalled(signal) => {
            let text = condense(&tail.text(scrubber));
            let colon = if text.is_empty() { "" } else { ": " };
            (Some(Failure::Other), format!("helm was ended by signal {signal}{colon}{text}"))
        }
    }
}

#[cfg(test)]
mod tests;
