//! Runs one helm process to its end.

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
use super::{Failure, ReleaseKey};
use osdpl_core::release::{Attempt, Verb};

/// The maximum time for which the operator still reads helm's stderr after the helm process has ended.
///
/// A child of the helm process may have inherited stderr and keep it open. Such a child must not block the operator.
const STDERR_GRACE: Duration = Duration::from_secs(1);

/// Why the operator stops a helm process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// A plan requested the stop, because the inputs of the release have changed, the release must be deleted, or an
    /// uninstall must now skip the hooks.
    Requested,
    /// The process exceeded its deadline.
    Deadline,
    /// The operator shuts down.
    Shutdown,
}

impl fmt::Display for StopReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Requested => "osdpl stopped helm because the operation was outdated",
            Self::Deadline => "osdpl stopped helm because it exceeded the deadline of the whole run",
            Self::Shutdown => "osdpl stopped helm because the operator shuts down",
        })
    }
}

/// The way in which a helm process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// helm succeeded.
    Success,
    /// helm failed with this exit code. The code is 1 unless helm itself crashed.
    Failed(i32),
    /// A signal with this number, which the operator did not send, ended helm. For example, the kernel sends SIGKILL if
    /// memory is short. The number is 0 if the operator can't find out how helm ended.
    Signalled(i32),
    /// The operator stopped helm.
    Stopped {
        /// Why the operator stopped helm.
        why: StopReason,
        /// Whether the operator sent SIGKILL, because helm did not end after SIGTERM. After SIGKILL, helm leaves a
        /// pending record.
        killed: bool,
    },
    /// helm could not be started.
    NotStarted,
}

/// The outcome of one run of helm. The Runner keeps it until a pass takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The release that helm worked on.
    pub release: ReleaseKey,
    /// The operation that helm executed: upgrade or uninstall.
    pub verb: Verb,
    /// The attempt, which identifies the operator process, the run of helm and the revision.
    pub attempt: Attempt,
    /// The way in which the helm process ended.
    pub exit: Exit,
    /// The kind of failure that helm's message describes; `None` if helm succeeded or the operator stopped it.
    pub failure: Option<Failure>,
    /// Why helm failed: helm's error message, condensed to one line and without secrets, or the reason for which the
    /// operator stopped helm. Empty if helm succeeded.
    pub text: String,
    /// When the helm process started.
    pub started: Timestamp,
    /// The time for which the helm process ran.
    pub duration: Duration,
}

impl Outcome {
    /// Whether helm succeeded.
    pub(crate) fn succeeded(&self) -> bool {
        self.exit == Exit::Success
    }
}

/// The command that [`run`] executes, with the input and the time limits of its process.
pub(super) struct Run {
    pub(super) command: Command,
    /// The bytes that the process reads from stdin; `None` for an empty stdin.
    pub(super) input: Option<Vec<u8>>,
    pub(super) deadline: Duration,
    pub(super) grace: Duration,
}

/// Starts a process and waits until it has ended. Returns how it ended, and the first and last part of its stderr.
///
/// The function stops the process as soon as `stop` contains a reason, and at the latest at the deadline. It calls
/// `stopping` with the reason before it sends a signal to the process.
pub(super) async fn run(
    run: Run,
    spawner: &Spawner,
    mut stop: watch::Receiver<Option<StopReason>>,
    stopping: impl FnOnce(StopReason),
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
    let reader = child.stderr.take().map(|stderr| tokio::spawn(read_stderr(stderr, Arc::clone(&tail))));
    let exit = tokio::select! {
        status = child.wait() => exit_of(&status),
        why = wait_for_stop(&mut stop) => { stopping(why); terminate(&mut child, why, grace).await }
        () = tokio::time::sleep(deadline) => {
            stopping(StopReason::Deadline);
            terminate(&mut child, StopReason::Deadline, grace).await
        }
    };
    if let Some(mut reader) = reader
        && tokio::time::timeout(STDERR_GRACE, &mut reader).await.is_err()
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

/// Writes the input to helm's stdin.
///
/// The function ignores a failed write, which only means that helm ended before it had read the whole input. In this
/// case, helm's exit code and stderr give the reason.
pub(super) async fn feed(mut stdin: ChildStdin, input: Vec<u8>) {
    drop(stdin.write_all(&input).await);
    drop(stdin.shutdown().await);
}

async fn read_stderr(mut stderr: ChildStderr, tail: Arc<Mutex<Tail>>) {
    let mut buffer = vec![0; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
        tail.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..length]);
    }
}

async fn wait_for_stop(stop: &mut watch::Receiver<Option<StopReason>>) -> StopReason {
    match stop.wait_for(Option::is_some).await.map(|why| *why) {
        Ok(Some(why)) => why,
        // All senders of `stop` are dropped, so no request to stop the process can arrive any more. Wait for ever.
        Ok(None) | Err(_) => std::future::pending().await,
    }
}

/// Sends SIGTERM to the process group, and SIGKILL after the grace period.
///
/// On SIGTERM, helm marks the record of an install or upgrade as failed. During an uninstall, helm has no signal
/// handler and leaves the record at `uninstalling`.
async fn terminate(child: &mut Child, why: StopReason, grace: Duration) -> Exit {
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
        // helm completed its work in spite of the signal, or before the signal arrived.
        Exit::Success => Exit::Success,
        Exit::Failed(_) | Exit::Signalled(_) | Exit::Stopped { .. } | Exit::NotStarted => Exit::Stopped { why, killed },
    }
}

/// Sends a signal to the process group of helm.
///
/// `Child::id` is `None` after the process was reaped, so the signal never reaches a newer process with the same id.
fn signal(child: &Child, signal: Signal) {
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(group) = group {
        // Ignore an error: it only means that the process has just ended, which `wait()` reports.
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
