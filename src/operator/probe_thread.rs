//! The thread that answers the kubelet's probes of the operator, serves the metrics, and probes the APIs of OpenStack
//! services.
//!
//! Reconcile passes run on the operator's main thread. While a pass uses the processor, the kubelet must still get an
//! answer from `/livez`, and the time that a pass takes must not count as response time of an OpenStack API.

use anyhow::Context as _;
use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A handle to the thread for probes and metrics, which has its own tokio runtime. Dropping this value stops the thread
/// and the tasks on it.
pub struct ProbeThread {
    runtime: Handle,
    _stop: DropGuard,
}

impl ProbeThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses to start the thread or to create the file descriptors of its
    /// runtime.
    pub fn start() -> anyhow::Result<Self> {
        let runtime = osdpl_client::runtime().context("creating the runtime for probes")?;
        let (handle, stop) = (runtime.handle().clone(), CancellationToken::new());
        let stopped = stop.clone();
        let run = move || runtime.block_on(stopped.cancelled());
        std::thread::Builder::new().name("probes".into()).spawn(run).context("starting the thread for probes")?;
        Ok(Self { runtime: handle, _stop: stop.drop_guard() })
    }

    /// Returns the handle with which other threads start async tasks on this thread.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tasks_run_on_the_thread_until_it_is_dropped() {
        let thread = ProbeThread::start().unwrap();
        let name = thread.runtime().spawn(async { std::thread::current().name().map(str::to_owned) });
        assert_eq!(name.await.unwrap().as_deref(), Some("probes"));
        let endless = thread.runtime().spawn(std::future::pending::<()>());
        drop(thread);
        assert!(endless.await.unwrap_err().is_cancelled());
    }
}
