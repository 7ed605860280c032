//! The supervisor's control socket: one JSON request and one JSON response per connection.

use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use super::{Children, StopSignal, boot, state};
use crate::Error;
use crate::components::Component;
use crate::folder::{Folder, SOCKET};
use crate::spec::State;

/// The requests that the supervisor handles for a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// SIGKILL, and wait until it has exited.
    Kill(Component),
    /// SIGSTOP: it keeps its connections without responding.
    Freeze(Component),
    /// SIGCONT.
    Thaw(Component),
    /// Start it again with the same command line; for the API server, wait until it is ready.
    Start(Component),
}

type Answer = Result<(), String>;

/// The timeout for a client's request; clients are processes of this crate, so it is short.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Handles requests until there is a reason to stop.
pub(super) async fn serve(listener: UnixListener, children: &mut Children, stop: &mut StopSignal) {
    loop {
        tokio::select! {
            () = stop.wait() => return,
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    tokio::select! {
                        () = stop.wait() => return,
                        () = respond(stream, children) => {}
                    }
                }
            }
        }
    }
}

async fn respond(stream: UnixStream, children: &mut Children) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    if !matches!(timeout(TIMEOUT, stream.read_line(&mut line)).await, Ok(Ok(_))) {
        return;
    }
    let answer: Answer = match serde_json::from_str(&line) {
        Ok(request) => handle(request, children).await.map_err(|error| error.to_string()),
        Err(error) => Err(format!("not a request: {error}")),
    };
    // A client that has disconnected does not need the response.
    let _ = stream.write_all(format!("{}\n", serde_json::json!(answer)).as_bytes()).await;
}

async fn handle(request: Request, children: &mut Children) -> Result<(), Error> {
    match request {
        Request::Kill(component) => children.kill(component).await,
        Request::Freeze(component) => children.freeze(component).await,
        Request::Thaw(component) => children.signal(component, Signal::CONT),
        Request::Start(Component::Apiserver) => boot::start_apiserver(children).await?,
        Request::Start(component) => children.start(component)?,
    }
    state(children, true)?.write(&children.folder)
}

/// Sends a request to the supervisor of a folder's cluster.
pub(crate) async fn send(folder: &Folder, request: Request) -> Result<(), Error> {
    let failed = |reason: String| Error::Supervisor { reason };
    let state = State::of_running(folder)?;
    let socket = format!("/proc/{}/cwd/{SOCKET}", state.supervisor.pid);
    let stream = UnixStream::connect(&socket).await.map_err(|error| failed(format!("no answer: {error}")))?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    let request = format!("{}\n", serde_json::json!(request));
    let written = stream.write_all(request.as_bytes()).await;
    let read = stream.read_line(&mut line).await;
    written.and(read).map_err(|error| failed(format!("no answer: {error}")))?;
    let answer: Answer =
        serde_json::from_str(&line).map_err(|_| failed(format!("no response to {}", request.trim())))?;
    answer.map_err(failed)
}
