//! The Runner: one child a release, bounded slots, nothing ever waits.
//!
//! It has no queue. A job that finds no slot is refused; every end of a child pokes whoever watches [`Runner::changes`],
//! and the next plan, made of what is true *then*, starts what matters most. A queue would start yesterday's values.

#![allow(clippy::disallowed_methods, reason = "when a child began and how long it took")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use k8s_openapi::jiff::Timestamp;
use tokio::sync::watch;

use super::child::{self, Run, Stop};
use super::failure::{classify, condense};
use super::spawner::Spawner;
use super::tail::Tail;
use super::{Exit, Failure, Instance, Key, Outcome, Program, Verb};
use osdpl_core::release::Attempt;
use osdpl_core::scrub::Scrubber;

mod job;
mod tally;

pub use job::{Config, Job, Refused, Running};
pub use tally::{Tally, VerbTally};

/// Starts, stops and remembers children. Cheap to clone; all clones are one.
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

#[derive(Default)]
struct State {
    running: BTreeMap<Key, Entry>,
    outcomes: Vec<Outcome>,
    attempts: u32,
    closing: bool,
    tally: Tally,
}

struct Entry {
    running: Running,
    slot: usize,
    stop: watch::Sender<Option<Stop>>,
}

impl Runner {
    /// A Runner for this program; `instance` is what its attempts are signed with. Must be called within a runtime.
    ///
    /// # Errors
    /// When the thread that starts children cannot be started.
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

    /// The helm it drives.
    pub fn program(&self) -> &Program {
        &self.0.program
    }

    /// Who signs the attempts.
    pub fn instance(&self) -> &Instance {
        &self.0.instance
    }

    /// Starts a child for this job and returns at once, or says why not. Of several jobs, start the most urgent first.
    ///
    /// # Errors
    /// [`Refused`]; the job is then forgotten.
    pub fn start(&self, job: Job) -> Result<Attempt, Refused> {
        // Serialised before the lock, and the tree dropped: it can be large.
        let (input, inputs) = match &job.verb {
            Verb::Upgrade(upgrade) => (Some(document(&upgrade.values)?), Some(upgrade.inputs.clone())),
            Verb::Uninstall(_) => (None, None),
        };
        let inner = &self.0;
        let mut state = inner.state();
        let slot = state.admit(&job.release, inner.config.slots)?;
        state.attempts += 1;
        let attempt = inner.instance.attempt(state.attempts, job.revision);
        let (stop, stopped) = watch::channel(None);
        let (verb, since) = (job.verb.name(), Timestamp::now());
        let running = Running { verb, attempt: attempt.clone(), inputs, since, stopping: None };
        state.tally.of(verb).started += 1;
        state.running.insert(job.release.clone(), Entry { running, slot, stop });
        drop(state);
        inner.poke();
        let begun = Begun { slot, attempt: attempt.clone(), since, input };
        tokio::spawn(Arc::clone(inner).see_through(job, begun, stopped));
        Ok(attempt)
    }

    /// Asks for the end of a release's child: SIGTERM to its group, SIGKILL after the grace. `false` when none runs.
    pub fn stop(&self, release: &Key, why: Stop) -> bool {
        let stopping = match self.0.state().running.get(release) {
            Some(entry) => entry.ask(why),
            None => return false,
        };
        if stopping {
            self.0.mark_stopping(release, why);
        }
        true
    }

    /// What runs now.
    pub fn table(&self) -> BTreeMap<Key, Running> {
        let state = self.0.state();
        state.running.iter().map(|(key, entry)| (key.clone(), entry.running.clone())).collect()
    }

    /// How many jobs would find a slot.
    pub fn free_slots(&self) -> usize {
        self.0.config.slots.saturating_sub(self.0.state().running.len())
    }

    /// How many processors there are: no more helms than that compute faster.
    pub fn cores(&self) -> usize {
        self.0.config.cores
    }

    /// What ended since the last call, oldest first. An entry leaves [`Runner::table`] in the same instant as it appears here.
    pub fn take_outcomes(&self) -> Vec<Outcome> {
        std::mem::take(&mut self.0.state().outcomes)
    }

    /// Changes whenever the table or the outcomes do.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Counters for metrics.
    pub fn tally(&self) -> Tally {
        self.0.state().tally.clone()
    }

    /// Starts nothing any more, stops every child, and returns when the last one has ended: at most the grace, and a moment.
    ///
    /// Installs and upgrades leave a failed record, which needs no recovery; an uninstall has no signal handler in helm and
    /// leaves `uninstalling`, which is uninstalled again.
    pub async fn shutdown(&self) {
        let mut changes = self.changes();
        let running: Vec<Key> = {
            let mut state = self.0.state();
            state.closing = true;
            state.running.keys().cloned().collect()
        };
        for release in running {
            self.stop(&release, Stop::Shutdown);
        }
        // The sender lives in self, so waiting cannot fail.
        drop(changes.wait_for(|_| self.0.state().running.is_empty()).await);
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Runner").field("running", &self.table()).finish_non_exhaustive()
    }
}

/// What a job is once it has its slot.
struct Begun {
    slot: usize,
    attempt: Attempt,
    since: Timestamp,
    input: Option<Vec<u8>>,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poke(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn mark_stopping(&self, release: &Key, why: Stop) {
        if let Some(entry) = self.state().running.get_mut(release) {
            entry.running.stopping.get_or_insert(why);
        }
        self.poke();
    }

    async fn see_through(self: Arc<Self>, job: Job, mut begun: Begun, stop: watch::Receiver<Option<Stop>>) {
        let clock = Instant::now();
        let Job { release, verb, scrubber, deadline, .. } = job;
        let (kind, command) = (verb.name(), self.command(&release, &verb, &begun));
        // The values live on in the input alone.
        drop(verb);
        let run = Run { command, input: begun.input.take(), deadline, grace: self.config.grace };
        let stopping = |why| self.mark_stopping(&release, why);
        let (exit, tail) = child::run(run, &self.spawner, stop, stopping).await;
        let (failure, text) = explain(&exit, &tail, &scrubber);
        let Begun { attempt, since: started, .. } = begun;
        let duration = clock.elapsed();
        self.finish(Outcome { release, verb: kind, attempt, exit, failure, text, started, duration });
    }

    fn command(&self, release: &Key, verb: &Verb, begun: &Begun) -> tokio::process::Command {
        let slot = format!("slot-{}", begun.slot);
        let mut command = match &self.config.wrapper {
            Some(wrapper) => self.program.command_through(wrapper, &slot),
            None => self.program.command(&slot),
        };
        command.env(super::instance::VARIABLE, self.instance.as_str());
        command.args(match verb {
            Verb::Upgrade(upgrade) => upgrade.arguments(release, &begun.attempt, self.program.version()),
            Verb::Uninstall(uninstall) => uninstall.arguments(release),
        });
        command
    }

    fn finish(&self, outcome: Outcome) {
        let mut state = self.state();
        state.running.remove(&outcome.release);
        state.tally.of(outcome.verb).count(&outcome);
        state.outcomes.push(outcome);
        drop(state);
        self.poke();
    }
}

impl State {
    fn admit(&self, release: &Key, slots: usize) -> Result<usize, Refused> {
        if self.closing {
            return Err(Refused::Closing);
        }
        if self.running.contains_key(release) {
            return Err(Refused::Busy);
        }
        let taken: BTreeSet<usize> = self.running.values().map(|entry| entry.slot).collect();
        (0..slots).find(|slot| !taken.contains(slot)).ok_or(Refused::Full)
    }
}

impl Entry {
    /// The first reason counts; `true` when it is this one.
    fn ask(&self, why: Stop) -> bool {
        self.stop.send_if_modified(|stop| {
            let first = stop.is_none();
            stop.get_or_insert(why);
            first
        })
    }
}

/// The newline matters: helm 4 before 4.3 drops a document that lacks it and is a multiple of 4096 bytes long (helm#32506).
pub(super) fn document(values: &serde_json::Value) -> Result<Vec<u8>, Refused> {
    let mut document = serde_json::to_vec(values).map_err(|_| Refused::Values)?;
    document.push(b'\n');
    Ok(document)
}

/// What helm's end means, and helm's words for it.
fn explain(exit: &Exit, tail: &Tail, scrubber: &Scrubber) -> (Option<Failure>, String) {
    match exit {
        Exit::Success => (None, String::new()),
        Exit::Stopped { why, .. } => (None, why.to_string()),
        Exit::Failed(_) | Exit::NotStarted => {
            let said = tail.text(scrubber);
            (Some(classify(&said)), condense(&said))
        }
        Exit::Signalled(signal) => {
            let said = condense(&tail.text(scrubber));
            let colon = if said.is_empty() { "" } else { ": " };
            (Some(Failure::Other), format!("helm was ended by signal {signal}{colon}{said}"))
        }
    }
}

#[cfg(test)]
mod tests;
