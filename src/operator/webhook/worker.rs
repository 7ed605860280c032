//! Runs the webhook's validations one at a time, on a separate thread.
//!
//! A validation and the build of its catalogue take CPU time. On the operator's main thread, they would delay reconcile
//! passes. On the only thread that tokio uses for blocking work, they would delay reads of charts and release records.

use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::Context as _;
use tokio::sync::{mpsc, oneshot};

type Job = Box<dyn FnOnce() + Send>;

/// The thread that runs validations. When this value is dropped, the thread finishes the waiting jobs, and ends.
pub(super) struct Worker {
    jobs: mpsc::Sender<Job>,
}

impl Worker {
    /// Starts the thread. At most `waiting` jobs can wait for it; a further call of `run` waits until there is room.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses to start the thread.
    pub(super) fn start(waiting: usize) -> anyhow::Result<Self> {
        let (jobs, mut queue) = mpsc::channel::<Job>(waiting);
        let run = move || {
            while let Some(job) = queue.blocking_recv() {
                // Ignore a panic of the job: Rust has already printed the message of the panic, and the thread must
                // go on with the next job.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
        };
        std::thread::Builder::new().name("webhook".into()).spawn(run).context("starting the webhook's thread")?;
        Ok(Self { jobs })
    }

    /// Runs `work` on the thread, and returns the result of `work`; `None` if `work` panicked.
    ///
    /// If the caller no longer waits for the result, the thread skips `work`.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, result) = oneshot::channel();
        let job = move || {
            if !sender.is_closed() {
                let _ = sender.send(work());
            }
        };
        self.jobs.send(Box::new(job)).await.ok()?;
        result.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn survives_a_panic_and_skips_abandoned_jobs() {
        let worker = Worker::start(1).unwrap();
        assert_eq!(worker.run(|| -> u8 { panic!("hunter2") }).await, None);
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let mut blocking = Box::pin(worker.run(move || wait.recv()));
        assert!(futures::poll!(&mut blocking).is_pending());
        let mut abandoned = Box::pin(worker.run(|| -> u8 { panic!("an abandoned job must not run") }));
        assert!(futures::poll!(&mut abandoned).is_pending());
        drop(abandoned);
        release.send(()).unwrap();
        blocking.await.unwrap().unwrap();
        assert_eq!(worker.run(|| std::thread::current().name() == Some("webhook")).await, Some(true));
    }
}
