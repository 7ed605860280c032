//! Starts all helm processes from one dedicated thread, which lives as long as the Runner.
//!
//! A helm process gets a signal from the kernel when its parent ends (see [`exec`](super::exec)). For the kernel, the
//! parent is the *thread* that forked the process. So the worker threads of the async runtime must not fork helm: the
//! runtime may end a worker thread at any time, which would end the helm process, too.

use std::io;
use std::sync::mpsc;

use tokio::process::{Child, Command};
use tokio::sync::oneshot;

struct Request {
    command: Command,
    reply: oneshot::Sender<io::Result<Child>>,
}

/// A handle to the thread that starts processes. When the last handle is dropped, the thread ends, and so do the helm
/// processes that it started.
#[derive(Clone)]
pub(super) struct Spawner(mpsc::Sender<Request>);

impl Spawner {
    /// Starts the thread. The caller must run in a tokio runtime: this runtime notices when a process that the thread
    /// started has ended.
    pub(super) fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Handle::current();
        let (sender, requests) = mpsc::channel::<Request>();
        std::thread::Builder::new().name("helm-spawner".to_owned()).spawn(move || {
            let _entered = runtime.enter();
            for Request { mut command, reply } in requests {
                // Ignore the error: sending the reply fails only if the runtime has ended. In this case, this thread
                // ends, too, and the kernel then ends the helm process, because this thread is its parent.
                drop(reply.send(command.spawn()));
            }
        })?;
        Ok(Self(sender))
    }

    /// Starts a process on the dedicated thread.
    pub(super) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (reply, response) = oneshot::channel();
        let thread_ended = || io::Error::other("the thread that starts helm has ended");
        self.0.send(Request { command, reply }).map_err(|_| thread_ended())?;
        response.await.map_err(|_| thread_ended())?
    }
}
