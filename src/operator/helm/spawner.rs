//! The thread that starts helm processes.
//!
//! A helm process gets a signal from the kernel when its parent ends (see [`exec`](super::exec)). For the kernel, the
//! parent is the *thread* that forked, not the process. The worker threads of a runtime come and go, and the end of one
//! would end a helm process. The thread of this module lives as long as the Runner.

use std::io;
use std::sync::mpsc;

use tokio::process::{Child, Command};
use tokio::sync::oneshot;

struct Request {
    command: Command,
    reply: oneshot::Sender<io::Result<Child>>,
}

/// A handle to the thread. When the last one is dropped, the thread and its helm processes end.
#[derive(Clone)]
pub(super) struct Spawner(mpsc::Sender<Request>);

impl Spawner {
    /// Starts the thread. The current tokio runtime waits for the processes that the thread starts.
    pub(super) fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Handle::current();
        let (sender, requests) = mpsc::channel::<Request>();
        std::thread::Builder::new().name("helm-spawner".to_owned()).spawn(move || {
            let _entered = runtime.enter();
            for Request { mut command, reply } in requests {
                // Sending fails only if the runtime has ended. Then this thread ends, and the helm process with it.
                drop(reply.send(command.spawn()));
            }
        })?;
        Ok(Self(sender))
    }

    /// Starts a process from the thread of this spawner.
    pub(super) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (reply, response) = oneshot::channel();
        let thread_ended = || io::Error::other("the thread that starts helm has ended");
        self.0.send(Request { command, reply }).map_err(|_| thread_ended())?;
        response.await.map_err(|_| thread_ended())?
    }
}
