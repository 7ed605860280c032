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

/// A request to the supervisor about one component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Kill the component with SIGKILL, and wait until it has exited.
    Kill(Component),
    /// Stop the component with SIGSTOP: it keeps its connections, but does not respond.
    Freeze(Component),
    /// Continue a frozen component with SIGCONT.
    Thaw(Component),
    /// Start a killed component again with the same command line. If the component is the API server, wait until it is
    /// ready.
    Start(Component),
}

type Answer = Result<(), String>;

/// The time for which the supervisor waits for the request of a connected client.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Responds to requests, one after the other, until the supervisor must stop.
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
        Err(error) => Err(format!("the supervisor does not understand the request: {error}")),
    };
    // Ignore an error: it means that the client has disconnected.
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

/// Sends a request to the supervisor of the folder's cluster, and waits for the supervisor's response.
pub(crate) async fn send(folder: &Folder, request: Request) -> Result<(), Error> {
    let failed = |reason: String| Error::Supervisor { reason };
    let state = State::of_running(folder)?;
    let socket = format!("/proc/{}/cwd/{SOCKET}", state.supervisor.pid);
    let stream = UnixStream::connect(&socket)
        .await
        .map_err(|error| failed(format!("cannot connect to the supervisor: {error}")))?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    let request = format!("{}\n", serde_json::json!(request));
    let written = stream.write_all(request.as_bytes()).await;
    let read = stream.read_line(&mut line).await;
    written.and(read).map_err(|error| failed(format!("the supervisor closed the connection: {error}")))?;
    let answer: Answer = serde_json::from_str(&line)
        .map_err(|_| failed(format!("the supervisor did not respond to {}", request.trim())))?;
    answer.map_err(failed)
}
