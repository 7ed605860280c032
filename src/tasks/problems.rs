//! What keeps the tasks from seeing the cluster, for people.

#![allow(clippy::disallowed_methods, reason = "the shell's clock: when a problem is over")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A problem that was not met again for so long is over: a watch tries at least every 30 s (kube's `DefaultBackoff`), and
/// one that got through again has nothing to say until something changes.
const OVER: Duration = Duration::from_secs(75);

/// The board on which tasks note what fails. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Problems(Arc<Mutex<BTreeMap<String, (String, Instant)>>>);

impl Problems {
    /// Notes that `what` fails.
    pub(super) fn set(&self, what: &str, message: String) {
        tracing::warn!(what, message, "a task cannot see the cluster");
        self.board().insert(what.to_owned(), (message, Instant::now()));
    }

    /// Notes that `what` works.
    pub(super) fn clear(&self, what: &str) {
        self.board().remove(what);
    }

    /// What fails now.
    pub(super) fn list(&self) -> Vec<String> {
        let mut board = self.board();
        board.retain(|_, (_, met)| met.elapsed() < OVER);
        board.iter().map(|(what, (message, _))| format!("{what}: {message}")).collect()
    }

    /// A task that panicked in here left a map of texts, which is whole.
    fn board(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, (String, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
