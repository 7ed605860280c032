//! The thread that starts children.
//!
//! The kernel sends a parent's death signal when the *thread* that forked ends, not the process. A runtime's worker
//! threads come and go, and one of them going would end an unrelated helm. This one lives as long as the Runner.

use std::io;
use std::sync::mpsc;

use tokio::process::{Child, Command};
use tokio::sync::oneshot;

struct Request {
    command: Command,
    reply: oneshot::Sender<io::Result<Child>>,
}

/// A handle to the thread; when the last one is dropped the thread ends, and so do children tied to it.
#[derive(Clone)]
pub(super) struct Spawner(mpsc::Sender<Request>);

impl Spawner {
    /// Starts the thread; children report to the runtime that this is called in.
    pub(super) fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Handle::current();
        let (sender, requests) = mpsc::channel::<Request>();
        std::thread::Builder::new().name("helm-spawner".to_owned()).spawn(move || {
            let _entered = runtime.enter();
            for Request { mut command, reply } in requests {
                // Whoever asked is gone only when the runtime ends, and the child ends with this thread then.
                drop(reply.send(command.spawn()));
            }
        })?;
        Ok(Self(sender))
    }

    /// Starts a child from that thread.
    pub(super) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts children has ended");
        self.0.send(Request { command, reply }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}
