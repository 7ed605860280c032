//! What keeps the tasks from seeing the cluster, for people.

#![allow(clippy::disallowed_methods, reason = "the shell's clock: when a problem is over")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// What fails must go on failing for so long before it is told: an API server that restarts is no news.
const GRACE: Duration = Duration::from_secs(5);

/// What was not met again for so long is over. A watch that got through again has nothing to say until something changes,
/// so silence must do; it is longer than any pause between two attempts.
const OVER: Duration = Duration::from_secs(12);

/// How often it is looked whether that time has come, while there are problems.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The board on which tasks note what fails. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Problems {
    board: Arc<Mutex<BTreeMap<What, Problem>>>,
    noted: Arc<Notify>,
}

/// What a task is doing, and to what.
type What = (&'static str, String);

#[derive(Debug)]
struct Problem {
    message: String,
    first: Instant,
    last: Instant,
    /// Whether it is told without waiting whether it is met again.
    at_once: bool,
}

impl Problems {
    /// Notes that doing `doing` to `what` fails: what was tried and will be tried again.
    pub(super) fn fails(&self, doing: &'static str, what: &str, message: String) {
        self.note((doing, what.to_owned()), message, false, Instant::now());
    }

    /// Notes that something happened to `what` that will not happen again by itself.
    pub(super) fn happened(&self, doing: &'static str, what: &str, message: String) {
        self.note((doing, what.to_owned()), message, true, Instant::now());
    }

    fn note(&self, what: What, message: String, at_once: bool, now: Instant) {
        let mut board = self.board();
        match board.get_mut(&what) {
            Some(problem) if problem.message == message => problem.last = now,
            _ => {
                tracing::warn!(doing = what.0, what = what.1, message, "a task cannot see the cluster");
                let first = board.get(&what).map_or(now, |problem| problem.first);
                board.insert(what, Problem { message, first, last: now, at_once });
                self.noted.notify_one();
            }
        }
    }

    /// Notes that doing `doing` to `what` works.
    pub(super) fn works(&self, doing: &'static str, what: &str) {
        let mut board = self.board();
        if !board.is_empty() {
            board.remove(&(doing, what.to_owned()));
        }
    }

    /// What fails now, one line for each cause.
    pub(super) fn list(&self) -> Vec<String> {
        self.list_at(Instant::now())
    }

    fn list_at(&self, now: Instant) -> Vec<String> {
        let mut board = self.board();
        board.retain(|_, problem| now.duration_since(problem.last) < OVER);
        let mut causes: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for ((doing, what), problem) in board.iter() {
            if problem.at_once || problem.last.duration_since(problem.first) >= GRACE {
                causes.entry((doing, &problem.message)).or_default().push(what);
            }
        }
        causes.into_iter().map(|((doing, message), what)| format!("{doing} {}: {message}", what.join(", "))).collect()
    }

    /// Pokes whenever [`Problems::list`] has something else to tell.
    pub(super) async fn follow(self, poke: Arc<Notify>) {
        let mut told = Vec::new();
        loop {
            let now = self.list();
            if now != told {
                told = now;
                poke.notify_one();
            }
            let quiet = self.board().is_empty();
            if quiet { self.noted.notified().await } else { tokio::time::sleep(LOOK_AGAIN).await }
        }
    }

    /// A task that panicked in here left a map of texts, which is whole.
    fn board(&self) -> MutexGuard<'_, BTreeMap<What, Problem>> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
