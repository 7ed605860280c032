//! One child, from start to end.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::sync::watch;

use super::spawner::Spawner;
use super::tail::Tail;
use super::{Failure, Key};
use osdpl_core::release::Attempt;

/// How long stderr may outlive the child: a grandchild that inherited it must not keep us waiting.
const STDERR_LINGERS: Duration = Duration::from_secs(1);

/// Why a child is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The plan wants it: newer inputs, or a deletion.
    Asked,
    /// It took longer than its wall deadline.
    Deadline,
    /// The operator ends.
    Shutdown,
}

impl fmt::Display for Stop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Asked => "it was stopped for newer inputs",
            Self::Deadline => "it was stopped after its wall deadline",
            Self::Shutdown => "it was stopped because the operator ended",
        })
    }
}

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// helm did what was asked.
    Success,
    /// helm said no; the code is 1 but for crashes of helm itself.
    Failed(i32),
    /// Someone else's signal ended it: the kernel's out-of-memory killer, an impatient human.
    Signalled(i32),
    /// We stopped it; `killed` when SIGTERM was not enough, which leaves a pending record.
    Stopped {
        /// Why.
        why: Stop,
        /// Whether SIGKILL was needed.
        killed: bool,
    },
    /// It never ran.
    NotStarted,
}

/// What became of one run of helm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The release.
    pub release: Key,
    /// `upgrade` or `uninstall`.
    pub verb: &'static str,
    /// Which run it was, and for which revision.
    pub attempt: Attempt,
    /// How it ended.
    pub exit: Exit,
    /// What helm's words mean; `None` when it succeeded or was stopped.
    pub failure: Option<Failure>,
    /// helm's last words, condensed and without secrets; empty when it succeeded.
    pub text: String,
    /// When it started.
    pub started: Timestamp,
    /// How long it ran.
    pub duration: Duration,
}

impl Outcome {
    /// Whether helm did what was asked.
    pub fn succeeded(&self) -> bool {
        self.exit == Exit::Success
    }
}

/// What to run, and within which bounds.
pub(super) struct Run {
    pub(super) command: Command,
    /// For stdin.
    pub(super) input: Option<Vec<u8>>,
    pub(super) deadline: Duration,
    pub(super) grace: Duration,
}

/// Runs a child to its end. `stop` carries the wish to end it early; `stopping` is told when that begins.
pub(super) async fn run(
    run: Run,
    spawner: &Spawner,
    mut stop: watch::Receiver<Option<Stop>>,
    stopping: impl FnOnce(Stop),
) -> (Exit, Tail) {
    let Run { mut command, input, deadline, grace } = run;
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut child = match spawner.spawn(command).await {
        Ok(child) => child,
        Err(error) => return (Exit::NotStarted, not_started(&error)),
    };
    if let (Some(stdin), Some(input)) = (child.stdin.take(), input) {
        tokio::spawn(feed(stdin, input));
    }
    let tail = Arc::new(Mutex::new(Tail::default()));
    let reader = child.stderr.take().map(|stderr| tokio::spawn(listen(stderr, Arc::clone(&tail))));
    let exit = tokio::select! {
        status = child.wait() => exit_of(&status),
        why = wanted(&mut stop) => { stopping(why); end(&mut child, why, grace).await }
        () = tokio::time::sleep(deadline) => {
            stopping(Stop::Deadline);
            end(&mut child, Stop::Deadline, grace).await
        }
    };
    if let Some(mut reader) = reader
        && tokio::time::timeout(STDERR_LINGERS, &mut reader).await.is_err()
    {
        reader.abort();
    }
    let tail = std::mem::take(&mut *tail.lock().unwrap_or_else(PoisonError::into_inner));
    (exit, tail)
}

fn not_started(error: &io::Error) -> Tail {
    let mut tail = Tail::default();
    tail.push(format!("Error: helm did not start: {error}").as_bytes());
    tail
}

/// A helm that ends before it read everything is no error here: its exit says why.
async fn feed(mut stdin: ChildStdin, input: Vec<u8>) {
    drop(stdin.write_all(&input).await);
    drop(stdin.shutdown().await);
}

async fn listen(mut stderr: ChildStderr, tail: Arc<Mutex<Tail>>) {
    let mut buffer = vec![0; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
        tail.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..length]);
    }
}

async fn wanted(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match stop.wait_for(Option::is_some).await.map(|why| *why) {
        Ok(Some(why)) => why,
        // Nobody is left who could ask.
        Ok(None) | Err(_) => std::future::pending().await,
    }
}

/// SIGTERM to the whole group, SIGKILL when that was not enough. An install or upgrade then marks its record failed;
/// `uninstall` has no handler and simply ends, which leaves `uninstalling` behind.
async fn end(child: &mut Child, why: Stop, grace: Duration) -> Exit {
    signal(child, Signal::TERM);
    let in_time = tokio::time::timeout(grace, child.wait()).await.ok();
    let killed = in_time.is_none();
    let exit = if let Some(status) = in_time {
        exit_of(&status)
    } else {
        signal(child, Signal::KILL);
        exit_of(&child.wait().await)
    };
    match exit {
        // It was through before the signal reached it.
        Exit::Success => Exit::Success,
        Exit::Failed(_) | Exit::Signalled(_) | Exit::Stopped { .. } | Exit::NotStarted => Exit::Stopped { why, killed },
    }
}

/// `id` is `None` once the child was reaped, so its number is never another process's.
fn signal(child: &Child, signal: Signal) {
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(group) = group {
        // It may have ended this instant; wait() tells.
        let _ = kill_process_group(group, signal);
    }
}

fn exit_of(status: &io::Result<ExitStatus>) -> Exit {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(0), _) => Exit::Success,
            (Some(code), _) => Exit::Failed(code),
            (None, signal) => Exit::Signalled(signal.unwrap_or_default()),
        },
        Err(_) => Exit::Signalled(0),
    }
}
